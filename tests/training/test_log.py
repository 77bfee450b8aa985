"""What is printed while a run trains."""

from scdh.training.log import RunLog


def printed(capsys, epochs, seconds):
    now = [0.0]
    log = RunLog(None, 0, quiet=False, clock=lambda: now[0])
    for epoch in range(1, epochs + 1):
        now[0] += seconds
        log.write_epoch([], {"epoch": epoch, "seconds": seconds, "items_per_second": 10.0, "loss": 1.0})
    log.close()
    return [int(line.split()[1]) for line in capsys.readouterr().err.splitlines()]


def test_short_epochs_have_a_line_every_two_seconds_and_the_last_one_always(capsys):
    assert printed(capsys, 300, 0.25) == [*range(1, 300, 8), 300]


def test_long_epochs_have_a_line_each(capsys):
    assert printed(capsys, 4, 60.0) == [1, 2, 3, 4]

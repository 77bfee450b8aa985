"""Long work in a pipe says now and then how far it is; short work says nothing."""

import io
from contextlib import redirect_stderr

import pytest

from scdh import progress
from scdh.progress import ProgressLines, count_progress, track


class Clock:
    seconds = 0.0

    def __call__(self):
        return self.seconds


def lines_of(total, steps, *, seconds, size=1, unit="items"):
    clock, written = Clock(), []
    lines = ProgressLines(
        total, "encoding", unit, clock=clock, write=lambda line: written.append((clock.seconds, line))
    )
    for _ in range(steps):
        clock.seconds += seconds
        lines.advance(size)
    return written


def test_the_first_line_comes_after_ten_seconds_and_gaps_grow():
    written = lines_of(10**9, 1000, seconds=1.0)
    times = [seconds for seconds, _ in written]
    assert times == [10, 40, 100, 220, 460, 760]


def test_a_line_says_how_much_how_fast_and_how_long():
    ((_, line),) = lines_of(60_000, 60, seconds=10 / 59, size=200)
    assert line == "encoding: 12,000 of 60,000, 1,180 items/s, 41 s left"
    ((_, line),) = lines_of(100, 3, seconds=10.0, unit="runs")
    assert line == "encoding: 1 of 100 runs, 10 s each, 16 min left"
    assert lines_of(10_000, 1, seconds=20.0)[0][1].endswith("55.5 h left")


def test_a_bound_is_called_one_and_may_fall():
    clock, written = Clock(), []
    trials = ProgressLines(0, "trying settings", "epochs", is_bound=True, clock=clock, write=written.append)
    for total in (40, 40, 12):
        clock.seconds += 20.0
        trials.advance(1, total=total)
    assert written == [
        "trying settings: 1 of at most 40 epochs, 20 s each, at most 13 min left",
        "trying settings: 3 of at most 12 epochs, 20 s each, at most 3 min left",
    ]


def test_work_of_unknown_length_has_no_end():
    assert lines_of(0, 1, seconds=20.0, size=100) == [(20.0, "encoding: 100 items, 5 items/s")]
    assert lines_of(0, 1, seconds=37.0, unit="trials") == [(37.0, "encoding: 1 trials, 37 s each")]


@pytest.mark.parametrize(("steps", "seconds"), [(9, 1.0), (1, 60.0)])
def test_short_work_and_the_end_of_work_print_nothing(steps, seconds):
    assert lines_of(steps, steps, seconds=seconds) == []


def test_a_pipe_gets_lines_and_no_bar(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.setattr(progress, "FIRST_LINE", 0.0)
    err = io.StringIO()
    with redirect_stderr(err):
        assert list(track(range(4), 4, "counting")) == [0, 1, 2, 3]
        with count_progress(4, "hidden", visible=False) as advance:
            advance(1)
    assert err.getvalue().startswith("counting: 1 of 4, ")
    assert err.getvalue().count("\n") == 1
    assert "hidden" not in err.getvalue()

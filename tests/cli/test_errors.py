"""Every wrong input ends in one sentence and exit code 2; the cases are in tests/cli/bad_input_table.py."""

import errno
from pathlib import Path

import pytest
import torch

from scdh.cli.app import explain
from tests.cli.bad_files import SMALL, prepare
from tests.cli.bad_input_table import CASES, Case
from tests.cli.commands import run


@pytest.fixture(scope="module")
def wrong_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("wrong")
    prepare(folder)
    return folder


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_one_sentence(case: Case, wrong_files: Path) -> None:
    code, out, err = run(case.command_in(wrong_files))
    assert code == 2, (out, err)
    assert err.startswith("Error: "), err
    assert err.count("\n") == 1, err
    assert err.endswith("\n"), err
    assert "Traceback" not in out + err
    assert "This should not" not in err
    for text in case.expected:
        assert text in err


def test_skipping_a_corrupt_image_says_how_many(wrong_files: Path) -> None:
    d = wrong_files
    code, out, err = run(f"encode {d}/photo_run {d}/corrupt --on-bad-image skip --out {d}/s.codes")
    assert code == 0
    assert "15 codes of 16 bits" in out
    assert err.startswith("Warning: 1 image could not be read")
    assert "04.jpg" in err
    assert err.count("\n") == 1


def test_training_skips_a_corrupt_image_too(wrong_files: Path) -> None:
    d = wrong_files
    code, _, err = run(f"train --data {d}/corrupt {SMALL} --set data.split=all --on-bad-image skip --out {d}/skipping")
    assert code == 0
    assert "Warning: 1 " in err
    assert "04.jpg" in err
    assert ".py" not in err


def test_a_used_run_folder_is_noticed_before_the_plan(wrong_files: Path) -> None:
    assert run(f"train --preset demo-digits --out {wrong_files}/run")[1] == ""


def test_debug_shows_the_trace_wherever_it_stands() -> None:
    for command in ("--debug search nowhere.index --row 0", "search nowhere.index --row 0 --debug"):
        with pytest.raises(ValueError, match=r"nowhere\.index"):
            run(command)


def test_a_stopped_training_says_how_to_go_on(wrong_files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scdh.training.run.run_plan", stop)
    code, _, err = run(f"train --resume --out {wrong_files}/run")
    assert code == 130
    assert err == f"Stopped; `scdh train --resume --out {wrong_files}/run` goes on.\n"
    code, _, err = run(f"train --preset demo-digits --out {wrong_files}/new")
    assert code == 130
    assert "nothing to resume" in err


def test_other_commands_stop_with_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scdh.cli.datasets._list", stop)
    assert run("datasets") == (130, "", "Stopped.\n")


def test_errors_of_the_system_are_sentences() -> None:
    code, message = explain(OSError(errno.ENOSPC, "No space left on device", "run/last.safetensors"))
    assert code == 2
    assert message.startswith("Error: No space is left on the device to write to ('run/last.safetensors'")
    code, message = explain(PermissionError(errno.EACCES, "Permission denied", "secret"))
    assert code == 2
    assert "'secret' cannot be used: permission denied" in message
    assert explain(MemoryError())[0] == 2
    code, message = explain(KeyError("oops"))
    assert code == 1
    assert "--debug" in message
    assert "oops" in message

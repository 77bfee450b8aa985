"""Files of a run: one process per folder, and checkpoints, settings and scores that were damaged."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import scdh
from scdh.config import load_config
from scdh.errors import ModelError, TrainingError
from scdh.model.folder import tensors_checksum
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from tests.attack.samples import read_checkpoint
from tests.cli.commands import must, run

HOLD = """
import sys, time
from scdh.runs.folder import RunFolder
with RunFolder(sys.argv[1]).held():
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_the_second_process_ends_with_one_sentence_until_the_first_is_killed(holder, tmp_path):
    options = "--preset demo-digits --epochs 1"
    for more in ("", " --resume"):
        code, out, err = run(f"train {options} --out {tmp_path}/run{more}")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "Another process is training in" in err
    with pytest.raises(TrainingError, match="Another process is training"):
        scdh.train(np.eye(8), labels=[0, 1] * 4, out=tmp_path / "run", quiet=True)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {".running"}
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    must(f"train {options} --out {tmp_path}/run")
    RunFolder(tmp_path / "run").check_idle()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_workers_do_not_keep_the_lock_after_a_kill(tmp_path):
    """Decoding workers outlived a killed process by seconds, in which it could not be started again."""
    own = RunFolder(tmp_path / "run")
    with own.held():
        lock = os.stat(own.lock)
        worker = os.fork()
        if worker == 0:
            open_files = (int(name) for name in os.listdir("/dev/fd"))
            os._exit(any(os.path.samestat(lock, os.fstat(number)) for number in open_files if is_open(number)))
        assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 0
        with pytest.raises(TrainingError, match="Another process"):
            own.check_idle()
    own.check_idle()


def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def test_a_lock_that_is_a_pipe_is_rejected(tmp_path):
    (tmp_path / "run").mkdir()
    os.mkfifo(tmp_path / "run/.running")
    code, _, err = run(f"train --preset demo-digits --out {tmp_path}/run")
    assert (code, err.count("\n")) == (2, 1)
    assert "not a file on disk but a pipe" in err


@pytest.mark.slow
def test_of_two_runs_that_start_together_in_a_new_folder_one_trains(tmp_path):
    command = [sys.executable, "-m", "scdh", "train", "--preset", "demo-digits", "--epochs", "20"]
    command += ["--out", str(tmp_path / "run")]
    both = []
    for _ in range(2):
        both.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        time.sleep(0.5)
    results = [(process.communicate(), process.returncode) for process in both]
    assert sorted(code for _, code in results) == [0, 2]
    (_, error), _ = next(result for result in results if result[1] == 2)
    assert "Another process is training in" in error or "already holds a run" in error
    log = (tmp_path / "run/log.csv").read_text().splitlines()
    assert [int(line.split(",")[0]) for line in log[1:]] == list(range(1, 21))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    Hasher.train(load_config("demo-digits", overrides={"train.epochs": 1}), folder, quiet=True)
    assert run(f"evaluate {folder}")[0] == 0
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(trained, tmp_path / "run"))


@pytest.mark.parametrize("state", ["{", "[]", "{}", '{"progress": 3}', "[" * 100_000])
def test_a_state_that_cannot_be_read_is_one_sentence(state: str, copied: RunFolder) -> None:
    with safe_open(copied.checkpoint, framework="pt") as file:
        header = dict(file.metadata())
    tensors, header = load_file(copied.checkpoint), header | {"state": state}
    header["checksum"] = tensors_checksum(tensors, header)
    save_file(tensors, copied.checkpoint, metadata=header)
    with pytest.raises(ModelError, match=r"last.safetensors' is damaged: .*; restore it from a copy, or start a new"):
        read_checkpoint(copied)


BAD = [b"", b"{", b"[]", b"\xff\xfe\x00", b"[" * 100_000, b'{"config": {"train": 3}, "definition": 3}']


@pytest.mark.parametrize("name", ["config.json", "protocol.json", "scores.json", "choices.json", "model/config.json"])
def test_damaged_files_of_a_run_are_one_sentence(name: str, copied: RunFolder) -> None:
    for number, content in enumerate(BAD):
        (copied.path / name).write_bytes(content)
        command = ("info", "evaluate", "train --resume --out")[number % 3]
        code, _, err = run(f"{command} {copied}")
        assert code in (0, 2), (command, err)
        assert "should not have happened" not in err

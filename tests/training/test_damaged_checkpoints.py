"""Checkpoints and the other files of a run that were damaged: one sentence, or nothing changed."""

import json
import random
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from scdh.config import load_config
from scdh.errors import ModelError, ScdhError
from scdh.model.folder import tensors_checksum
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from tests.attack.samples import read_checkpoint
from tests.cli.commands import run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    Hasher.train(load_config("demo-digits", overrides={"train.epochs": 1}), folder, quiet=True)
    assert run(f"evaluate {folder}")[0] == 0
    return folder


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> RunFolder:
    return RunFolder(shutil.copytree(trained, tmp_path / "run"))


def test_a_damaged_checkpoint_is_rejected_or_restores_the_same(copied: RunFolder) -> None:
    expected, good = read_checkpoint(copied), copied.checkpoint.read_bytes()
    rng, rejected = random.Random(0), 0
    for _ in range(150):
        bad = bytearray(good)
        for _ in range(rng.choice((1, 1, 8))):
            place = rng.randrange(len(bad)) if rng.random() < 0.5 else rng.randrange(6000)
            bad[place] ^= 1 << rng.randrange(8)
        copied.checkpoint.write_bytes(bytes(bad))
        try:
            assert read_checkpoint(copied) == expected
        except ModelError:
            rejected += 1
    assert rejected > 125


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


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize(
    "name", ["config.json", "protocol.json", "scores.json", "choices.json", "log.csv", "model/config.json", "steps.csv"]
)
def test_damaged_files_of_a_run_are_one_sentence(name: str, content: bytes, copied: RunFolder) -> None:
    (copied.path / name).write_bytes(content)
    for command in ("info", "evaluate", "train --resume --out"):
        code, _, err = run(f"{command} {copied}")
        assert code in (0, 2), (command, err)
        assert "should not have happened" not in err


@pytest.mark.parametrize("name", ["config.json", "scores.json"])
def test_changed_settings_and_scores_are_noticed(name: str, copied: RunFolder) -> None:
    file = copied.path / name
    good, rng, rejected = file.read_bytes(), random.Random(0), 0
    content = json.loads(good)

    def read() -> dict:
        return {"config": copied.saved_settings()} if name == "config.json" else copied.saved_scores()

    for _ in range(300):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        file.write_bytes(bytes(bad))
        try:
            now = read()
            if name == "config.json":
                assert now["config"] == content["config"]
            else:
                assert {key: now.get(key) for key in content if key != "checksum"} == {
                    key: value for key, value in content.items() if key != "checksum"
                }
        except ScdhError:
            rejected += 1
    assert rejected > 250

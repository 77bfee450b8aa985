"""Which device networks run on: names that are known, devices that are there, one choice for a block or a command."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from scdh.config import load_config
from scdh.errors import ConfigError
from scdh.model.hasher import Hasher
from scdh.nets.device import chosen_device, find_device, on_device, parse_device
from scdh.training.processes import make_accelerator
from tests.cli.commands import must, run

CPU = torch.device("cpu")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends, "mps", SimpleNamespace(is_available=lambda: False))


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


def test_devices_that_are_not_there_are_rejected(no_gpu) -> None:
    assert parse_device("cpu") == find_device() == find_device("auto") == CPU
    assert parse_device("auto") is None
    for name in ("cuda", "cuda:0"):
        with pytest.raises(ConfigError, match=f"Device '{name}' cannot be used: torch .* finds no CUDA GPU; use cpu"):
            parse_device(name)
    with pytest.raises(ConfigError, match="'mps' cannot be used: torch finds no GPU of a Mac"):
        parse_device("mps")
    for name in ("gpu", "cuda:", "cuda:-1", "CPU", "cpu:0", ""):
        with pytest.raises(ConfigError, match=f"Unknown device '{name}'; it is one of auto, cpu"):
            parse_device(name)


def test_a_gpu_is_taken_by_number_or_by_itself(two_gpus) -> None:
    assert parse_device("cuda:1") == torch.device("cuda:1")
    assert find_device() == torch.device("cuda")
    assert find_device("cpu") == CPU
    with pytest.raises(ConfigError, match="'cuda:2' cannot be used: the last CUDA GPU here is cuda:1"):
        parse_device("cuda:2")


def test_a_device_is_chosen_for_a_block(two_gpus) -> None:
    with on_device("cpu"):
        assert find_device() == CPU
        with on_device(None):
            assert find_device() == CPU
        with on_device("cuda:1"):
            assert find_device() == torch.device("cuda:1")
        assert find_device("cuda") == torch.device("cuda")
    assert chosen_device() is None


def test_training_runs_on_the_chosen_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a GPU of its own, precision and device follow the choice, from run to run in one process."""
    with on_device("cpu"):
        assert make_accelerator("auto").device == CPU
        with monkeypatch.context() as patch:
            patch.setattr(torch.cuda, "is_available", lambda: True)
            patch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
            chosen = make_accelerator("auto")
            assert (chosen.device, chosen.mixed_precision) == (CPU, "no")
            with pytest.raises(ConfigError, match="fp16"):
                make_accelerator("fp16")
            patch.setattr(torch.cuda, "device_count", lambda: 2)
            patch.setenv("WORLD_SIZE", "2")
            with on_device("cuda:1"), pytest.raises(ConfigError, match="'cuda:1' is one GPU, but every process"):
                make_accelerator("auto")
    assert make_accelerator("bf16").mixed_precision == "bf16"
    assert make_accelerator("auto").mixed_precision == "no"


def test_models_know_it(tmp_path: Path, no_gpu) -> None:
    config = load_config("demo-digits", overrides={"train.epochs": 1})
    with pytest.raises(ConfigError, match="'cuda' cannot be used"):
        Hasher.train(config, tmp_path / "run", device="cuda")
    assert not (tmp_path / "run").exists()
    Hasher.train(config, tmp_path / "run", device="cpu", quiet=True)
    assert Hasher.load(tmp_path / "run", device="cpu").network.device == CPU
    with pytest.raises(ConfigError, match="'cuda' cannot be used"):
        Hasher.load(tmp_path / "run", device="cuda")


@pytest.mark.slow
def test_commands_take_it(tmp_path: Path, no_gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [
        "train --preset demo-digits --epochs 1 --out run",
        "evaluate run",
        "encode run digits --out all.codes",
        "index all.codes --out all.index",
        "search all.index --row 0",
        "compare lsh --preset demo-digits --bits 8 --seeds 0 --out compared",
    ]
    for command in commands:
        before = sorted(tmp_path.iterdir())
        if not command.startswith("index"):
            for device in ("cuda", "cuda:1", "mps", "gpu"):
                code, out, err = run(f"{command} --device {device}")
                assert (code, out) == (2, "")
                assert f"evice '{device}'" in err
                assert sorted(tmp_path.iterdir()) == before
            command += " --device cpu"
        must(command)
    assert chosen_device() is None  # a command's choice is its own
    assert "device" not in json.dumps(json.loads((tmp_path / "run/config.json").read_text())["config"])
    must("train --resume --out run --device cpu")

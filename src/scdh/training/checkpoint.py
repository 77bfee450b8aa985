"""Checkpoints: everything a run needs to continue as if it had never stopped, in one file, without pickle.

Tensors (weights, optimiser, random state) are safetensors entries; numbers and texts are JSON in the file's header.
The file is written under a temporary name and renamed, so a kill at any moment leaves the last good one.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from scdh.errors import ModelError
from scdh.model.folder import plain_copy, tensors_checksum
from scdh.storage.checksums import CHECKSUM
from scdh.storage.files import replacing
from scdh.storage.json_files import parse_json

FORMAT, VERSION = "scdh-checkpoint", "1"


@dataclass
class Progress:
    """Progress of a run: its id, the epochs done, the log so far, and the best validation score with its epoch."""

    epochs_done: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    best_score: float | None = None
    best_epoch: int | None = None
    run_id: str = ""


def save_checkpoint(
    path: Path,
    modules: dict[str, nn.Module],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    progress: Progress,
    counters: dict[str, int] | None = None,
) -> None:
    """Write the state of a run; ``counters`` are further numbers by name."""
    tensors: dict[str, Tensor] = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"random.cuda.{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    for name, module in modules.items():
        tensors |= {f"{name}.{key}": value for key, value in module.state_dict().items()}
    numbers: dict[str, dict[str, Any]] = {}
    optimiser_state = optimiser.state_dict()
    for index, values in optimiser_state["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimiser.{index}.{key}"] = value
            elif value is not None:
                numbers.setdefault(str(index), {})[key] = value
    state = {
        "progress": vars(progress),
        "optimiser_plain": numbers,
        "optimiser_groups": optimiser_state["param_groups"],
        "schedule": {key: value for key, value in schedule.state_dict().items() if key != "lr_lambdas"},
        "counters": counters or {},
    }
    header = {"format": FORMAT, "version": VERSION, "state": json.dumps(state)}
    stored = {name: plain_copy(tensor) for name, tensor in tensors.items()}
    header[CHECKSUM] = tensors_checksum(stored, header)
    with replacing(path) as temporary:
        save_file(stored, temporary, metadata=header)


def load_checkpoint(
    path: Path,
    modules: dict[str, nn.Module],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> tuple[Progress, dict[str, int]]:
    """Restore modules, optimiser, schedule and random state; returns the progress and the counters.

    Raises:
        ModelError: if the file is damaged, or of another network.
    """
    tensors, state = _read(path)
    try:
        return _restore(path, tensors, state, modules, optimiser, schedule)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        if isinstance(error, ModelError):
            raise
        raise _damaged(path, f"its state lacks or has another {_one_line(error)}") from None


def check_checkpoint(path: Path) -> tuple[int, str]:
    """Read a checkpoint in full; returns the number of epochs done and the id of its run.

    Raises:
        ModelError: if it is damaged.
    """
    _, state = _read(path)
    try:
        return int(state["progress"]["epochs_done"]), str(state["progress"].get("run_id", ""))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise _damaged(path, "it does not say how many epochs are done") from None


def _restore(
    path: Path,
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    modules: dict[str, nn.Module],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> tuple[Progress, dict[str, int]]:
    for name, module in modules.items():
        prefix = f"{name}."
        weights = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
        try:
            module.load_state_dict(weights)
        except RuntimeError as error:
            raise ModelError(f"Checkpoint {str(path)!r} is of another network: {_one_line(error)}.") from None
    entries: dict[int, dict[str, Any]] = {int(i): dict(values) for i, values in state["optimiser_plain"].items()}
    for key, value in tensors.items():
        if key.startswith("optimiser."):
            _, index, entry = key.split(".", 2)
            entries.setdefault(int(index), {})[entry] = value
    groups = optimiser.state_dict()["param_groups"]
    saved_groups = state["optimiser_groups"]
    if [group["param_names"] for group in saved_groups] != [group["param_names"] for group in groups]:
        raise ModelError(f"Checkpoint {str(path)!r} is of another optimiser: its parameters have other names.")
    optimiser.load_state_dict({"state": entries, "param_groups": saved_groups})
    # LambdaLR insists on an entry for its functions; ours is pure and has no state, so none was written.
    schedule.load_state_dict({**state["schedule"], "lr_lambdas": [None] * len(optimiser.param_groups)})
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            if f"random.cuda.{i}" in tensors:
                torch.cuda.set_rng_state(tensors[f"random.cuda.{i}"], i)
    return Progress(**state["progress"]), state["counters"]


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise _damaged(path, "it is not a file on disk")
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != FORMAT:
                raise ModelError(f"{str(path)!r} is not a checkpoint of scdh.")
            if header.get("version") != VERSION:
                version = header.get("version")
                raise ModelError(f"Checkpoint {str(path)!r} has version {version!r}, but only {VERSION!r} can be read.")
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            if header.get(CHECKSUM) != tensors_checksum(tensors, header):
                raise _damaged(path, "it does not match its checksum")
            return tensors, parse_json(header["state"].encode())
    except ModelError:
        raise
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, _one_line(error)) from None


def _damaged(path: Path, reason: str) -> ModelError:
    return ModelError(f"Checkpoint {str(path)!r} is damaged: {reason}; restore it from a copy, or start a new run.")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")

"""Checkpoints: everything a run needs to go on as if it had never stopped, in one file, without pickle.

Tensors (weights, optimiser, random state) are safetensors entries; numbers and words are JSON in the file's header. The
file is written whole under another name and renamed, so a kill at any moment leaves the last good one.
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
from scdh.files import replacing


@dataclass
class Progress:
    """Where a run stands: epochs done, the log so far, and the best validation score with its epoch."""

    epochs_done: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    best_score: float | None = None
    best_epoch: int | None = None


def save_checkpoint(
    path: Path,
    modules: dict[str, nn.Module],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    progress: Progress,
    counters: dict[str, int] | None = None,
) -> None:
    tensors: dict[str, Tensor] = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        tensors |= {f"random.cuda.{i}": state for i, state in enumerate(torch.cuda.get_rng_state_all())}
    for name, module in modules.items():
        tensors |= {f"{name}.{key}": value for key, value in module.state_dict().items()}
    plain: dict[str, dict[str, Any]] = {}
    packed = optimiser.state_dict()
    for index, values in packed["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimiser.{index}.{key}"] = value
            elif value is not None:
                plain.setdefault(str(index), {})[key] = value
    words = {
        "progress": vars(progress),
        "optimiser_plain": plain,
        "optimiser_groups": packed["param_groups"],
        "schedule": {k: v for k, v in schedule.state_dict().items() if k != "lr_lambdas"},
        "counters": counters or {},
    }
    header = {"format": "scdh-checkpoint", "version": "1", "state": json.dumps(words)}
    with replacing(path) as temporary:
        # A copy each: safetensors refuses tensors that share memory, and wants them in plain row order.
        save_file({k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}, temporary, metadata=header)


def load_checkpoint(
    path: Path,
    modules: dict[str, nn.Module],
    optimiser: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
) -> tuple[Progress, dict[str, int]]:
    tensors, words = _read(path)
    for name, module in modules.items():
        prefix = f"{name}."
        try:
            module.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
        except RuntimeError as error:
            raise ModelError(f"Checkpoint {str(path)!r} is of another network: {_one_line(error)}.") from None
    state: dict[int, dict[str, Any]] = {int(i): dict(v) for i, v in words["optimiser_plain"].items()}
    for key, value in tensors.items():
        if key.startswith("optimiser."):
            _, index, entry = key.split(".", 2)
            state.setdefault(int(index), {})[entry] = value
    optimiser.load_state_dict({"state": state, "param_groups": words["optimiser_groups"]})
    # LambdaLR insists on an entry for its functions; ours is pure and has no state, so none was written.
    schedule.load_state_dict({**words["schedule"], "lr_lambdas": [None] * len(optimiser.param_groups)})
    torch.set_rng_state(tensors["random.cpu"])
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            if f"random.cuda.{i}" in tensors:
                torch.cuda.set_rng_state(tensors[f"random.cuda.{i}"], i)
    return Progress(**words["progress"]), words["counters"]


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if header.get("format") != "scdh-checkpoint":
                raise ModelError(f"{str(path)!r} is not a checkpoint of scdh.")
            return {key: file.get_tensor(key) for key in file.keys()}, json.loads(header["state"])  # noqa: SIM118
    except (SafetensorError, OSError, json.JSONDecodeError) as error:
        raise ModelError(f"Checkpoint {str(path)!r} cannot be read: {_one_line(error)}.") from None


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")

"""Where training runs: CPU or GPU, one process or many, in which precision."""

import os
from typing import Any

import torch

from scdh.errors import ConfigError
from scdh.nets.torchvision_fix import ensure_torchvision_imports


def process_count() -> int:
    """How many processes ``torchrun`` has started for this command; 1 without it."""
    count = os.environ.get("WORLD_SIZE", "1")
    return int(count) if count.isdigit() else 1


def make_accelerator(precision: str) -> Any:
    """One process or many, CPU or GPU. ``auto`` mixes precision only on a GPU: on CPUs without AMX it is slower."""
    ensure_torchvision_imports()
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    if precision == "auto":
        precision = "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "fp32"
    if precision == "fp16" and not torch.cuda.is_available():
        raise ConfigError("train.precision 'fp16' needs a GPU, and there is none; use 'bf16', 'fp32' or 'auto'.")
    mixed = "no" if precision == "fp32" else precision
    # accelerate keeps the precision of a process's first run and refuses another; here each run has its own.
    if AcceleratorState._shared_state and AcceleratorState().mixed_precision != mixed:
        AcceleratorState._reset_state()
    # accelerate joins CPU processes only when told to use the CPU; untold, each would train alone in the same folder.
    return Accelerator(mixed_precision=mixed, cpu=process_count() > 1 and not torch.cuda.is_available())

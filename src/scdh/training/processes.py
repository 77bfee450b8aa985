"""Where training runs: CPU or GPU, one process or many, in which precision."""

import atexit
import os
from typing import Any

import torch
from torch import distributed

from scdh.errors import ConfigError
from scdh.nets.device import chosen_device
from scdh.nets.torchvision_fix import ensure_torchvision_imports

_DEVICE_OF_ACCELERATE = "ACCELERATE_TORCH_DEVICE"  # the only way to tell accelerate which of several devices to use
_last_chosen: torch.device | None = None


def process_count() -> int:
    """How many processes ``torchrun`` has started for this command; 1 without it."""
    count = os.environ.get("WORLD_SIZE", "1")
    return int(count) if count.isdigit() else 1


def is_first_process() -> bool:
    """Whether this is the process that writes, of those that ``torchrun`` has started."""
    return process_count() == 1 or os.environ.get("RANK", "0") == "0"


def make_accelerator(precision: str) -> Any:
    """One process or many, on the chosen device (:mod:`scdh.nets.device`). ``auto`` mixes precision only on a GPU: on
    a CPU, whether that is faster depends on the processor, and so would the weights.
    """
    global _last_chosen
    ensure_torchvision_imports()
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState

    chosen, several = chosen_device(), process_count() > 1
    if several and chosen is not None and chosen.index is not None:
        raise ConfigError(f"Device '{chosen}' is one GPU, but every process has its own; name cuda, without a number.")
    on_gpu = torch.cuda.is_available() if chosen is None else chosen.type == "cuda"
    if precision == "auto":
        precision = "bf16" if on_gpu and torch.cuda.is_bf16_supported() else "fp32"
    if precision == "fp16" and not on_gpu:
        raise ConfigError("train.precision 'fp16' needs a GPU, and this run has none; use 'bf16', 'fp32' or 'auto'.")
    mixed = "no" if precision == "fp32" else precision
    # accelerate keeps precision and device of a process's first run and rejects others; here each run has its own.
    if AcceleratorState._shared_state:
        is_other_device = chosen != _last_chosen and not several
        if is_other_device or AcceleratorState().mixed_precision != mixed:
            AcceleratorState._reset_state(reset_partial_state=is_other_device)
    _last_chosen = chosen
    # accelerate joins CPU processes only if it must use the CPU; else each would train alone in the same folder.
    on_cpu = several and not on_gpu if chosen is None else chosen.type == "cpu"
    if chosen is not None and not on_cpu and not several:
        os.environ[_DEVICE_OF_ACCELERATE] = str(chosen)
    try:
        accelerator = Accelerator(mixed_precision=mixed, cpu=on_cpu)
    finally:
        os.environ.pop(_DEVICE_OF_ACCELERATE, None)
    if several:
        atexit.unregister(_leave_group)
        atexit.register(_leave_group)
    return accelerator


def _leave_group() -> None:
    """End the threads that connect the processes; a process that exits while they run can be aborted."""
    if distributed.is_initialized():
        distributed.destroy_process_group()

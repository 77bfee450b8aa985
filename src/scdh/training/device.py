"""Where training runs: CPU or GPU, one process or many, in which precision."""

import os
from typing import Any

import torch

from scdh.nets.torchvision_fix import ensure_torchvision_imports


def make_accelerator(precision: str) -> Any:
    """One process or many, CPU or GPU. ``auto`` mixes precision only on a GPU: on CPUs without AMX it is slower."""
    ensure_torchvision_imports()
    from accelerate import Accelerator

    if precision == "auto":
        precision = "bf16" if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else "fp32"
    # accelerate joins CPU processes only when told to use the CPU; untold, each would train alone in the same folder.
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    return Accelerator(
        mixed_precision="no" if precision == "fp32" else precision, cpu=several and not torch.cuda.is_available()
    )

"""The device that networks run on: chosen once, for one command or one block of code.

The device is not a setting of a run: a run that started on a GPU may continue on a CPU.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from scdh.errors import ConfigError

_chosen: ContextVar[torch.device | None] = ContextVar("device of networks", default=None)


def parse_device(name: str | None) -> torch.device | None:
    """The device of a name; None for "auto", which leaves the choice to the machine.

    Raises:
        ConfigError: if there is no such device, or torch cannot use it here.
    """
    if name is None or name == "auto":
        return None
    if not re.fullmatch(r"cpu|cuda(:\d+)?|mps", name):
        raise ConfigError(f"Unknown device {name!r}; it is one of auto, cpu, cuda, cuda:1 (a GPU by number) and mps.")
    device = torch.device(name)
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise ConfigError(f"Device {name!r} cannot be used: torch {torch.__version__} finds no CUDA GPU; use cpu.")
        if device.index is not None and device.index >= count:
            raise ConfigError(f"Device {name!r} cannot be used: the last CUDA GPU here is cuda:{count - 1}.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ConfigError(f"Device {name!r} cannot be used: torch finds no GPU of a Mac; use cpu.")
    return device


def choose_device(name: str | None) -> None:
    """Run networks on this device from now on, in this context (:mod:`contextvars`); names as for ``parse_device``."""
    _chosen.set(parse_device(name))


@contextmanager
def on_device(name: str | None) -> Iterator[None]:
    """Run networks on this device within the block; None: as outside of it."""
    token = _chosen.set(_chosen.get() if name is None else parse_device(name))
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen_device() -> torch.device | None:
    """The device that was chosen; None if the machine decides."""
    return _chosen.get()


def find_device(name: str | None = None) -> torch.device:
    """The device of a name, or else the chosen one, or else a CUDA GPU if there is one, or the CPU."""
    device = chosen_device() if name is None else parse_device(name)
    return device or torch.device("cuda" if torch.cuda.is_available() else "cpu")

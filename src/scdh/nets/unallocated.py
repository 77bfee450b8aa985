"""Build networks without memory, to compare their shapes with a file before anything is allocated."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Built = TypeVar("Built")
_is_unallocated: ContextVar[bool] = ContextVar("is_unallocated", default=False)


def is_unallocated() -> bool:
    """Whether networks are being built without values; parts that only training needs are then left out."""
    return _is_unallocated.get()


def build_unallocated(build: Callable[[], Built]) -> Built:
    """What ``build`` makes, with its tensors on torch's meta device.

    A few backbones (torchvision's RegNet) compute their layout with small tensors, whose values the meta device does
    not have; for these, a second attempt places only the parameters of layers there.
    """
    try:
        with _unallocated(torch.device("meta")), _WithoutValues():
            return build()
    except Exception:  # every library fails in its own way
        with _unallocated(_LayersOnMeta()), _WithoutValues():
            return build()


@contextmanager
def _unallocated(mode: Any) -> Iterator[None]:
    token = _is_unallocated.set(True)
    try:
        with mode:
            yield
    finally:
        _is_unallocated.reset(token)


class _WithoutValues(TorchFunctionMode):
    """Skips drawing initial values: there is no memory for them, and the first such call takes seconds."""

    functions = frozenset(
        {getattr(nn.init, name) for name in dir(nn.init) if name.endswith("_") and not name.startswith("_")}
        | {Tensor.normal_, Tensor.uniform_, Tensor.zero_, Tensor.fill_, Tensor.mul_}
    )

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensor = args[0] if args else kwargs.get("tensor")
        if func in self.functions and isinstance(tensor, Tensor) and tensor.is_meta:
            return tensor
        if func in (torch.randn, torch.rand):
            return torch.empty(*args, **{key: value for key, value in kwargs.items() if key != "generator"})
        return func(*args, **kwargs)


class _LayersOnMeta(TorchFunctionMode):
    """Places what the functions below make on the meta device, and nothing else."""

    functions = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in self.functions:
            kwargs = {**(kwargs or {}), "device": "meta"}
        return func(*args, **(kwargs or {}))


def meta_copies(module: nn.Module) -> dict[str, Tensor]:
    """Tensors of the shapes of all parameters and buffers, without memory, for ``torch.func.functional_call``."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    return {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors}


def has_unsaved_tensors(module: nn.Module) -> bool:
    """Whether a module holds tensors that its ``state_dict`` lacks: buffers that are not saved, or plain attributes."""
    return any(
        bool(part._non_persistent_buffers_set)
        or any(_holds_tensor(value) for name, value in vars(part).items() if name not in _SAVED)
        for part in module.modules()
    )


_SAVED = ("_parameters", "_buffers", "_modules")  # where torch keeps what a module registers


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple | set):
        return any(isinstance(entry, Tensor) for entry in value)
    if isinstance(value, dict):
        return any(isinstance(entry, Tensor) for entry in value.values())
    return isinstance(value, Tensor)

"""Optimiser and learning-rate schedule."""

import math
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from scdh.config import TrainSettings
from scdh.methods.base import Method
from scdh.nets.network import Network
from scdh.training.row_adamw import RowAdamW

Named = list[tuple[str, nn.Parameter]]
LONGEST_WARM_UP = 0.25  # of the run, so that a short trial reaches its full rate
# 20,000 classes have 10 million weights, whose update takes a sixth of a step, or a fortieth in one pass.
ONE_PASS_WEIGHTS = 4_000_000


def parameter_groups(net: Network, method: Method) -> dict[str, Named]:
    """The learned parameters in the paper's two learning-rate groups: before fc7's output, and the rest, including the
    method's own parameters.
    """
    named = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    of_method = [(f"method.{name}", p) for name, p in method.named_parameters() if p.requires_grad]
    return {
        "trunk": [(name, p) for name, p in named if name.startswith("trunk.")],
        "head": [(name, p) for name, p in named if not name.startswith("trunk.")] + of_method,
    }


def count_learned(net: Network, method: Method) -> dict[str, int]:
    """How many weights learn: ``all`` of them, and ``plain``, those that would learn with a plain hash layer as the
    whole head. The latter is the same for every method, so the difference is what a method adds to it.
    """
    groups = parameter_groups(net, method)
    below = [*groups["trunk"], *((name, p) for name, p in groups["head"] if name.startswith("fc7."))]
    return {
        "all": sum(p.numel() for group in groups.values() for _, p in group),
        "plain": sum(p.numel() for _, p in below) + plain_layer_size(net, method.bits),
    }


def plain_layer_size(net: Network, bits: int) -> int:
    """Weights of the hash layer u = W x + b. ``bits`` is what the user asked for: a method may have other outputs."""
    return (net.width + 1) * bits


def build_optimiser(net: Network, method: Method, settings: TrainSettings) -> torch.optim.Optimizer:
    """The paper's two rates: ``lr_trunk`` before fc7's output, ``lr_head`` for the rest.

    § Weight decay is not in the paper. Biases, norms, and what head or method list in ``no_weight_decay`` have none.
    """
    groups = []
    undecayed_names = {f"head.{name}" for name in net.head.no_weight_decay}
    undecayed_names |= {f"method.{name}" for name in method.no_weight_decay}
    for group, rate in (("trunk", settings.lr_trunk), ("head", settings.lr_head)):
        named = parameter_groups(net, method)[group]
        decayed = [(name, p) for name, p in named if p.ndim > 1 and name not in undecayed_names]
        undecayed = [(name, p) for name, p in named if p.ndim <= 1 or name in undecayed_names]
        groups.append({"params": decayed, "lr": rate, "weight_decay": settings.weight_decay})
        groups.append({"params": undecayed, "lr": rate, "weight_decay": 0.0})
    groups = [group for group in groups if group["params"]]
    if settings.optimiser == "adamw":
        kind = RowAdamW if net.head.row_parameters else torch.optim.AdamW
        return kind(groups, betas=(settings.momentum, 0.999), fused=_is_large(groups) or None)
    return torch.optim.SGD(groups, lr=settings.lr_head, momentum=settings.momentum)


def _is_large(groups: list[dict[str, Any]]) -> bool:
    """Whether the network is large enough for torch's fused step on a CPU, which takes one pass instead of seven."""
    parameters = [p for group in groups for _, p in group["params"]]
    on_cpu = all(p.device.type == "cpu" and p.dtype == torch.float32 for p in parameters)
    return on_cpu and sum(p.numel() for p in parameters) >= ONE_PASS_WEIGHTS


def rate_factor(step: int, steps_per_epoch: int, settings: TrainSettings) -> float:
    """The factor of the learning rates at a step; a pure function, so a resumed run needs only the step."""
    epoch = step / steps_per_epoch
    warm_up = min(settings.lr_warm_up, settings.epochs * LONGEST_WARM_UP)
    if epoch < warm_up:
        return (step + 1) / max(warm_up * steps_per_epoch, 1)
    if settings.schedule == "step":
        return settings.lr_factor ** sum(epoch >= at for at in settings.lr_steps)
    if settings.schedule == "cosine":
        done = (epoch - warm_up) / (settings.epochs - warm_up)
        return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return 1.0


def build_schedule(optimiser: torch.optim.Optimizer, settings: TrainSettings, steps_per_epoch: int) -> LambdaLR:
    return LambdaLR(optimiser, partial(rate_factor, steps_per_epoch=steps_per_epoch, settings=settings))

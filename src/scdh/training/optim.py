"""Optimiser and learning-rate schedule."""

import math
from functools import partial

import torch
from torch.optim.lr_scheduler import LambdaLR

from scdh.config import TrainSettings
from scdh.nets.network import Network


def build_optimiser(net: Network, settings: TrainSettings) -> torch.optim.Optimizer:
    """The paper's two rates: ``lr_trunk`` before fc7's output, ``lr_head`` for the rest.

    § Weight decay is not in the paper. Biases, norms and centres are spared: decay would draw the centres to 0,
    the very collapse that the warm-up is there to prevent.
    """
    groups = []
    for name, rate in (("trunk", settings.lr_trunk), ("head", settings.lr_head)):
        named = net.parameter_groups()[name]
        decayed = [p for n, p in named if p.ndim > 1 and not n.endswith("centres")]
        spared = [p for n, p in named if p.ndim <= 1 or n.endswith("centres")]
        groups.append({"params": decayed, "lr": rate, "weight_decay": settings.weight_decay})
        groups.append({"params": spared, "lr": rate, "weight_decay": 0.0})
    groups = [g for g in groups if g["params"]]
    if settings.optimiser == "adamw":
        return torch.optim.AdamW(groups, betas=(settings.momentum, 0.999))
    return torch.optim.SGD(groups, lr=settings.lr_head, momentum=settings.momentum)


def rate_factor(step: int, steps_per_epoch: int, settings: TrainSettings) -> float:
    """What the learning rates are multiplied with at a step; a pure function, so a resumed run needs only the step."""
    epoch = step / steps_per_epoch
    if epoch < settings.lr_warm_up:
        return (step + 1) / (settings.lr_warm_up * steps_per_epoch)
    if settings.schedule == "step":
        return settings.lr_factor ** sum(epoch >= at for at in settings.lr_steps)
    if settings.schedule == "cosine":
        done = (epoch - settings.lr_warm_up) / max(settings.epochs - settings.lr_warm_up, 1e-9)
        return 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return 1.0


def build_schedule(optimiser: torch.optim.Optimizer, settings: TrainSettings, steps_per_epoch: int) -> LambdaLR:
    return LambdaLR(optimiser, partial(rate_factor, steps_per_epoch=steps_per_epoch, settings=settings))

"""A trunk cut in two: early stages that stay frozen, whose outputs are cached, and late stages that learn.

    trunk(x) = late(early(x)),   early(x) as one vector [C·H·W] per image

Early stages take most of the time of a pass, and late stages most of what a new task changes. With the outputs of the
early stages cached, a step of training costs a fraction of one through the whole network (``net.freeze=5``).
"""

import copy
import math
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from scdh.errors import ConfigError
from scdh.nets.heads import Head
from scdh.nets.network import Network

H = TypeVar("H", bound=Head)


class EarlyStages(nn.Module):
    """Images → outputs of the frozen stages, one vector per image in the order height, width, channels."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x).permute(0, 2, 3, 1).flatten(1)


class LateStages(nn.Module):
    """Vectors of :class:`EarlyStages` → features [B, width].

    Args:
        layers: the stages that learn, and the pooling after them, by their names in the whole trunk.
        shape: (C, H, W), one output of the frozen stages.
        dropout: of the features.
    """

    def __init__(self, layers: dict[str, nn.Module], shape: tuple[int, int, int], dropout: float = 0.0) -> None:
        super().__init__()
        self.names, self.shape = list(layers), shape
        self.layers = nn.ModuleList(layers.values())
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        channels, height, width = self.shape
        x = x.view(-1, height, width, channels).permute(0, 3, 1, 2)  # channels last in memory, as convolutions like it
        for layer in self.layers:
            x = layer(x)
        return self.dropout(x.flatten(1))

    def put_into(self, trunk: nn.Module) -> nn.Module:
        """A copy of the whole trunk with the weights of these stages."""
        whole = copy.deepcopy(trunk)
        for name, layer in zip(self.names, self.layers, strict=True):
            whole.get_submodule(name).load_state_dict(layer.state_dict())
        return whole


def frozen_part(net: Network[Any], stages: int, image_size: int) -> Network[Any]:
    """Only the first ``stages`` stages, without a head: features are what :func:`learned_part` reads."""
    early, _ = _cut(net.trunk, stages)
    part = net.with_trunk(EarlyStages(early))
    part.trunk_width = math.prod(_shape(early, image_size))
    part.fc7, part.head = None, nn.Identity()
    return part


def learned_part(net: Network[H], stages: int, image_size: int) -> Network[H]:
    """The network above its first ``stages`` stages; it shares the weights of ``net``."""
    early, late = _cut(net.trunk, stages)
    dropout = float(getattr(net.trunk, "drop_rate", 0.0) or 0.0)
    return net.with_trunk(LateStages(late, _shape(early, image_size), dropout))


def freeze_stages(net: Network[Any], stages: int) -> None:
    """Keep the first ``stages`` stages as they are, in the whole network: they run in every step."""
    stem, names, _ = _checked_layout(net.trunk, stages)
    net.freeze_layers([*stem, *names[:stages]])


def _cut(trunk: Any, count: int) -> tuple[list[nn.Module], dict[str, nn.Module]]:
    """The layers of the first ``count`` stages, and those after them by name."""
    stem, stages, tail = _checked_layout(trunk, count)
    late = [*stages[count:], *tail]
    return [trunk.get_submodule(name) for name in [*stem, *stages[:count]]], {n: trunk.get_submodule(n) for n in late}


def _checked_layout(trunk: nn.Module, count: int) -> tuple[list[str], list[str], list[str]]:
    stem, stages, tail = _layout(trunk)
    if not 1 <= count < len(stages):
        raise ConfigError(
            f"net.freeze must be true, false, or a number of stages from 1 to {len(stages) - 1}, not {count}: "
            f"{type(trunk).__name__} has {len(stages)} stages."
        )
    return stem, stages, tail


def _layout(trunk: nn.Module) -> tuple[list[str], list[str], list[str]]:
    """Names of the stem, the stages, and the layers after them, in the order in which they run."""
    names = dict(trunk.named_children()).keys()
    if names >= {"conv_stem", "bn1", "blocks", "conv_head", "bn2", "global_pool"}:  # timm's EfficientNets
        return ["conv_stem", "bn1"], list(_children(trunk, "blocks")), ["conv_head", "bn2", "global_pool"]
    if names >= {"conv1", "bn1", "maxpool", "layer1", "layer2", "layer3", "layer4"}:  # ResNets
        activation = "act1" if "act1" in names else "relu"
        pool = "global_pool" if "global_pool" in names else "avgpool"
        return ["conv1", "bn1", activation, "maxpool"], [f"layer{i}" for i in range(1, 5)], [pool]
    raise ConfigError(
        f"net.freeze can be a number of stages for EfficientNets and ResNets, not for {type(trunk).__name__}; "
        "set it to true or false."
    )


def _children(trunk: nn.Module, name: str) -> Iterator[str]:
    return (f"{name}.{child}" for child, _ in trunk.get_submodule(name).named_children())


def _shape(early: list[nn.Module], image_size: int) -> tuple[int, int, int]:
    layers = nn.Sequential(*early)
    was_training = [layer.training for layer in early]
    with torch.no_grad():
        first = next(layers.parameters())
        channels, height, width = layers.eval()(first.new_zeros(1, 3, image_size, image_size)).shape[1:]
    for layer, training in zip(early, was_training, strict=True):
        layer.train(training)
    return channels, height, width

"""Convolutions and linear layers on numbers of 8 bits, as torch simulates them and OpenVINO computes them.

An input x is rounded to 256 levels between the lowest and the highest input of the layer on the calibration images:
with step s and integer z, q = clamp(round(x / s) + z, 0, 255) and x becomes s (q − z). A weight w is rounded to q =
clamp(round(w / s), −127, 127) with a step of its own for each output channel. round() goes to the nearest integer,
halves to the even one. torch computes this with numbers of 32 bits, so it costs time there; OpenVINO finds both
roundings in the graph and multiplies integers.

The step of the weights is at least (a + b) / 128, where a and b are the two largest weights of one sign. Processors
without VNNI (AVX2, and the first ones with AVX-512) add two products of 8 bits in 16 bits, and cut off what does not
fit: 255 · 127 + 255 · 127 would not, 255 · 128 does. With steps of max |w| / 127, which such processors cannot add up,
a tenth of the bits of efficientnet_lite0 were others with AVX2 than with VNNI.
"""

import copy

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from scdh.nets.network import Network
from scdh.nets.quantisation import Quantisation

LEVELS = 256
MOST_WEIGHT = 127
MOST_PAIR = 128


def rounded_layers(net: Network) -> dict[str, nn.Conv2d | nn.Linear]:
    """The layers that may compute on 8 bits, by their names within the trunk. Hidden layers and the hash layer, which
    take next to no time, stay as they are."""
    return {name: layer for name, layer in net.trunk.named_modules() if isinstance(layer, nn.Conv2d | nn.Linear)}


def round_layers(net: Network, quantisation: Quantisation) -> Network:
    """A copy of ``net``, for encoding only, that rounds inputs and weights of the layers that have a range."""
    rounded = copy.deepcopy(net).eval()
    layers = rounded_layers(rounded)
    for name, limits in quantisation.ranges.items():
        if limits is not None:
            layer = layers[name]
            # Not by a layer of another class: some backbones have convolutions with paddings of their own.
            register_parametrization(layer, "weight", RoundedWeight(layer.weight), unsafe=True)
            layer.register_forward_pre_hook(RoundedInput(*limits))
    return rounded


class RoundedWeight(nn.Module):
    """Weights [C, …] → the same, rounded; each of the C output channels has its own step."""

    step: Tensor
    zero: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        values = weight.detach().flatten(1)
        pairs = torch.stack([_largest_pair(values), _largest_pair(-values)]).amax(0)
        step = torch.maximum(values.abs().amax(1) / MOST_WEIGHT, pairs / MOST_PAIR)
        self.register_buffer("step", torch.where(step > 0, step, torch.ones_like(step)))
        self.register_buffer("zero", torch.zeros_like(step, dtype=torch.int32))

    def forward(self, weight: Tensor) -> Tensor:
        return torch.fake_quantize_per_channel_affine(weight, self.step, self.zero, 0, -MOST_WEIGHT, MOST_WEIGHT)


class RoundedInput:
    """Called before a layer with its inputs, which it rounds."""

    def __init__(self, low: float, high: float) -> None:
        self.step = (high - low) / (LEVELS - 1)
        self.zero = round(-low / self.step)

    def __call__(self, layer: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        rounded = torch.fake_quantize_per_tensor_affine(inputs[0], self.step, self.zero, 0, LEVELS - 1)
        return rounded, *inputs[1:]


def _largest_pair(values: Tensor) -> Tensor:
    """The sum of the two largest positive numbers of each row, [C, n] → [C]."""
    return values.clamp(min=0).topk(min(2, values.shape[1]), dim=1).values.sum(1)

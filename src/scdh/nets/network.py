"""The network of every method: trunk → features → (hidden layers) → the method's head → u."""

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import torch
from torch import Tensor, nn

from scdh.nets.heads import Head
from scdh.nets.small import FeatureTrunk


def weights_fingerprint(module: nn.Module) -> str:
    """16 hex digits of all weights: equal digits, equal network."""
    digest = hashlib.sha256()
    for key, tensor in sorted(module.state_dict().items()):
        digest.update(key.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def weights_state(module: nn.Module) -> list[tuple[int, int, torch.device]]:
    """Changes whenever a tensor is replaced, changed in place or moved."""
    tensors = [*module.parameters(), *module.buffers()]
    # Tensors made in inference mode have no version; they cannot be changed in place outside of it either.
    return [(id(t), 0 if t.is_inference() else t._version, t.device) for t in tensors]


def _batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    return [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


HeadType = TypeVar("HeadType", bound=Head)


@dataclass(frozen=True)
class Outputs:
    """What one pass gives: the trunk's ``features`` [B, trunk_width], what the head reads, ``hidden`` [B, width] (the
    features themselves if there are no hidden layers), and the hash outputs ``u`` [B, r].
    """

    features: Tensor
    hidden: Tensor
    u: Tensor


class Network(nn.Module, Generic[HeadType]):
    """trunk(x) → features → hidden layers → head → u [B, r]. ``Method.build`` sets the head.

    Args:
        trunk: images or vectors → features [B, width].
        width: size of the trunk's features.
        bits: r, the number of hash outputs.
        mean, std: turn uint8 images [B, 3, H, W] into what the trunk expects; float inputs pass unchanged.
        frozen_batch_norm: keep the trunk's batch-norm statistics as they are, also in training.
        hidden: widths of learned layers (fc7) between features and head: a frozen trunk's features were made for
            another task, and such layers adapt them.
        dropout: after each hidden layer.
    """

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        trunk: nn.Module,
        width: int,
        bits: int,
        mean: tuple[float, ...] = (0.0, 0.0, 0.0),
        std: tuple[float, ...] = (1.0, 1.0, 1.0),
        frozen_batch_norm: bool = False,
        hidden: Sequence[int] = (),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.trunk_width = width
        self.bits = bits
        self.fc7 = FeatureTrunk(width, list(hidden), dropout) if hidden else None
        self.width = width if self.fc7 is None else self.fc7.width
        self.head = cast(HeadType, Head())
        self.frozen_batch_norm = frozen_batch_norm
        self.frozen_layers: list[str] = []  # of the trunk
        # (x/255 − mean)/std as x·scale − shift: two passes over the pixels instead of four. They are not saved, so they
        # have values also in a network that is built without memory.
        means, deviations = (torch.tensor(values, device="cpu").view(1, -1, 1, 1) for values in (mean, std))
        self.register_buffer("scale", 1 / (255 * deviations), persistent=False)
        self.register_buffer("shift", means / deviations, persistent=False)

    @property
    def device(self) -> torch.device:
        return self.scale.device

    def features(self, x: Tensor) -> Tensor:
        """The trunk alone: [B, trunk_width]."""
        if x.dtype == torch.uint8:
            x = x.to(self.scale.dtype, memory_format=torch.channels_last).mul_(self.scale).sub_(self.shift)
        return self.trunk(x)

    def read_features(self, features: Tensor) -> Outputs:
        """Hidden layers and head on features that were computed before."""
        hidden = features if self.fc7 is None else self.fc7(features)
        return Outputs(features, hidden, self.head(hidden))

    def forward(self, x: Tensor) -> Outputs:
        return self.read_features(self.features(x))

    def with_trunk(self, trunk: nn.Module) -> "Network[HeadType]":
        """The same head and hidden layers on another trunk: weights are shared, not copied."""
        other = copy.copy(self)
        other._modules, other._parameters = dict(self._modules), dict(self._parameters)
        other._buffers = dict(self._buffers)
        other.trunk = trunk
        return other

    def on_features(self) -> "Network[HeadType]":
        """The same layers without the trunk, to train on cached features [B, trunk_width]."""
        return self.with_trunk(FeatureTrunk(self.trunk_width, []))

    def train(self, mode: bool = True) -> "Network[HeadType]":
        super().train(mode)
        if self.frozen_batch_norm:
            for layer in _batch_norms(self.trunk):
                layer.eval()
        for name in self.frozen_layers:
            self.trunk.get_submodule(name).eval()
        return self

    def freeze_layers(self, names: list[str]) -> None:
        """Keep these layers of the trunk as they are: they have no gradient, no dropout and fixed statistics."""
        self.frozen_layers = names
        for name in names:
            self.trunk.get_submodule(name).requires_grad_(False)

    def learning_batch_norms(self, part: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
        """The batch-norm layers of ``part`` (this network, or its trunk) whose statistics may change."""
        fixed = {layer for name in self.frozen_layers for layer in self.trunk.get_submodule(name).modules()}
        return [] if self.frozen_batch_norm else [layer for layer in _batch_norms(part) if layer not in fixed]

    def channels_last(self, device: torch.device | None = None) -> "Network[HeadType]":
        """Move, with weights in the channels-last layout, in which convolutions on CPUs and GPUs run faster."""
        self.to(device)
        return self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

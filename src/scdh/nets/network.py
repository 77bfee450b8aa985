"""The network of every method: trunk … fc7 → hash layer, and whatever heads a method adds beside it."""

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from scdh.nets.heads import linear_head
from scdh.nets.small import FeatureTrunk


def weights_fingerprint(module: nn.Module) -> str:
    """16 hex digits of all weights: equal digits, equal network."""
    total = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        total.update(name.encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()[:16]


def batch_norms(module: nn.Module) -> list[nn.modules.batchnorm._BatchNorm]:
    return [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]


@dataclass(frozen=True)
class Outputs:
    """What one pass gives: the trunk's features, the real hash outputs u, and fc8's logits where a method has them."""

    features: Tensor
    u: Tensor
    logits: Tensor | None


class Network(nn.Module):
    """trunk(x) → features → hash layer → u [B, r]; fc8 and centres are added by a method's ``build``.

    ``hidden`` puts learned layers (fc7) between the trunk's features [B, trunk_width] and the heads, which see
    [B, width]: on a frozen trunk, whose features were made for something else, they are worth having.

    ``mean`` and ``std`` turn uint8 images [B, 3, H, W] into what the trunk expects; float inputs pass as they are, so
    that cached features and embeddings take the same road.
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
        self.trunk, self.trunk_width, self.bits = trunk, width, bits
        self.fc7 = FeatureTrunk(width, list(hidden), dropout) if hidden else None
        self.width = width if self.fc7 is None else self.fc7.width
        self.hash_layer: nn.Module = linear_head(self.width, bits)
        self.fc8: nn.Module | None = None
        self.centres: nn.Parameter | None = None
        self.frozen_batch_norm = frozen_batch_norm
        # (x/255 − mean)/std as x·scale − shift: two passes over the pixels instead of four.
        shades, spread = torch.tensor(mean).view(1, -1, 1, 1), torch.tensor(std).view(1, -1, 1, 1)
        self.register_buffer("scale", 1 / (255 * spread), persistent=False)
        self.register_buffer("shift", shades / spread, persistent=False)

    def features(self, x: Tensor) -> Tensor:
        """What the trunk gives: [B, trunk_width]."""
        if x.dtype == torch.uint8:
            x = x.to(self.scale.dtype, memory_format=torch.channels_last).mul_(self.scale).sub_(self.shift)
        return self.trunk(x)

    def read(self, features: Tensor) -> Outputs:
        """The heads alone, on features that are already there."""
        seen = features if self.fc7 is None else self.fc7(features)
        return Outputs(features, self.hash_layer(seen), None if self.fc8 is None else self.fc8(seen))

    def forward(self, x: Tensor) -> Outputs:
        return self.read(self.features(x))

    def with_trunk(self, trunk: nn.Module) -> "Network":
        """The same heads, whatever a method added, on another trunk: weights are shared, not copied."""
        other = copy.copy(self)
        other._modules, other._parameters = dict(self._modules), dict(self._parameters)
        other._buffers = dict(self._buffers)
        other.trunk = trunk
        return other

    def train(self, mode: bool = True) -> "Network":
        super().train(mode)
        if self.frozen_batch_norm:
            for layer in batch_norms(self.trunk):
                layer.eval()
        return self

    def channels_last(self, device: torch.device | None = None) -> "Network":
        """Move, with weights laid out colours-last, which convolutions on CPUs and GPUs run faster on."""
        self.to(device)
        return self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def parameter_groups(self) -> dict[str, list[tuple[str, nn.Parameter]]]:
        """The paper's two learning-rate groups: before fc7's output, and the rest."""
        named = [(n, p) for n, p in self.named_parameters() if p.requires_grad]
        return {
            "trunk": [(n, p) for n, p in named if n.startswith("trunk.")],
            "head": [(n, p) for n, p in named if not n.startswith("trunk.")],
        }

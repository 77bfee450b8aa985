"""One batch: the inputs of some rows, their labels, and which rows they are."""

import warnings
from dataclasses import dataclass, field

import torch

from scdh.data.source import BadImage


@dataclass(frozen=True)
class Batch:
    """``inputs`` is uint8 [B, 3, H, W] for images or float32 [B, d] for embeddings; ``labels`` int64 [B] or
    uint8 multi-hot [B, C]; ``rows`` int64 [B]. ``other_views`` holds further random versions of the same
    inputs.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    rows: torch.Tensor
    other_views: tuple[torch.Tensor, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device) -> "Batch":
        """The same batch with what a network reads on ``device``; ``rows`` stay where they are."""
        views = tuple(view.to(device) for view in self.other_views)
        return Batch(self.inputs.to(device), self.labels.to(device), self.rows, views)


@dataclass
class BadImages:
    """The images that were left out, each once, however often it came up."""

    found: dict[int, BadImage] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def paths(self) -> list[str]:
        return [bad.where for bad in self.found.values()]

    def warn(self) -> None:
        """One warning with the number and the first path."""
        if self.found:
            many = (
                f"{len(self)} images could not be read and were"
                if len(self) > 1
                else "1 image could not be read and was"
            )
            warnings.warn(f"{many} left out, the first is {self.paths[0]}.", stacklevel=3)

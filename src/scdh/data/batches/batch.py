"""One batch, and the list of images that were left out of batches."""

import warnings
from dataclasses import dataclass, field

import torch

from scdh.data.source import BadImage


@dataclass(frozen=True)
class Batch:
    """The inputs and labels of B rows.

    Args:
        inputs: uint8 [B, 3, H, W] for images, or float32 [B, d] for embeddings.
        labels: int64 [B] with −1 for no label, or uint8 multi-hot [B, C] with a row of zeros for no label.
        rows: int64 [B], row numbers in the source.
        other_views: further random versions of ``inputs``, each of its shape.
    """

    inputs: torch.Tensor
    labels: torch.Tensor
    rows: torch.Tensor
    other_views: tuple[torch.Tensor, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def to(self, device: torch.device) -> "Batch":
        """The same batch with inputs and labels on ``device``; ``rows`` stay on the CPU."""
        views = tuple(view.to(device) for view in self.other_views)
        return Batch(self.inputs.to(device), self.labels.to(device), self.rows, views)


@dataclass
class BadImages:
    """Images that were left out because they cannot be read: ``by_row`` has each row once, even if drawn often."""

    by_row: dict[int, BadImage] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.by_row)

    @property
    def paths(self) -> list[str]:
        """Path, or file and row, of each image."""
        return [image.where for image in self.by_row.values()]

    @property
    def first(self) -> str:
        """Path of the first image, and why it cannot be read."""
        image = next(iter(self.by_row.values()))
        return f"{image.where} ({image.reason})"

    def warn(self) -> None:
        """Give one warning with the number of images, the first path and the reason."""
        if self.by_row:
            subject = (
                f"{len(self)} images could not be read and were"
                if len(self) > 1
                else "1 image could not be read and was"
            )
            warnings.warn(f"{subject} left out, the first is {self.first}.", stacklevel=3)

"""The last known output of every training row, for methods that compare a batch with all of them (DPSH)."""

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn


class StoredOutputs(nn.Module):
    """A table [n, r], 0 where a row was not seen yet. It is saved with checkpoints; which row stands where is not, as
    ``rows`` (their numbers in ``batch.rows``; none: 0 … n−1) are known before one is loaded.
    """

    outputs: Tensor
    rows: Tensor
    places: Tensor

    def __init__(self, n: int, bits: int, rows: np.ndarray | None = None) -> None:
        super().__init__()
        numbers = torch.arange(n) if rows is None else torch.from_numpy(np.array(rows, np.int64))
        ordered, places = numbers.sort()
        self.register_buffer("outputs", torch.zeros(n, bits))
        self.register_buffer("rows", ordered, persistent=False)
        self.register_buffer("places", places, persistent=False)

    @property
    def seen(self) -> Tensor:
        """Which rows hold an output, bool [n]: one that is exactly 0 in every bit says as little as none."""
        return self.outputs.ne(0).any(1)

    @torch.no_grad()
    def update(self, rows: Tensor, u: Tensor) -> None:
        """Keep ``u`` [B, r] of the rows; those that are no training rows are passed over. With several processes each
        gets what all of them have, so that their tables stay equal.
        """
        rows, u = rows.to(self.rows.device), u.detach().to(self.outputs)
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            rows, u = _of_all_processes(rows), _of_all_processes(u)
        found = torch.searchsorted(self.rows, rows).clamp(max=max(len(self.rows) - 1, 0))
        known = self.rows[found] == rows if len(self.rows) else torch.zeros_like(rows, dtype=torch.bool)
        self.outputs[self.places[found[known]]] = u[known]


def _of_all_processes(mine: Tensor) -> Tensor:
    """The rows of every process, in the order of processes. Their numbers may differ, where bad images were left out;
    so all are padded to the longest.
    """
    count = torch.tensor([len(mine)], device=mine.device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    lengths = [int(c) for c in counts]
    padded = mine.new_zeros(max(lengths), *mine.shape[1:])
    padded[: len(mine)] = mine
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

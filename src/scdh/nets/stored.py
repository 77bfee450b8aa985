"""A table of every training row's last output (DPSH), or of its target code (DISH, FTDE)."""

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn


class StoredOutputs(nn.Module):
    """A table [n, r] of outputs or codes, 0 for rows that were not seen yet.

    The table is saved with checkpoints; the row numbers are not, as they are known before a checkpoint is loaded.
    """

    outputs: Tensor
    rows: Tensor
    positions: Tensor

    def __init__(self, rows: np.ndarray, bits: int) -> None:
        super().__init__()
        ordered, positions = torch.from_numpy(np.array(rows, np.int64)).sort()
        self.register_buffer("outputs", torch.zeros(len(rows), bits))
        self.register_buffer("rows", ordered, persistent=False)
        self.register_buffer("positions", positions, persistent=False)

    @property
    def seen(self) -> Tensor:
        """Which rows have an output, bool [n]; an output of 0 in every bit counts as none."""
        return self.outputs.ne(0).any(1)

    @torch.no_grad()
    def update(self, rows: Tensor, u: Tensor) -> None:
        """Store ``u`` [B, r] of the rows [B]; rows that are not training rows are ignored. With several processes each
        stores the outputs of all of them, so that their tables stay equal.
        """
        rows, u = rows.to(self.rows.device), u.detach().to(self.outputs)
        if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            rows, u = _gather(rows), _gather(u)
        is_known, positions = self.find(rows)
        self.outputs[positions] = u[is_known]

    def read(self, rows: Tensor) -> Tensor:
        """The stored outputs of the rows [B]: [B, r], 0 for rows that are not training rows."""
        is_known, positions = self.find(rows.to(self.rows.device))
        found = self.outputs.new_zeros(len(rows), self.outputs.shape[1])
        found[is_known] = self.outputs[positions]
        return found

    def find(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Which rows are training rows, bool [B], and where the table has those that are."""
        nearest = torch.searchsorted(self.rows, rows).clamp(max=max(len(self.rows) - 1, 0))
        is_known = self.rows[nearest] == rows if len(self.rows) else torch.zeros_like(rows, dtype=torch.bool)
        return is_known, self.positions[nearest[is_known]]


def _gather(values: Tensor) -> Tensor:
    """The values of every process, in the order of processes. Their lengths may differ, if bad images were left out, so
    all are padded to the longest.
    """
    count = torch.tensor([len(values)], device=values.device)
    counts = [torch.zeros_like(count) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, count)
    lengths = [int(c) for c in counts]
    padded = values.new_zeros(max(lengths), *values.shape[1:])
    padded[: len(values)] = values
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded)
    return torch.cat([part[:length] for part, length in zip(parts, lengths, strict=True)])

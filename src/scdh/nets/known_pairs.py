"""Which training rows are known to be similar or not, looked up for the rows of a batch."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from scdh.nets.stored import StoredOutputs

if TYPE_CHECKING:
    from scdh.data.pairs import Pairs


class PairMasks(NamedTuple):
    """``known`` [A, B]: which pairs are known; ``similar`` [A, B]: which of these are similar. Both bool."""

    similar: Tensor
    known: Tensor


class KnownPairs(nn.Module):
    """The pairs of each row, one row after the other. Nothing of it is saved with checkpoints.

    Args:
        rows: int64 [n], the training rows.
        pairs: known pairs; those of other rows are left out.
    """

    starts: Tensor
    others: Tensor
    similar: Tensor

    def __init__(self, rows: np.ndarray, pairs: "Pairs") -> None:
        super().__init__()
        own = pairs.positions(rows)
        first, second = np.concatenate([own.a, own.b]), np.concatenate([own.b, own.a])
        order = np.argsort(first, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(first, minlength=len(rows)))])
        for name, values in (
            ("starts", starts),
            ("others", second[order]),
            ("similar", (np.concatenate([own.similar, own.similar]) > 0.5)[order]),
        ):
            self.register_buffer(name, torch.from_numpy(values), persistent=False)
        self.table = StoredOutputs(rows, 0)

    def masks(self, rows: Tensor, with_all: bool = False) -> PairMasks:
        """The pairs between the rows [B] of a batch: [B, B]; or between them and all training rows: [B, n]."""
        is_known, found = self.table.find(rows.to(self.starts.device))
        batch = torch.nonzero(is_known).squeeze(1)
        counts = self.starts[found + 1] - self.starts[found]
        which = torch.repeat_interleave(torch.arange(len(found), device=found.device), counts)
        within = torch.arange(len(which), device=found.device) - (counts.cumsum(0) - counts)[which]
        entries = self.starts[found][which] + within
        columns, width = self.others[entries], len(self.starts) - 1
        if not with_all:
            places = columns.new_full((width,), -1)
            places[found] = batch
            columns, width = places[columns], len(rows)
        keep = columns >= 0
        at = batch[which[keep]], columns[keep]
        similar, known = (torch.zeros(len(rows), width, dtype=torch.bool, device=found.device) for _ in range(2))
        known[at], similar[at] = True, self.similar[entries[keep]]
        return PairMasks(similar, known)

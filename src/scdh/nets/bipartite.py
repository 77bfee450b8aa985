"""A bipartite graph of training rows and landmarks: rows are similar if their walks meet the same landmarks (BGDH)."""

import numpy as np
import torch
from torch import Tensor, nn

MOST_ROWS = 20_000  # that landmarks are found from
PIECE = 4096  # rows whose distances to the landmarks are computed at once


class BipartiteGraph(nn.Module):
    """Each row is joined to its nearest landmarks, by weights exp(−d²/2σ²) that add up to 1.

    σ² is the mean of d² over all such pairs. A walk goes from a row to a landmark, back to a row, to a landmark, each
    by weight; it needs no matrix of rows by rows. Everything is computed on the CPU, so that all processes have the
    same graph; it is saved with checkpoints, but for the row numbers, which are known.

    Args:
        features: float32 [n, d].
        rows: their numbers as in ``batch.rows``, int64 [n].
        landmarks: m; fewer if there are fewer rows.
        neighbours: landmarks that a row is joined to.
        hops: how many landmarks a walk meets.
        generator: draws the first landmarks.
    """

    rows: Tensor
    nearest: Tensor
    weights: Tensor
    walks: Tensor

    def __init__(
        self,
        features: np.ndarray,
        rows: np.ndarray,
        landmarks: int,
        neighbours: int,
        hops: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        numbers, order = torch.from_numpy(np.array(rows, np.int64)).sort()
        # About their mean: distances are computed by products, which lose digits far from 0.
        points = torch.from_numpy(features - features.mean(0))[order]
        centres = find_landmarks(points, landmarks, generator)
        closest = [
            torch.cdist(piece, centres).topk(min(neighbours, len(centres)), largest=False)
            for piece in points.split(PIECE)
        ]
        squared = torch.cat([piece.values for piece in closest]).square()
        nearest = torch.cat([piece.indices for piece in closest])
        weights = (-squared / (2 * squared.mean().clamp(min=1e-12))).softmax(1)
        self.register_buffer("rows", numbers, persistent=False)
        self.register_buffer("nearest", nearest)
        self.register_buffer("weights", weights)
        self.register_buffer("walks", walk_probabilities(nearest, weights, len(centres), hops))

    @property
    def landmarks(self) -> int:
        return len(self.walks)

    def met(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """How probably a walk from each row [B] meets each landmark, [B, m], and which rows are in the graph, [B]."""
        places = torch.searchsorted(self.rows, rows.to(self.rows.device)).clamp(max=len(self.rows) - 1)
        met = (self.weights[places].unsqueeze(2) * self.walks[self.nearest[places]]).sum(1)
        return met, self.rows[places] == rows.to(self.rows.device)


def find_landmarks(points: Tensor, count: int, generator: torch.Generator, turns: int = 20) -> Tensor:
    """Centres [m, d] of a k-means clustering of points [n, d]; a cluster that loses all points keeps its centre."""
    points = points[torch.randperm(len(points), generator=generator)[:MOST_ROWS]]
    centres = points[:count].clone()
    for _ in range(turns):
        nearest = torch.cat([torch.cdist(piece, centres).argmin(1) for piece in points.split(PIECE)])
        counts = torch.bincount(nearest, minlength=len(centres)).unsqueeze(1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        moved = torch.where(counts > 0, sums / counts.clamp(min=1), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres


def walk_probabilities(nearest: Tensor, weights: Tensor, landmarks: int, hops: int) -> Tensor:
    """A [m, m]: how often, of ``hops`` landmarks, a walk that begins at one meets each; rows add up to 1.

    From landmark a to landmark b over the rows i that a is joined to: T_ab = Σ_i z_ia z_ib / Σ_i z_ia, and A is the
    mean of T⁰, T, T² …
    """
    shared = torch.zeros(landmarks, landmarks, dtype=torch.float64)
    for place in range(nearest.shape[1]):
        products = weights[:, place].unsqueeze(1) * weights
        flat = nearest[:, place].unsqueeze(1) * landmarks + nearest
        shared.view(-1).index_add_(0, flat.reshape(-1), products.double().reshape(-1))
    hop = shared / shared.sum(1, keepdim=True).clamp(min=1e-12)
    powers = [torch.eye(landmarks, dtype=torch.float64)]
    for _ in range(hops - 1):
        powers.append(powers[-1] @ hop)
    return torch.stack(powers).mean(0).to(weights.dtype)

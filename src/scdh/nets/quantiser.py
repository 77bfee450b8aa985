"""Product quantisation: a vector is cut into slices, and each is replaced by the nearest of 256 words (DQN)."""

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

WORDS = 256  # per slice, so that its code is one byte
ROUNDS = 20  # k-means iterations
MOST_FITTED = 100_000  # rows that k-means looks at
PIECE = 65_536  # rows that are compared with all words at once


class ProductQuantiser(nn.Module):
    """Words of M slices of vectors [n, d], as one table [256, d]: slice m of row j is word j of slice m.

    Args:
        width: d.
        parts: M, at most d.
    """

    words: Tensor

    def __init__(self, width: int, parts: int) -> None:
        super().__init__()
        edges = [width * part // parts for part in range(parts + 1)]
        self.slices = [slice(start, stop) for start, stop in pairwise(edges)]
        self.register_buffer("words", torch.zeros(WORDS, width))

    @torch.no_grad()
    def assign(self, z: Tensor) -> Tensor:
        """The nearest word of each slice: int64 [n, M]."""
        z = z.to(self.words)
        return torch.stack([nearest_word(z[:, part], self.words[:, part]) for part in self.slices], 1)

    def reconstruct(self, codes: Tensor) -> Tensor:
        """The vectors that codes [n, M] stand for: [n, d]."""
        return torch.cat([self.words[codes[:, m], part] for m, part in enumerate(self.slices)], 1)

    @torch.no_grad()
    def fit(self, z: Tensor, rng: np.random.Generator) -> None:
        """New words for vectors z [n, d], by k-means in each slice."""
        rows = np.sort(rng.permutation(len(z))[:MOST_FITTED])
        z = z[torch.from_numpy(rows)].to(self.words)
        for part in self.slices:
            self.words[:, part] = k_means(z[:, part].contiguous(), WORDS, rng)


def nearest_word(x: Tensor, words: Tensor) -> Tensor:
    """argmin_j |x_i − w_j|: int64 [n], the first of several."""
    # |x|² is the same for all words, and is left out.
    half_squares = words.square().sum(1) / 2
    return torch.cat([(half_squares - piece @ words.T).argmin(1) for piece in x.split(PIECE)])


def k_means(x: Tensor, count: int, rng: np.random.Generator) -> Tensor:
    """Words [count, d] of rows [n, d]: Lloyd's algorithm from rows drawn at random. With fewer rows than words the rows
    are the words, and the rest are copies of the first, which are never the nearest before it.
    """
    start = torch.from_numpy(rng.permutation(len(x))[:count]).to(x.device)
    words = torch.cat([x[start], x[start[:1]].expand(count - len(start), -1)])
    nearest = None
    for _ in range(ROUNDS):
        before, nearest = nearest, nearest_word(x, words)
        if before is not None and torch.equal(before, nearest):
            break
        sums = torch.zeros_like(words).index_add_(0, nearest, x)
        counts = torch.bincount(nearest, minlength=count).unsqueeze(1)
        words = torch.where(counts > 0, sums / counts.clamp(min=1), words)
    return words

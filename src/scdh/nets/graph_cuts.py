"""Codes of the training rows by block-wise graph cuts: the first stage of FTDE.

One bit z ∈ {−1, 1}^n at a time, the earlier bits fixed, is chosen to lower

    Σ_(i,j,k) max(0, m − (D + [z_i ≠ z_k] − [z_i ≠ z_j])),     D = d_H(i, k) − d_H(i, j) over the earlier bits, m = r/2

for the r-th bit. For a triplet this is a constant + a (z_i z_j − z_i z_k) + c z_j z_k, with l(d) = max(0, m − D − d):

    a = (l(1) − l(−1)) / 4 ≤ 0,     c = (2 l(0) − l(1) − l(−1)) / 4 ≤ 0

so that the sum is a quadratic form. The coefficients are multiples of 1/8: eight times as large they are whole numbers,
and cuts are exact.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

Triplets = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def draw_triplets(labels: np.ndarray, per_anchor: int, rng: np.random.Generator) -> Triplets:
    """(anchor, similar, dissimilar) row numbers: for each row at most ``per_anchor`` different ones of all that it has.

    Args:
        labels: int64 [n], one label per row.
        per_anchor: triplets of one anchor.
        rng: draws them.
    """
    anchors = []
    near = []
    far = []
    for i, label in enumerate(labels):
        same, other = np.flatnonzero(labels == label), np.flatnonzero(labels != label)
        same = same[same != i]
        count = len(same) * len(other)
        drawn = rng.choice(count, min(per_anchor, count), replace=False, shuffle=False) if count else np.empty(0, int)
        anchors.append(np.full(len(drawn), i))
        near.append(same[drawn // max(len(other), 1)])
        far.append(other[drawn % max(len(other), 1)])
    return tuple(np.concatenate([np.empty(0, np.int64), *part]).astype(np.int64) for part in (anchors, near, far))  # type: ignore[return-value]


def coefficients(distances: np.ndarray, bit: int) -> tuple[np.ndarray, np.ndarray]:
    """8a and 8c of each triplet.

    Args:
        distances: D, whole numbers [T].
        bit: r, from 1.
    """
    doubled = bit - 2 * distances  # 2 (m − D)
    nearer, farther = np.maximum(doubled - 2, 0), np.maximum(doubled + 2, 0)  # 2 l(1), 2 l(−1)
    return nearer - farther, 2 * np.maximum(doubled, 0) - nearer - farther


class TripletForm:
    """The quadratic form of fixed triplets, whose coefficients change from bit to bit.

    Args:
        triplets: as :func:`draw_triplets` gives them.
        count: n, the number of rows.
    """

    def __init__(self, triplets: Triplets, count: int) -> None:
        self.triplets, self.count = triplets, count
        i, j, k = triplets
        first, second = np.concatenate([i, i, j]), np.concatenate([j, k, k])
        keys = np.minimum(first, second) * count + np.maximum(first, second)
        pairs, self.pair_of = np.unique(keys, return_inverse=True)
        low = pairs // max(count, 1)
        high = pairs % max(count, 1)
        numbers = np.arange(1, len(pairs) + 1)
        ends = np.concatenate([low, high]), np.concatenate([high, low])
        self.pattern = csr_array((np.concatenate([numbers, numbers]), ends), shape=(count, count))

    def matrix(self, distances: np.ndarray, bit: int) -> csr_array:
        """Symmetric whole numbers T [n, n], T_ij = 8 times the coefficient of z_i z_j."""
        near, third = coefficients(distances, bit)
        totals = np.bincount(self.pair_of, np.concatenate([near, -near, third]), minlength=len(self.pattern.data) // 2)
        values = totals[self.pattern.data - 1].astype(np.int64)
        return csr_array((values, self.pattern.indices, self.pattern.indptr), shape=self.pattern.shape)

    def distances(self, codes: np.ndarray) -> np.ndarray:
        """D of each triplet for codes [n, r] of ±1."""
        i, j, k = self.triplets
        total = np.zeros(len(i), np.int64)
        for column in codes.T:
            total += (column[i] != column[k]).astype(np.int64) - (column[i] != column[j])
        return total


def infer_codes(form: TripletForm, earlier: np.ndarray, bits: int, rng: np.random.Generator) -> np.ndarray:
    """Further bits ±1 [n, bits], each inferred with the bits before it.

    Args:
        form: the triplets.
        earlier: bits before the first new one, [n, r].
        bits: how many to infer.
        rng: draws blocks and their order.
    """
    codes = np.asarray(earlier)
    for _ in range(bits):
        form_of_bit = form.matrix(form.distances(codes), codes.shape[1] + 1)
        codes = np.column_stack([codes, infer_bit(form_of_bit, rng)])
    return codes[:, earlier.shape[1] :]


def infer_bit(form: csr_array, rng: np.random.Generator) -> np.ndarray:
    """z ∈ {−1, 1}^n with a low zᵀ T z: from all +1, one pass over the blocks in random order."""
    z = np.ones(form.shape[0], np.int64)
    blocks = draw_blocks(form, rng)
    for number in rng.permutation(len(blocks)):
        block = blocks[number]
        z[block] = cut(form, z, block)
    return z


def draw_blocks(form: csr_array, rng: np.random.Generator) -> list[np.ndarray]:
    """Sets of rows that cover all, within each of which no T_ij is above 0; they may overlap.

    A block begins with a row that none has yet; then come the rows that are drawn to it (T < 0), then the rest that
    none has yet, in random order, each if it has no T > 0 with a row of the block.
    """
    starts = form.indptr
    columns = form.indices
    values = form.data
    is_covered, blocks = np.zeros(form.shape[0], bool), []
    for root in rng.permutation(form.shape[0]):
        if is_covered[root]:
            continue
        own = slice(starts[root], starts[root + 1])
        drawn = columns[own][values[own] < 0]
        is_listed = is_covered.copy()
        is_listed[drawn] = is_listed[root] = True
        repelled, members = np.zeros(form.shape[0], bool), []
        for row in [root, *drawn, *rng.permutation(np.flatnonzero(~is_listed))]:
            if not repelled[row]:
                members.append(row)
                around = slice(starts[row], starts[row + 1])
                repelled[columns[around][values[around] > 0]] = True
        blocks.append(np.array(members))
        is_covered[blocks[-1]] = True
    return blocks


def cut(form: csr_array, z: np.ndarray, block: np.ndarray) -> np.ndarray:
    """The best bits of a block's rows with all others fixed, ±1 [b], by a minimum cut.

    +1 costs Σ T_ij z_j over the rows j outside, −1 costs nothing, and two rows that differ cost −T_ij.
    """
    rows = form[block]
    inside = rows[:, block].tocoo()
    outside = rows @ z - inside @ z[block]
    size, (low, high) = len(block), inside.coords
    source = size
    sink = size + 1
    own = np.arange(size)
    values = np.concatenate([np.maximum(-inside.data, 0), np.maximum(-outside, 0), np.maximum(outside, 0)])
    ends = np.concatenate([low, np.full(size, source), own]), np.concatenate([high, own, np.full(size, sink)])
    graph = csr_array((values.astype(np.int32), ends), shape=(size + 2, size + 2))
    graph.eliminate_zeros()
    residual = csr_array(graph - maximum_flow(graph, source, sink).flow)
    residual.eliminate_zeros()
    reached = breadth_first_order(residual, source, return_predecessors=False)
    bits = np.full(size, -1, np.int64)
    bits[reached[reached < size]] = 1
    return bits

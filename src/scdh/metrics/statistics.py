"""Statistics of codes: collapsed, unbalanced or redundant bits are visible here before they lower MAP."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.codes.checks import check_codes
from scdh.errors import DataError
from scdh.label_arrays import is_labelled
from scdh.metrics.histograms import distance_histograms
from scdh.metrics.relevance import check_labels

_ROWS = 16384


def bit_balance(codes: Codes) -> NDArray[np.float64]:
    """Share of ones of each bit, p_j = 1/n Σ_i b_ij; 0.5 is balanced, 0 or 1 means that the bit is constant.

    >>> bit_balance(Codes.from_bits([[1, 0], [0, 0]])).tolist()
    [0.5, 0.0]
    """
    _reject_empty(codes)
    return _ones(codes) / len(codes)


def bit_entropy(codes: Codes) -> NDArray[np.float64]:
    """Entropy of each bit in bits, −p log₂ p − (1−p) log₂(1−p), between 0 (constant) and 1 (balanced).

    >>> bit_entropy(Codes.from_bits([[1, 0], [0, 0]])).tolist()
    [1.0, 0.0]
    """
    p = bit_balance(codes)
    inner = np.clip(p, 1e-300, 1), np.clip(1 - p, 1e-300, 1)
    return -(p * np.log2(inner[0]) + (1 - p) * np.log2(inner[1])) + 0.0


def distinct_codes(codes: Codes) -> int:
    """How many different codes there are: 1 means total collapse.

    >>> distinct_codes(Codes.from_bits([[1, 0], [0, 0], [1, 0]]))
    2
    """
    return len(bucket_sizes(codes))


def bucket_sizes(codes: Codes) -> NDArray[np.int64]:
    """How many items share each of the different codes, largest first; their sum is n.

    >>> bucket_sizes(Codes.from_bits([[1, 0], [0, 0], [1, 0]])).tolist()
    [2, 1]
    """
    check_codes(codes, "The codes")
    if len(codes) == 0:
        return np.zeros(0, np.int64)
    whole_rows = np.ascontiguousarray(codes.packed).view(np.dtype((np.void, codes.packed.shape[1])))
    return np.sort(np.unique(whole_rows, return_counts=True)[1])[::-1]


def bit_correlation(codes: Codes) -> float:
    """Mean |correlation| over all pairs of different bits: 0 means independent, 1 means copies of each other.

        ρ_jk = (E[b_j b_k] − p_j p_k) / √(p_j(1−p_j) p_k(1−p_k))

    A constant bit has no correlation, so pairs with one are left out; 0 if no pair is left.

    >>> bit_correlation(Codes.from_bits([[1, 0, 1], [0, 1, 0]]))
    1.0
    """
    p = bit_balance(codes)
    together = np.zeros((codes.bits, codes.bits))
    for start in range(0, len(codes), _ROWS):
        values = codes[start : start + _ROWS].unpack().astype(np.float64)
        together += values.T @ values
    varies = (p > 0) & (p < 1)
    if varies.sum() < 2:
        return 0.0
    p = p[varies]
    deviation = np.sqrt(p * (1 - p))
    correlation = (together[np.ix_(varies, varies)] / len(codes) - np.outer(p, p)) / np.outer(deviation, deviation)
    above = np.abs(correlation[np.triu_indices(len(p), k=1)])
    return float(np.minimum(above, 1.0).mean())


def class_distances(codes: Codes, labels: ArrayLike, *, sample: int = 4096, seed: int = 0) -> tuple[float, float]:
    """Mean Hamming distance of pairs that share a label, and of pairs that do not: (within, between).

    With one label per item it is exact and linear in n: a set of n items of which o have bit j set holds
    o·(n−o) pairs that differ in bit j. Multi-hot labels have no such form, so there the pairs of ``sample``
    items drawn with ``seed`` are compared. Unlabelled items are left out; a mean over no pair is NaN.

    >>> class_distances(Codes.from_bits([[0, 0], [0, 1], [1, 1]]), [5, 5, 6])
    (1.0, 1.5)
    """
    check_codes(codes, "The codes")
    known = check_labels(labels, len(codes))
    labelled = is_labelled(known)
    codes, known = codes[labelled], known[labelled]
    if known.ndim == 2:
        return _sampled_distances(codes, known, sample, seed)
    differing, pairs = _differing_pairs(codes)
    within, within_pairs = 0, 0
    order = np.argsort(known, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(known[order])) + 1):
        class_differing, class_pairs = _differing_pairs(codes[rows])
        within, within_pairs = within + class_differing, within_pairs + class_pairs
    return _ratio(within, within_pairs), _ratio(differing - within, pairs - within_pairs)


def code_statistics(codes: Codes, labels: ArrayLike | None = None) -> dict[str, Any]:
    """All statistics of this file in one summary, ready for JSON.

    Raises:
        DataError: if there are no codes, or labels do not fit.

    >>> code_statistics(Codes.from_bits([[1, 0], [0, 1]]))["distinct_codes"]
    2
    """
    balance, entropy = bit_balance(codes), bit_entropy(codes)
    summary: dict[str, Any] = {
        "items": len(codes),
        "bits": codes.bits,
        "distinct_codes": distinct_codes(codes),
        "bit_balance": balance.tolist(),
        "bit_entropy": entropy.tolist(),
        "mean_bit_entropy": float(entropy.mean()),
        "constant_bits": int(((balance == 0) | (balance == 1)).sum()),
        "mean_bit_correlation": bit_correlation(codes),
    }
    if labels is not None:
        within, between = class_distances(codes, labels)
        summary["distance_within_classes"] = None if np.isnan(within) else within
        summary["distance_between_classes"] = None if np.isnan(between) else between
    return summary


def _ones(codes: Codes) -> NDArray[np.int64]:
    """How many codes have each bit set."""
    counts = np.zeros(codes.bits, dtype=np.int64)
    for start in range(0, len(codes), _ROWS):
        counts += codes[start : start + _ROWS].unpack().sum(axis=0, dtype=np.int64)
    return counts


def _differing_pairs(codes: Codes) -> tuple[int, int]:
    """Sum of the Hamming distances of all pairs, and the number of pairs."""
    ones, count = _ones(codes), len(codes)
    return int((ones * (count - ones)).sum()), count * (count - 1) // 2


def _sampled_distances(codes: Codes, labels: NDArray[Any], sample: int, seed: int) -> tuple[float, float]:
    if len(codes) > sample:
        rows = np.sort(np.random.default_rng(seed).choice(len(codes), size=sample, replace=False))
        codes, labels = codes[rows], labels[rows]
    items, relevant = distance_histograms(codes, labels, codes, labels, leave_one_out=True)
    distance = np.arange(codes.bits + 1)
    same = relevant.sum(axis=0)
    different = items.sum(axis=0) - same
    return _ratio(same @ distance, same.sum()), _ratio(different @ distance, different.sum())


def _ratio(total: Any, count: Any) -> float:
    return float(total / count) if count else float("nan")


def _reject_empty(codes: Codes) -> None:
    check_codes(codes, "The codes")
    if len(codes) == 0:
        raise DataError("There are no codes to describe: they hold 0 rows.")

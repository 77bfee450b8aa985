"""Random codes and labels for benchmarks: from a seed, in little memory, of any size."""

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes

# Distances of the 10 items that are planted around each query.
PLANTED = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 2])


def uniform(count: int, bits: int, seed: int) -> Codes:
    """All codes equally likely: no structure to use, the nearest of a million 64-bit codes is 13 bits away."""
    return Codes(_random_rows(count, bits, np.random.default_rng(seed)), bits)


def clustered(labels: NDArray[np.int64], centres: Codes, halvings: int, seed: int) -> Codes:
    """Codes like trained ones: the centre of the item's class with one bit in 2^halvings flipped."""
    rng, bits = np.random.default_rng(seed), centres.bits
    flips = _random_rows(len(labels), bits, rng)
    for _ in range(halvings - 1):
        flips &= _random_rows(len(labels), bits, rng)
    return Codes(centres.packed[labels] ^ flips, bits)


def planted(count: int, bits: int, queries: int, seed: int) -> tuple[Codes, Codes, NDArray[np.int64]]:
    """Uniform codes, uniform queries, and the rows [queries, 10] that were overwritten with near ones of each query."""
    rng = np.random.default_rng(seed)
    database, query_rows = _random_rows(count, bits, rng), _random_rows(queries, bits, rng)
    rows = rng.choice(count, (queries, len(PLANTED)), replace=False)
    flips = np.zeros((rows.size, bits), np.bool_)
    positions = rng.permuted(np.tile(np.arange(bits), (rows.size, 1)), axis=1)[:, : PLANTED.max()]
    for nth in range(positions.shape[1]):
        flipped = np.tile(nth < PLANTED, queries)
        flips[flipped, positions[flipped, nth]] = True
    database[rows.ravel()] = query_rows.repeat(len(PLANTED), axis=0) ^ np.packbits(flips, axis=1)
    return Codes(database, bits), Codes(query_rows, bits), rows


def class_labels(count: int, classes: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, classes, count)


def label_sets(primary: NDArray[np.int64], classes: int, seed: int) -> NDArray[np.bool_]:
    """Multi-hot: the primary label, and each other one with probability 1/classes, so two labels on average."""
    hot = np.random.default_rng(seed).random((len(primary), classes), np.float32) < 1 / classes
    hot[np.arange(len(primary)), primary] = True
    return hot


def _random_rows(count: int, bits: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    rows = rng.integers(0, 256, (count, -(-bits // 8)), dtype=np.uint8)
    # Spare bits at the end of a row are 0.
    rows[:, -1] &= np.uint8(0xFF << (-bits % 8) & 0xFF)
    return rows

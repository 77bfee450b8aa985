"""Codes ranked again by stored vectors: ``python -m research.rescoring embeddings.npz --bits 48 --seed 0``.

The file has embeddings ``x`` [n, d] and labels ``y``, int [n] or multi-hot [n, C]. SCDH is trained on 5,000 items of
the database (``SCDHTransformer`` with its defaults); the queries are 1,000 other items, or a third of all. For the
precision of the first ones, 10·factor items are ranked again; for MAP of the whole ranking 100·factor. Nothing is
chosen by these scores.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.codes.vectors import rounded
from scdh.estimator import SCDHTransformer
from scdh.experiments.pages.markdown import markdown_table

Floats = NDArray[np.floating]
TRAINED, QUERIES, FACTORS = 5000, 1000, (4, 10)


def measure(x: Floats, y: NDArray[np.integer], bits: int, seed: int) -> list[dict[str, object]]:
    """A row for each way to rank, with the bytes that it keeps per item."""
    order = np.random.default_rng(seed).permutation(len(x))
    count = min(QUERIES, len(x) // 3)
    queries, database = order[:count], order[count:]
    trained = database[:TRAINED]
    model = SCDHTransformer(bits=bits, random_state=seed).fit(x[trained], y[trained])
    u, v = model.outputs(x[queries]), model.outputs(x[database])
    one, many = y[queries], y[database]
    relevant = one[:, None] == many[None] if y.ndim == 1 else one.astype(np.int64) @ many.T > 0
    signs = Codes.from_signs(v).signs().astype(np.float32)
    hamming = (bits - np.where(u >= 0, 1, -1).astype(np.float32) @ signs.T) / 2
    rows = []
    for name, size, first, whole in _rankings(hamming, signs, u, v, x[queries], x[database]):
        average_precision, _, _ = _scores(whole, relevant)
        _, one_first, ten_first = _scores(first, relevant)
        numbers = {"MAP": average_precision, "first 1": one_first, "first 10": ten_first}
        rows.append({"ranking": name, "bytes": size} | {name: f"{number:.4f}" for name, number in numbers.items()})
    return rows


def _rankings(
    hamming: Floats, signs: Floats, u: Floats, v: Floats, query_x: Floats, database_x: Floats
) -> Iterator[tuple[str, int, Floats, Floats]]:
    """Name, bytes per item, and the distances [q, n] for the first 10 and for MAP."""
    code = -(-u.shape[1] // 8)

    def alike(name: str, size: int, distances: Floats) -> tuple[str, int, Floats, Floats]:
        return name, size, distances, distances

    yield alike("codes", code, hamming)
    yield alike("outputs of the query", code, -(u @ signs.T))
    for kind in ("int8", "float16"):
        away = _cosine(u, rounded(v, kind))
        size = code + rounded(v[:1], kind).nbytes
        for factor in FACTORS:
            first, whole = (_again(hamming, away, k * factor) for k in (10, 100))
            yield f"codes, then {factor}·k by {kind} outputs", size, first, whole
    yield alike("all by float32 outputs", 4 * u.shape[1], _cosine(u, v))
    away = _cosine(query_x, rounded(database_x, "int8"))
    first, whole = (_again(hamming, away, k * FACTORS[0]) for k in (10, 100))
    yield f"codes, then {FACTORS[0]}·k by int8 embeddings", code + database_x.shape[1], first, whole
    yield alike("all by float32 embeddings", 4 * database_x.shape[1], _cosine(query_x, database_x))


def _cosine(queries: Floats, items: NDArray[np.generic]) -> Floats:
    both = (queries, items.astype(np.float32))
    one, many = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in both)
    return -(one @ many.T)


def _again(hamming: Floats, away: Floats, count: int) -> Floats:
    """Distances by which the ``count`` nearest by code come first, ordered by ``away``."""
    distances = hamming + 2
    top = np.argsort(hamming, axis=1, kind="stable")[:, :count]
    np.put_along_axis(distances, top, np.take_along_axis(away, top, axis=1), axis=1)
    return distances


def _scores(distances: Floats, relevant: NDArray[np.bool_]) -> tuple[float, float, float]:
    """MAP and precision of the first 1 and 10 over the queries that have something relevant; ties in order of rows."""
    ranked = np.take_along_axis(relevant, np.argsort(distances, axis=1, kind="stable"), axis=1)
    ranked = ranked[ranked.any(axis=1)]
    precision = np.cumsum(ranked, axis=1) / np.arange(1, ranked.shape[1] + 1)
    average = float(((precision * ranked).sum(axis=1) / ranked.sum(axis=1)).mean())
    return average, float(ranked[:, :1].mean()), float(ranked[:, :10].mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--bits", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with np.load(options.embeddings, allow_pickle=False) as data:
        table = measure(data["x"], data["y"], options.bits, options.seed)
    print(markdown_table(list(table[0]), [list(map(str, row.values())) for row in table]))

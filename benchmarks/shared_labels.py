"""How far an order of methods depends on what counts as relevant: ``python -m benchmarks.shared_labels FOLDER``.

FOLDER holds a finished comparison on data with several labels an item. Its validation rows are looked up among rows
that no method learned from; no query takes part. For MAP (of the first 5,000) an item is relevant if it shares a label.
nDCG@100 gives each item the share of labels that both have (intersection over union), so that items with all labels
of the query should come first. Both are expected values over all orders of ties.
"""

import argparse
import statistics
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scdh.codes import HAMMING, Codes
from scdh.data.protocol import Protocol
from scdh.errors import DataError
from scdh.evaluation import evaluate
from scdh.experiments.compare.results import ComparisonResults
from scdh.experiments.pages.markdown import markdown_table
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of

TOP = 100


def ndcg(distances: NDArray[np.integer], gains: NDArray[np.floating], top: int = TOP) -> float:
    """Mean nDCG of rankings by distance, each item of a tie counting as the mean of the tie.

    Args:
        distances: whole numbers [Q, N].
        gains: of each item for each query [Q, N].
        top: first items that count.
    """
    weights = 1 / np.log2(np.arange(2, min(top, distances.shape[1]) + 2))
    scores = []
    for distance, gain in zip(distances, gains, strict=True):
        best = np.sort(gain)[::-1][: len(weights)] @ weights
        mean_of_tie = np.bincount(distance, gain) / np.maximum(np.bincount(distance), 1)
        if best > 0:
            scores.append(mean_of_tie[np.sort(distance)[: len(weights)]] @ weights / best)
    return statistics.fmean(scores)


def score(codes: Codes, protocol: Protocol, labels: NDArray[np.integer]) -> tuple[float, float]:
    """MAP and nDCG of validation rows, looked up among the rows of the database that nothing was learned from."""
    is_query = np.isin(protocol.database, protocol.validation)
    is_other = ~is_query & ~np.isin(protocol.database, protocol.train)
    if not (is_query.any() and is_other.any()):
        raise DataError("The database has no validation rows, or nothing but these and training rows.")
    query, other = (labels[protocol.database[rows]] for rows in (is_query, is_other))
    shared = query.astype(np.float32) @ other.T.astype(np.float32)  # floats: whole numbers have no fast product
    union = query.sum(1)[:, None] + other.sum(1)[None] - shared
    signs = codes.signs().astype(np.float32)
    distances = ((codes.bits - signs[is_query] @ signs[is_other].T) / 2).astype(np.int64)
    found = evaluate(codes[is_query], query, codes[is_other], other, topk=5000)
    return found.map, ndcg(distances, shared / np.maximum(union, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="of a finished comparison whose database has its validation rows")
    folder = parser.parse_args().folder
    if not (folder / "compare.json").is_file():
        parser.error(f"{folder} is no folder of a finished scdh compare.")
    results = ComparisonResults.read(folder)
    if not results.data.multi_label:
        parser.error(f"{results.data.name} has one label an item; this is about items that share some of several.")
    bits, labels = max(results.bits), None
    rows: list[tuple[str, float, float]] = []
    for method in (row for row in results.rows if row.bits == bits and not row.student):
        found = []
        for seed in results.seeds:
            run = RunFolder(folder / "cells" / f"{method.method}-{bits}-{seed}")
            codes = Codes.load(run.codes("database"))
            if codes.ranking != HAMMING:  # it ranks by something else
                break
            labels = source_of(run.config()).labels if labels is None else labels
            found.append(score(codes, Protocol.load(run.protocol_file), labels))
        if found:
            maps, ndcgs = zip(*found, strict=True)
            rows.append((method.title, statistics.fmean(maps), statistics.fmean(ndcgs)))
    rows.sort(key=lambda row: -row[2])
    print(markdown_table(["method", "MAP", f"nDCG@{TOP}"], [[name, f"{m:.3f}", f"{n:.3f}"] for name, m, n in rows]))


if __name__ == "__main__":
    main()

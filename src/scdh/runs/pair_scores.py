"""Score a run on pairs that did not train, where its rows have no labels: AUC of the codes' distances."""

from typing import Any

import numpy as np

from scdh.codes import HAMMING
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.metrics.pairs import pair_auc
from scdh.runs.encoding import encode_rows
from scdh.runs.folder import NetworkName, RunFolder
from scdh.runs.source_features import SourceFeatures


def score_pairs(
    run: RunFolder, source: Source, protocol: Protocol, part: str = "query", network: NetworkName | None = None
) -> dict[str, Any]:
    """AUC and mean distances of the pairs of the rows held out as ``part``, "query" or "validation", in bits."""
    rows = protocol.validation if part == "validation" else protocol.query
    if source.pairs is None:
        raise DataError(f"The run in {str(run)!r} was not trained on pairs.")
    others = np.setdiff1d(source.pairs.rows, protocol.query if part == "validation" else rows[:0])
    pairs = source.pairs.with_one_of(rows, others)
    if not (pairs.similar > 0.5).any() or not (pairs.similar < 0.5).any():
        raise DataError(f"There is nothing to score with: the {part} rows have no labels, nor pairs of both kinds.")
    hasher = run.load_model(network)
    if hasher.method.ranking != HAMMING:
        raise DataError(f"Pairs are scored by Hamming distance, but {hasher.method.about.title} has another distance.")
    hash_outputs = SourceFeatures(source, run.feature_folder()).hash_outputs
    bad_images = hasher.config.data.on_bad_image
    codes = encode_rows(hasher, source, pairs.rows, on_bad_image=bad_images, hash_outputs=hash_outputs)[0]
    assert codes.ids is not None  # row numbers
    pairs = pairs.positions(codes.ids)
    left, right = codes.packed[pairs.a], codes.packed[pairs.b]
    distances = np.bitwise_count(left ^ right).sum(axis=1, dtype=np.int64)
    return {
        "part": part,
        "pairs": len(pairs),
        "similar": int((pairs.similar > 0.5).sum()),
        "auc": pair_auc(distances, pairs.similar),
        "distance_similar": float(distances[pairs.similar > 0.5].mean()),
        "distance_dissimilar": float(distances[pairs.similar < 0.5].mean()),
        "bits": hasher.bits,
    }

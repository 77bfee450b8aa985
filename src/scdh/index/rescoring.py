"""Rank the hits of codes again, by the cosine of the items' vectors."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.hits import Hits
from scdh.index.segments import Segment

RESCORE = 4  # the command line and the service rank this many times k items by vectors
_CELLS = 1 << 22  # numbers of the vectors that are in memory at once


def check_query_vectors(query_codes: Codes, kind: tuple[str, int] | None) -> None:
    """Reject queries that cannot be compared with the vectors of an index, whose type and width are ``kind``."""
    if kind is None:
        raise CodesError(
            "This index keeps no vectors to rank by; `scdh index --keep-vectors int8` writes one that does (in Python: "
            "codes.with_vectors)."
        )
    if query_codes.vectors is None:
        raise CodesError("The queries carry no vectors; query_codes.with_vectors(u) takes their real outputs.")
    if query_codes.vectors.shape[1] != kind[1]:
        raise CodesError(f"The vectors of the queries have {query_codes.vectors.shape[1]} numbers, not {kind[1]}.")


def rank_by_vectors(hits: Hits, query_codes: Codes, segments: Sequence[Segment], k: int) -> Hits:
    """The k nearest of the hits of each query, by (1 − cosine, id)."""
    assert query_codes.vectors is not None
    width, vectors = min(k, hits.ids.shape[1]), query_codes.vectors
    ids, distances = np.empty((len(hits), width), np.int64), np.empty((len(hits), width))
    step = max(1, _CELLS // max(1, hits.ids.shape[1] * vectors.shape[1]))
    for start in range(0, len(hits) if width else 0, step):
        part = slice(start, start + step)
        found = hits.ids[part]
        items = gather_vectors(segments, found.ravel()).reshape(*found.shape, -1).astype(np.float64)
        queries = vectors[part].astype(np.float64)
        products = np.matmul(items, queries[:, :, None])[:, :, 0]
        lengths = np.sqrt(np.square(items).sum(axis=2) * np.square(queries).sum(axis=1)[:, None])
        # Sums of rounded numbers differ in their last digits with the size of a block; the order must not.
        away = np.round(1 - products / np.maximum(lengths, np.finfo(np.float64).tiny), 12)
        order = np.lexsort((found, away))[:, :width]
        ids[part], distances[part] = (np.take_along_axis(array, order, axis=1) for array in (found, away))
    return Hits(ids, distances)


def gather_vectors(segments: Sequence[Segment], ids: NDArray[np.int64]) -> NDArray[np.generic]:
    """The vectors [m, width] of ids that exist, in their order."""
    first = segments[0].vectors
    assert first is not None
    vectors = np.empty((len(ids), first.shape[1]), first.dtype)
    for segment in segments:
        rows = segment.rows_of(ids)
        in_segment = rows >= 0
        vectors[in_segment] = segment.vectors_of(rows[in_segment])
    return vectors

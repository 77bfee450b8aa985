"""Multi-index hashing (Norouzi, Punjani, Fleet: "Fast exact search in Hamming space with multi-index hashing").

A query and an item at most r bits apart differ by at most r/m bits in one of m pieces, so it is enough to look up
pieces, each in its own table. With pieces of about log₂ n bits a look-up meets about one item, and a near neighbour
among 10 million costs some microseconds. The results are those of the scan. If many codes are nearly equal, or
neighbours are far, the scan is faster: a query whose look-ups have cost as much as a scan is scanned instead.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from math import comb, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.errors import CodesError
from scdh.index.kernels.threads import run, thread_count
from scdh.index.search import loading
from scdh.index.search.scan import Distances, Rows, few_rows, row_mask, split

# Fewer rows than this are scanned faster than looked up.
FEWEST_ROWS = 1 << 16
_MOST_ROWS = (1 << 32) - 1
# A look-up, or a row met, costs about as much as scanning this many rows.
_ROWS_PER_LOOK_UP = 128
_LONGEST_PIECE = 26
# Queries of one task; fewer take less time than waking another thread.
_FEWEST_QUERIES, _QUERIES = 128, 1024


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of one segment; the arrays are described in ``kernels.probing``."""

    words: NDArray[Any]
    bits: int
    starts: NDArray[np.uint32]
    rows: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    cuts: NDArray[np.int64]
    masks: NDArray[Any]

    @classmethod
    def build(cls, words: NDArray[Any], bits: int) -> "Tables":
        from scdh.index.kernels.probing import fill_table, piece_keys

        if words.shape[1] > _MOST_ROWS:
            raise CodesError(f"Tables can have {_MOST_ROWS} rows, but there are {words.shape[1]}; use by='scan'.")
        cuts = piece_cuts(bits, words.shape[1])
        sizes = np.diff(cuts)
        lengths = (1 << sizes) + 1
        offsets = np.cumsum(lengths) - lengths
        starts = np.empty(int(lengths.sum()), np.uint32)
        rows = np.empty((len(sizes), words.shape[1]), np.uint32)

        def fill(table: int) -> None:
            # numpy's vector sort of whole numbers is several times faster than scattering rows over memory.
            keys = piece_keys(words, int(cuts[table]), int(cuts[table + 1]))
            keys.sort()
            fill_table(keys, starts[offsets[table] : offsets[table] + lengths[table]], rows[table])

        for _ in run([partial(fill, table) for table in range(len(sizes))]):
            pass
        return cls(words, bits, starts, rows, offsets, cuts, _piece_masks(cuts, words))

    def nearest(
        self, queries: NDArray[Any], k: int, allowed: NDArray[np.bool_] | None, budget: int | None
    ) -> tuple[Rows, Distances, NDArray[np.bool_]]:
        """As ``scan.nearest`` for k rows that exist, and which queries were answered."""
        from scdh.index.kernels.probing import nearest_by_tables

        count = queries.shape[1]
        rows, distances = np.empty((count, k), np.int64), np.empty((count, k), np.int32)
        query_rows, mask = np.ascontiguousarray(queries.T), row_mask(allowed)

        def task(part: slice) -> NDArray[np.bool_]:
            return nearest_by_tables(  # type: ignore[no-any-return]
                self.words,
                query_rows[part],
                k,
                int(self.cuts[-1]),
                self._arrays(),
                mask,
                _limit(budget),
                rows[part],
                distances[part],
            )

        done = list(run([partial(task, part) for part in _parts(count)]))
        return rows, distances, np.concatenate([np.empty(0, np.bool_), *done])

    def within(
        self, queries: NDArray[Any], radius: int, allowed: NDArray[np.bool_] | None, budget: int | None
    ) -> tuple[tuple[Rows, Rows, Distances], NDArray[np.bool_]]:
        """As ``scan.within`` for the queries that were answered, and which those are."""
        from scdh.index.kernels.probing import within_by_tables

        query_rows, mask = np.ascontiguousarray(queries.T), row_mask(allowed)
        parts = _parts(queries.shape[1])
        tasks = [
            partial(
                within_by_tables, self.words, query_rows[part], radius, self.bits, self._arrays(), mask, _limit(budget)
            )
            for part in parts
        ]
        results = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32))]
        answered = [np.empty(0, np.bool_)]
        for part, (keys, done) in zip(parts, run(tasks), strict=True):
            query, distance, row = split(np.sort(keys), self.bits, self.words.shape[1])
            results.append((query + part.start, row, distance.astype(np.int32)))
            answered.append(done)
        pairs: Any = tuple(np.concatenate(column) for column in zip(*results, strict=True))
        return pairs, np.concatenate(answered)

    def _arrays(self) -> tuple[Any, ...]:
        return self.starts, self.rows, self.offsets, self.cuts, self.masks


def are_loaded(words: NDArray[Any]) -> bool:
    """Whether the compiled loops are loaded for words of this type; if not, a thread loads them from now on."""
    return _load(words, 0.0)


def load_now(words: NDArray[Any]) -> None:
    """Load the compiled loops for words of this type, and wait for them."""
    _load(words, None)


def _load(words: NDArray[Any], patience: float | None) -> bool:
    return loading.load(("tables", words.dtype.char), partial(_rehearse, few_rows(words)), patience)


def _rehearse(words: NDArray[Any]) -> None:
    made_up = Tables.build(words, 8 * words.shape[0] * words.itemsize)
    query = words[:, :1].copy()
    made_up.nearest(query, 1, None, None)
    made_up.within(query, 0, None, None)


def piece_cuts(bits: int, rows: int) -> NDArray[np.int64]:
    """The bits at which pieces begin and end: pieces of about log₂ n bits, which cover all stored bytes."""
    stored = -(-bits // 8) * 8
    ideal = min(max(log2(max(rows, 2)), 1), _LONGEST_PIECE)
    pieces = max(round(stored / ideal), -(-stored // _LONGEST_PIECE), 1)
    return np.array([stored * i // pieces for i in range(pieces + 1)], dtype=np.int64)


@lru_cache
def look_ups(bits: int, rows: int, radius: int) -> int:
    """How many look-ups steps 0 … radius take."""
    sizes = np.diff(piece_cuts(bits, rows)).tolist()
    return sum(comb(sizes[step % len(sizes)], step // len(sizes)) for step in range(radius + 1))


def budget(rows: int) -> int:
    """The number of look-ups and rows met that cost as much as a scan."""
    return rows // _ROWS_PER_LOOK_UP


def may_win(bits: int, rows: int, radius: int) -> bool:
    """Whether tables should be much faster than a scan; a look-up meets at least about one row."""
    return FEWEST_ROWS <= rows <= _MOST_ROWS and 8 * look_ups(bits, rows, radius) <= budget(rows)


def _piece_masks(cuts: NDArray[np.int64], words: NDArray[Any]) -> NDArray[Any]:
    width = 8 * words.itemsize
    positions = np.arange(words.shape[0] * width)
    inside = (positions >= cuts[:-1, None]) & (positions < cuts[1:, None])
    packed = np.packbits(inside, axis=1, bitorder="little")
    return packed.view(words.dtype.newbyteorder("<")).astype(words.dtype)


def _parts(count: int) -> list[slice]:
    if count <= _FEWEST_QUERIES:
        return [slice(0, count)] if count else []
    size = max(_FEWEST_QUERIES, min(_QUERIES, -(-count // thread_count())))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _limit(budget: int | None) -> int:
    return np.iinfo(np.int64).max if budget is None else budget

"""A LanceDB table as the store of an index: ``id``, ``code`` (bytes), ``name`` and ``labels``.

LanceDB compares every code (no vector index is used), but returns any of several items at the last distance. So more
than k are requested, and where the k-th distance is still the last one, all items at exactly that distance.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from scdh.errors import CodesError, ConfigError
from scdh.extras import check_installed
from scdh.index.engine_store import NO_RANKING, Condition, Ranking, differing_rows
from scdh.index.items import Items, WithLabels, stored_items
from scdh.index.lance.address import Address

_DESCRIPTION = b"scdh"
_FILTER_IDS = 10_000  # in one filter; the time to parse it grows faster than their number
_ANSWER_HITS = 1 << 20  # of all queries of one request


class LanceTable:
    """One table; ``Store`` documents the methods."""

    def __init__(self, address: Address) -> None:
        check_installed("A LanceDB table", "lancedb")
        self.shown = address.text
        self._address, self._opened, self._width = address, None, 0

    def close(self) -> None:
        self._opened = None

    def exists(self) -> bool:
        if self._address.path is not None and not self._address.path.is_dir():
            return False  # to connect would create the folder
        with self._one_sentence():
            database, page = self._database(), None
            while True:
                found = database.list_tables(page_token=page, limit=1000)
                if self._address.table in found.tables:
                    return True
                if not (page := found.page_token):
                    return False

    def make(self, bits: int, description: str) -> None:
        schema = _schema(-(-bits // 8)).with_metadata({_DESCRIPTION: description.encode()})
        with self._one_sentence():
            self._database().create_table(self._address.table, schema=schema)

    def description(self) -> str | None:
        metadata = self._table.schema.metadata or {}
        return metadata.get(_DESCRIPTION, b"").decode("utf-8", "replace") or None

    def prepare(self, bits: int) -> None:
        self._width = -(-bits // 8)
        expected, found = _schema(self._width), self._table.schema
        for field in expected:
            if field.name not in found.names or found.field(field.name).type != field.type:
                raise CodesError(
                    f"The table at {self.shown} says that it holds codes of {bits} bits, "
                    f"but its column {field.name!r} is not {field.type}."
                )

    def writing(self) -> nullcontext[None]:
        return nullcontext()

    def count(self, condition: Condition = None) -> int:
        if condition is None or isinstance(condition, WithLabels):
            with self._one_sentence():
                return int(self._table.count_rows(None if condition is None else _labels_filter(condition)))
        return len(self.known_ids(condition))

    def ids(self) -> NDArray[np.int64]:
        return np.sort(self._select(["id"])["id"].to_numpy())

    def largest_id(self) -> int:
        from lancedb.query import ColumnOrdering

        with self._one_sentence():
            last = self._table.search().order_by([ColumnOrdering(column_name="id", ascending=False)]).limit(1)
            found = last.select(["id"]).to_arrow()["id"].to_pylist()
        return found[0] if found else -1

    def known_ids(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._known(ids, [])["id"].to_numpy()

    def known_codes(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        rows = self._known(ids, ["code"])
        return rows["id"].to_numpy(), _packed(rows, self._width)

    def known_items(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], Items]:
        rows = self._known(ids, ["name", "labels"])
        return rows["id"].to_numpy(), _items(rows)

    def named(self, names: list[str]) -> dict[int, str]:
        from lancedb.expr import col

        rows = self._select(["id", "name"], col("name").isin(names))
        return dict(zip(rows["id"].to_pylist(), rows["name"].to_pylist(), strict=True))

    def nearest(self, packed: NDArray[np.uint8], k: int, condition: Condition) -> list[Ranking]:
        limit = 2 * k + 64
        rankings = self._search(packed, limit, condition)
        cut: dict[int, list[int]] = {}
        for query, (ids, distances) in enumerate(rankings):
            if len(ids) == limit and distances[-1] == distances[k - 1]:
                cut.setdefault(int(distances[-1]), []).append(query)
        for distance, queries in cut.items():
            levels = self._search(packed[queries], self.count(), condition, (distance, distance + 1))
            for query, (level, level_distances) in zip(queries, levels, strict=True):
                ids, distances = rankings[query]
                nearer = distances < distance
                rankings[query] = (
                    np.concatenate([ids[nearer], level]),
                    np.concatenate([distances[nearer], level_distances]),
                )
        return [(ids[:k], distances[:k]) for ids, distances in rankings]

    def within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> list[Ranking]:
        return self._search(packed, self.count(), condition, (0, radius + 1))

    def count_within(self, packed: NDArray[np.uint8], radius: int, condition: Condition) -> NDArray[np.int64]:
        return np.array([len(ids) for ids, _ in self.within(packed, radius, condition)], np.int64)

    def write(self, ids: NDArray[np.int64], packed: NDArray[np.uint8], items: Items, compare: bool) -> int:
        rows = _rows(ids, packed, items)
        if compare:
            stored = self._known(ids, ["code", "name", "labels"])
            held = stored["id"].to_numpy(), _packed(stored, self._width), _items(stored)
            rows = rows.take(differing_rows(ids, packed, items, *held))
        if len(rows):
            with self._one_sentence():
                merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
                merge.execute(rows)
        return len(rows)

    def remove(self, ids: NDArray[np.int64]) -> None:
        from lancedb.expr import col

        with self._one_sentence():
            self._table.delete(col("id").isin(ids.tolist()).to_sql())

    @property
    def _table(self) -> Any:
        if self._opened is None:
            with self._one_sentence():
                self._opened = self._database().open_table(self._address.table)
        return self._opened

    def _database(self) -> Any:
        import lancedb

        # A search sees what other programs wrote before it.
        return lancedb.connect(self._address.folder, read_consistency_interval=timedelta(0))

    def _select(self, columns: list[str], condition: Any = None) -> pa.Table:
        with self._one_sentence():
            query = self._table.search().select(columns)
            return (query if condition is None else query.where(condition)).to_arrow()

    def _known(self, ids: NDArray[np.int64], columns: list[str]) -> pa.Table:
        """The rows with these ids, by ascending id."""
        from lancedb.expr import col, lit

        columns, id_column = ["id", *columns], col("id")
        if len(ids) == 0:
            return _schema(self._width).empty_table().select(columns)
        low, high = int(ids.min()), int(ids.max())
        if high - low < 4 * len(ids):
            rows = self._select(columns, (id_column >= lit(low)) & (id_column <= lit(high)))
            rows = rows.filter(pa.array(np.isin(rows["id"].to_numpy(), ids)))
        else:
            starts = range(0, len(ids), _FILTER_IDS)
            parts = [ids[start : start + _FILTER_IDS].tolist() for start in starts]
            rows = pa.concat_tables([self._select(columns, id_column.isin(part)) for part in parts])
        return rows.sort_by("id")

    def _search(
        self, packed: NDArray[np.uint8], limit: int, condition: Condition, bounds: tuple[int, int] | None = None
    ) -> list[Ranking]:
        """At most ``limit`` items of each query, within lower ≤ distance < upper where these bounds are given."""
        if limit == 0 or (isinstance(condition, np.ndarray) and len(condition) == 0):
            return [NO_RANKING] * len(packed)
        step = max(1, _ANSWER_HITS // limit)
        rankings: list[Ranking] = []
        for start in range(0, len(packed), step):
            part = packed[start : start + step]
            with self._one_sentence():
                query = self._table.search(list(part), vector_column_name="code").distance_type("hamming")
                query = query.bypass_vector_index().limit(limit).select(["id", "_distance"])
                if condition is not None:
                    query = query.where(_filter(condition))
                if bounds is not None:
                    query = query.distance_range(*bounds)
                rankings += _split(query.to_arrow(), len(part))
        return rankings

    @contextmanager
    def _one_sentence(self) -> Iterator[None]:
        """Errors of LanceDB, which are ValueError, RuntimeError and OSError, as one sentence."""
        try:
            yield
        except (CodesError, ConfigError):
            raise
        except (ValueError, RuntimeError, OSError) as error:
            reason = " ".join(str(error).split())[:300].rstrip(".")
            raise CodesError(f"LanceDB could not use {self.shown}: {reason}.") from error


def _schema(width: int) -> pa.Schema:
    return pa.schema(
        {
            "id": pa.int64(),
            "code": pa.list_(pa.uint8(), width),
            "name": pa.string(),
            "labels": pa.list_(pa.string()),
        }
    )


def _rows(ids: NDArray[np.int64], packed: NDArray[np.uint8], items: Items) -> pa.Table:
    width = packed.shape[1]
    schema = _schema(width)
    codes = pa.FixedSizeListArray.from_arrays(pa.array(packed.ravel()), type=schema.field("code").type)
    labels = pa.array([list(own) for own in items.labels], schema.field("labels").type)
    return pa.table([pa.array(ids), codes, pa.array(list(items.names), pa.string()), labels], schema=schema)


def _packed(rows: pa.Table, width: int) -> NDArray[np.uint8]:
    if rows["code"].null_count:
        raise CodesError("The table has items without a code.")
    parts = [chunk.flatten().to_numpy().reshape(-1, width) for chunk in rows["code"].chunks]
    return np.concatenate([np.empty((0, width), np.uint8), *parts])


def _items(rows: pa.Table) -> Items:
    return stored_items(rows["name"].to_pylist(), rows["labels"].to_pylist())


def _filter(condition: NDArray[np.int64] | WithLabels) -> Any:
    from lancedb.expr import col

    return _labels_filter(condition) if isinstance(condition, WithLabels) else col("id").isin(condition.tolist())


def _labels_filter(condition: WithLabels) -> str:
    """A filter, whose literals LanceDB quotes; it has no expression for lists."""
    from lancedb.expr import lit

    return f"array_has_any(labels, [{', '.join(lit(label).to_sql() for label in condition.labels)}])"


def _split(answer: pa.Table, count: int) -> list[Ranking]:
    """The ranking of each query of an answer."""
    ids, distances = answer["id"].to_numpy(), answer["_distance"].to_numpy().astype(np.int32)
    queries = answer["query_index"].to_numpy() if "query_index" in answer.column_names else np.zeros(len(ids), int)
    order = np.lexsort((ids, distances, queries))
    stops = np.searchsorted(queries[order], np.arange(count), side="right")
    starts = [0, *stops[:-1].tolist()]
    return [
        (ids[order[start:stop]], distances[order[start:stop]])
        for start, stop in zip(starts, stops.tolist(), strict=True)
    ]

"""Writing codes to a collection, in batches that can be sent twice without harm."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.codes import Codes
from scdh.codes.arguments import check_ids
from scdh.errors import CodesError
from scdh.index.arguments import check_distinct, ids_after
from scdh.index.milvus.contents import BATCH_ROWS, known_codes
from scdh.index.milvus.server import WRITE_TRIES, MilvusServer
from scdh.progress import track

BATCH_BYTES = 16 << 20  # a gRPC message to Milvus may have 64 MB
_SMALLEST = np.iinfo(np.int64).min


def choose_ids(codes: Codes, ids: ArrayLike | None, first: int) -> NDArray[np.int64]:
    """The ids given, those that the codes carry, or the numbers from ``first`` on."""
    chosen = codes.ids if ids is None else check_ids(ids, len(codes))
    if chosen is None:
        return ids_after(first - 1, len(codes))
    if chosen.size and chosen.min() == _SMALLEST:
        # Milvus parses the number without its sign first, which does not fit into 64 bits.
        raise CodesError(f"Milvus cannot look for the id {_SMALLEST}; choose another one.")
    check_distinct(chosen)
    return chosen


def write_codes(server: MilvusServer, codes: Codes, ids: NDArray[np.int64], *, compare: bool) -> int:
    """Send codes in batches; ``compare`` sends only those that the collection does not hold. The number sent."""
    rows = min(BATCH_ROWS, max(1, BATCH_BYTES // codes.packed.shape[1]))
    starts = range(0, len(codes), rows)
    sent = 0
    for start in track(starts, len(codes), "loading", "codes", lambda start: min(rows, len(codes) - start)):
        part = slice(start, start + rows)
        part_ids, packed = ids[part], codes.packed[part]
        if compare:
            differs = _differs(server, part_ids, packed, codes.bits)
            part_ids, packed = part_ids[differs], packed[differs]
        if len(part_ids):
            pairs = zip(part_ids.tolist(), map(bytes, packed), strict=True)
            data = [{"id": number, "code": code} for number, code in pairs]
            server.call("upsert", data=data, tries=WRITE_TRIES)
        sent += len(part_ids)
    return sent


def _differs(server: MilvusServer, ids: NDArray[np.int64], packed: NDArray[np.uint8], bits: int) -> NDArray[np.bool_]:
    """For each code, whether the collection holds none or another one with this id."""
    stored_ids, stored = known_codes(server, ids, bits)
    if len(stored_ids) == 0:
        return np.ones(len(ids), np.bool_)
    rows = np.minimum(np.searchsorted(stored_ids, ids), len(stored_ids) - 1)
    return (stored_ids[rows] != ids) | (stored[rows] != packed).any(axis=1)

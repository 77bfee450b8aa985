"""Searches before the first request: compiled loops are loaded once a process has searched enough to be worth it, which
would make some later request wait for seconds.
"""

import numpy as np

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.byte_tables import BYTE_VALUES
from scdh.index.search.loading import wait_for_loads
from scdh.index.search.scan import WORTH_LOADING
from scdh.index.search.table_sums import WORK_OF_A_BYTE
from scdh.serve.snapshot import Question, Snapshot

_ROWS = 1 << 18


def warm_search(snapshot: Snapshot) -> None:
    """Load what searches of this index will need, and read its codes once."""
    bits = snapshot.index.bits
    if snapshot.distance_tables is not None:
        assert isinstance(snapshot.index, HammingIndex)  # Milvus has no tables
        return _warm_tables(snapshot.index)
    rng = np.random.default_rng(0)
    queries = Codes.from_signs(rng.random((-(-WORTH_LOADING // _ROWS), bits)) < 0.5)
    if isinstance(snapshot.index, HammingIndex):
        made_up = HammingIndex(Codes.from_signs(rng.random((_ROWS, bits)) < 0.5))
        made_up.search(queries, 10, by="scan")
        made_up.within(queries, 1, by="scan")
        made_up.search(queries, 10, weights=np.ones((len(queries), bits)))
        wait_for_loads()
    if len(snapshot.index):
        snapshot.find(queries[:1], Question(10), [None])
        snapshot.find(queries[:1], Question(10, radius=0), [None])


def _warm_tables(index: HammingIndex) -> None:
    """What ranks by a distance of the method's own."""
    load_table_loop(index.bits)
    if len(index):
        query = Codes(np.zeros((1, -(-index.bits // 8)), np.uint8), index.bits, metadata=index.metadata)
        index.search(query, 10, byte_tables=np.zeros((1, query.packed.shape[1], BYTE_VALUES)))


def load_table_loop(bits: int) -> None:
    """Load what ranks codes of ``bits`` bits by tables of bytes."""
    width = -(-bits // 8)
    rows = max(1024, _ROWS // width)  # the work counts by bytes
    made_up = HammingIndex(Codes(np.zeros((rows, width), np.uint8), bits))
    queries = Codes(np.zeros((1 + WORTH_LOADING // (WORK_OF_A_BYTE * width * rows), width), np.uint8), bits)
    made_up.search(queries, 10, byte_tables=lambda own: np.zeros((own.stop - own.start, width, BYTE_VALUES)))
    wait_for_loads()

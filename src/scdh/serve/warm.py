"""Searches before the first request: compiled loops are loaded once a process has searched enough to be worth it, which
would make some later request wait for seconds.
"""

import numpy as np

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.search.loading import wait_for_loads
from scdh.index.search.scan import WORTH_LOADING
from scdh.serve.snapshot import Question, Snapshot

_ROWS = 1 << 18


def warm_search(snapshot: Snapshot) -> None:
    """Load what searches of this index will need, and read its codes once."""
    bits = snapshot.index.bits
    rng = np.random.default_rng(0)
    queries = Codes.from_signs(rng.random((-(-WORTH_LOADING // _ROWS), bits)) < 0.5)
    if snapshot.distance_tables is not None:
        return load_table_loop(bits)
    if isinstance(snapshot.index, HammingIndex):
        made_up = HammingIndex(Codes.from_signs(rng.random((_ROWS, bits)) < 0.5))
        made_up.search(queries, 10, by="scan")
        made_up.within(queries, 1, by="scan")
        made_up.search(queries, 10, weights=np.ones((len(queries), bits)))
        wait_for_loads()
    if len(snapshot.index):
        snapshot.find(queries[:1], Question(10), [None])
        snapshot.find(queries[:1], Question(10, radius=0), [None])


def load_table_loop(bits: int) -> None:
    """Load what ranks codes of ``bits`` bits by a distance of the method's own."""
    rng, width = np.random.default_rng(0), -(-bits // 8)
    made_up = HammingIndex(Codes.from_signs(rng.random((_ROWS, bits)) < 0.5))
    queries = made_up.codes_of(np.arange(-(-WORTH_LOADING // _ROWS)))
    made_up.search(queries, 10, byte_tables=lambda rows: np.zeros((rows.stop - rows.start, width, 256)))
    wait_for_loads()

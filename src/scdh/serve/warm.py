"""Searches before the first request: compiled loops are loaded once a process has searched enough to be worth it, which
would make some later request wait for seconds.
"""

import numpy as np

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.byte_tables import BYTE_VALUES, queries_at_once
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
        return _warm_tables(queries[: min(len(queries), queries_at_once(bits))], rng)
    if isinstance(snapshot.index, HammingIndex):
        made_up = HammingIndex(Codes.from_signs(rng.random((_ROWS, bits)) < 0.5))
        made_up.search(queries, 10, by="scan")
        made_up.within(queries, 1, by="scan")
        made_up.search(queries, 10, weights=np.ones((len(queries), bits)))
        wait_for_loads()
    if len(snapshot.index):
        snapshot.find(queries[:1], Question(10), [None])
        snapshot.find(queries[:1], Question(10, radius=0), [None])


def _warm_tables(queries: Codes, rng: np.random.Generator) -> None:
    """The loop that ranks by a distance of the method's own."""
    made_up = HammingIndex(Codes.from_signs(rng.random((_ROWS, queries.bits)) < 0.5))
    made_up.search(queries, 10, byte_tables=np.zeros((len(queries), queries.packed.shape[1], BYTE_VALUES)))
    wait_for_loads()

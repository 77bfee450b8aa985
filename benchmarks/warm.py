"""Load the compiled kernels before anything is timed: a process starts with numpy for small work and switches to
kernels later, and a median over both would mean nothing. The first call of a process is timed separately."""

import numpy as np

from benchmarks.made_up import uniform
from scdh.evaluation import evaluate
from scdh.index import HammingIndex
from scdh.index.search.loading import wait_for_loads
from scdh.index.search.scan import WORTH_LOADING

_ROWS = 1 << 18


def load_kernels(bits: int) -> None:
    """Work that is too large for numpy, once for search, radius and evaluation of this code length."""
    database, queries = uniform(_ROWS, bits, seed=0), uniform(-(-WORTH_LOADING // _ROWS), bits, seed=1)
    index = HammingIndex(database)
    index.search(queries, 1, by="scan")
    index.within(queries, 0, by="scan")
    index.search(queries, 1, weights=np.ones((len(queries), bits)))
    wait_for_loads()
    index.prepare()
    index.search(queries[:1], 1, by="tables")
    index.within(queries[:1], 0, by="tables")
    for _ in range(3):  # the kernel of its last step, over levels of ties, is loaded a little later
        evaluate(queries, np.zeros(len(queries)), database, np.zeros(_ROWS))

"""Eight threads search one index while another adds and removes: every answer is that of some state between."""

import threading
from collections.abc import Iterator
from random import Random

import numpy as np

from scdh.codes import Codes
from scdh.index import HammingIndex
from tests.attack.trials import Attack, Failed

THREADS, QUERIES, K = 8, 5, 10


def attacks() -> Iterator[Attack]:
    yield Attack("threads: search", _search_in_threads)


def _search_in_threads(random: Random) -> str:
    bits, count = random.choice((12, 48, 64, 100)), random.randrange(50, 2_000)
    rng = np.random.default_rng(random.randrange(1 << 30))
    codes = Codes.from_signs(rng.normal(size=(count, bits)))
    extra = Codes.from_signs(rng.normal(size=(20, bits)))
    queries = Codes.from_signs(rng.normal(size=(QUERIES, bits)))
    index, ids = HammingIndex(codes), np.arange(count, count + 20)
    states = {_by_brute_force(queries, codes), _by_brute_force(queries, Codes.concatenate([codes, extra]))}
    wrong: list[str] = []

    def search() -> None:
        for _ in range(5):
            hits = index.search(queries, k=K)
            if (hits.ids.tobytes(), hits.distances.tobytes()) not in states:
                wrong.append("a search gave an answer that no state has")

    searchers = [threading.Thread(target=search) for _ in range(THREADS)]
    for thread in searchers:
        thread.start()
    for _ in range(3):
        index.add(extra, ids)
        index.remove(ids)
    for thread in searchers:
        thread.join()
    if wrong:
        raise Failed(wrong[0])
    return "as brute force"


def _by_brute_force(queries: Codes, codes: Codes) -> tuple[bytes, bytes]:
    distances = (queries.unpack()[:, None, :] != codes.unpack()[None]).sum(axis=2).astype(np.int32)
    order = np.argsort(distances, axis=1, kind="stable")[:, :K]
    return order.astype(np.int64).tobytes(), np.take_along_axis(distances, order, axis=1).tobytes()

"""One evaluation in a process of its own: what a first call costs, and its peak memory, which belongs to a process.

``python -m benchmarks.first_call PROTOCOL THREADS RIVAL_QUERIES`` (a protocol's fields as JSON) prints a row as JSON.
"""

import json
import sys
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

from benchmarks.agreement import between, same_values
from benchmarks.argsort_way import ArgsortWay
from benchmarks.evaluation import Protocol
from benchmarks.timing import Row
from scdh.evaluation import evaluate
from scdh.index import set_threads


def measure(protocol: Protocol, threads: int, rival_queries: int) -> Row:
    set_threads(threads)
    data, topk = protocol.data(), protocol.topk
    data_bytes = sum(part.packed.nbytes for part in data[::2]) + sum(part.nbytes for part in data[1::2])
    before = _peak_bytes()
    start = time.perf_counter()
    scores = evaluate(*data, topk=topk)
    spent = time.perf_counter() - start
    peak = _peak_bytes()

    # After the peak was read, since the rival needs more memory.
    few = data[0][:rival_queries], data[1][:rival_queries]
    rival = ArgsortWay(*few, *data[2:])
    with threadpool_limits(threads):
        start = time.perf_counter()
        value = rival.average_precision(topk)
        rival_spent = (time.perf_counter() - start) * protocol.queries / len(value)
    between(value, *(scores.per_query[name][: len(value)] for name in ("ap_worst", "ap_best")))
    ordered = evaluate(*few, *data[2:], topk=topk, ties="order")
    same_values(ordered.per_query["ap"], rival.average_precision(topk, kind="stable"))
    return {
        "what": protocol.name,
        "queries": protocol.queries,
        "items": protocol.items,
        "bits": protocol.bits,
        "rival timed on": f"{len(value)} queries",
        "argsort way, s": rival_spent,
        "scdh, s": spent,
        "times faster": rival_spent / spent,
        "scdh, G pairs/s": protocol.queries * protocol.items / spent / 1e9,
        "codes and labels, MB": data_bytes / 1e6,
        "peak before, MB": before / 1e6,
        "peak, MB": peak / 1e6,
    }


def _peak_bytes() -> int:
    """From /proc: ``getrusage`` also counts what the parent held when it started this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    fields, *counts = (json.loads(argument) for argument in sys.argv[1:])
    print(json.dumps(measure(Protocol(**fields), *counts)))

"""Scoring a ranking: ``scdh.evaluate`` against the argsort way."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.agreement import between, same_values
from benchmarks.argsort_way import ArgsortWay
from benchmarks.made_up import class_labels, clustered, label_sets, uniform
from benchmarks.report import AGAINST, FIRST_CALL, GROWTH
from benchmarks.timing import Row, Table, print_row, take_turns
from benchmarks.warm import load_kernels
from scdh.codes import Codes
from scdh.evaluation import evaluate
from scdh.index import set_threads

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Protocol:
    """A protocol of the literature in shape; codes are made up around one centre per class."""

    name: str
    queries: int
    items: int
    classes: int
    bits: int = 48
    topk: int | None = None
    many_labels: bool = False

    def data(self) -> tuple[Codes, NDArray[Any], Codes, NDArray[Any]]:
        labels, query_labels = (class_labels(self.items, self.classes, 4), class_labels(self.queries, self.classes, 5))
        centres = uniform(self.classes, self.bits, seed=1)
        database, queries = clustered(labels, centres, 2, seed=2), clustered(query_labels, centres, 2, seed=3)
        if self.many_labels:
            labels, query_labels = (label_sets(labels, self.classes, 6), label_sets(query_labels, self.classes, 7))
        return queries, query_labels, database, labels


CIFAR = Protocol("MAP, 10 classes", 1000, 59_000, 10)
NUSWIDE = Protocol("MAP@5000, 21 labels", 2100, 193_734, 21, topk=5000, many_labels=True)
IMAGENET = Protocol("MAP, 1,000 classes", 50_000, 1_281_167, 1000, bits=128)


@dataclass(frozen=True)
class Plan:
    protocols: tuple[Protocol, ...] = (CIFAR, NUSWIDE)
    growth: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    growth_queries: int = 1000
    rival_queries: int = 100  # the rival's time is scaled from these: its loop has nothing that queries share
    rival_pairs: int = 20_000_000  # and from fewer where the database is large
    turns: int = 5
    large: tuple[Protocol, ...] = (IMAGENET,)
    warm: bool = True


QUICK = Plan(growth=(1_000, 10_000, 100_000), rival_queries=30, turns=3, large=(replace(IMAGENET, queries=1000),))


def measure(plan: Plan, threads: int) -> list[Table]:
    set_threads(threads)
    if plan.warm:
        load_kernels(48)
    with threadpool_limits(threads):
        against = [_compare(protocol, plan) for protocol in plan.protocols]
        growth = [_compare(Protocol("MAP, 10 classes", plan.growth_queries, items, 10), plan) for items in plan.growth]
    tables = [
        Table(
            AGAINST,
            "Rival: the loop of public hashing repositories in plain numpy (label products, float32 BLAS distances, "
            f"`np.argsort`), timed on {plan.rival_queries} queries or fewer and scaled to all. Calls shorter than "
            "0.1 s are repeated for so long, as the rival's loop runs about that long. Ours is the whole of "
            "`scdh.evaluate`: expected, best and worst order of ties, and precision within radius 2. For each query "
            "the rival's value is between our worst and best, and with a stable sort it equals our "
            '`ties="order"` to 10⁻⁶. Codes are made up in the shape of the CIFAR-10 and NUS-WIDE protocols.',
            against,
        ),
        Table(GROWTH, "The same with one label of 10, 48 bits.", growth),
    ]
    calls = [_first_call(protocol, threads, plan) for protocol in (*plan.protocols, *plan.large) if protocol.queries]
    tables.append(
        Table(
            FIRST_CALL,
            "Each in a new process that evaluates once and then reports its peak memory; kernels were compiled on "
            "this machine before and need loading only. The largest is the ImageNet protocol in shape. The rival runs "
            "afterwards on a few queries and is scaled; one label per item it compares directly, as one-hot labels of "
            "1,000 classes would take gigabytes. Results are compared as above.",
            calls,
        )
    )
    return tables


def _compare(protocol: Protocol, plan: Plan) -> Row:
    queries, query_labels, database, labels = protocol.data()
    if not protocol.many_labels:
        # One-hot, as in public hashing repositories; scdh takes the numbers.
        hot = np.eye(protocol.classes, dtype=np.float32)
        rival_labels = hot[query_labels], hot[labels]
    else:
        rival_labels = query_labels, labels
    count = max(1, min(plan.rival_queries, plan.rival_pairs // len(database), len(queries)))
    rival = ArgsortWay(queries[:count], rival_labels[0][:count], database, rival_labels[1])

    scores = evaluate(queries, query_labels, database, labels, topk=protocol.topk)
    value = rival.average_precision(protocol.topk)
    between(value, scores.per_query["ap_worst"][:count], scores.per_query["ap_best"][:count])
    ordered = evaluate(queries[:count], query_labels[:count], database, labels, topk=protocol.topk, ties="order")
    same_values(ordered.per_query["ap"], rival.average_precision(protocol.topk, kind="stable"))

    times = take_turns(
        {
            "rival": lambda _turn: rival.average_precision(protocol.topk),
            "scdh": lambda _turn: evaluate(queries, query_labels, database, labels, topk=protocol.topk),
        },
        most=plan.turns,
        seconds=5,
        window=0.1,
    )
    whole = times["rival"] * len(queries) / count
    row: Row = {
        "what": protocol.name,
        "queries": len(queries),
        "items": len(database),
        "bits": protocol.bits,
        "rival timed on": f"{count} queries",
        "argsort way, s": whole,
        "scdh, s": times["scdh"],
        "times faster": whole / times["scdh"],
        "argsort MAP of these": float(value.mean()),
        "worst … best": f"{scores.per_query['ap_worst'][:count].mean():.4f} … "
        f"{scores.per_query['ap_best'][:count].mean():.4f}",
    }
    print_row("evaluation", row)
    return row


def _first_call(protocol: Protocol, threads: int, plan: Plan) -> Row:
    rival_queries = max(1, min(plan.rival_queries, plan.rival_pairs // protocol.items // 4))
    command = [sys.executable, "-m", "benchmarks.first_call", json.dumps(asdict(protocol))]
    done = subprocess.run([*command, str(threads), str(rival_queries)], capture_output=True, text=True, cwd=_ROOT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    row: Row = json.loads(done.stdout)
    print_row("evaluation", row)
    return row

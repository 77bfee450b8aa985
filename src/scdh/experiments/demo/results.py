"""The results of a demo as typed records: what ``scores.json`` holds, and where the page takes its figures from."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from scdh.experiments.compare.results import Record
from scdh.experiments.demo.data import DemoData
from scdh.experiments.demo.rankings import RankedCodes, Ranking, longest_learned
from scdh.experiments.demo.timing import Timings
from scdh.extras import versions
from scdh.metrics.statistics import code_statistics

PRECISION_AT = 10
FLOATS_DEFINITION = (
    "Float vectors are ranked by cosine distance; MAP and precision at k are defined as for codes. There is no radius."
)


class ScoreRow(Record):
    """One line of the table. ``bits``, ties and radius are None for float vectors."""

    method: str
    bits: int | None
    bytes: int
    map: float
    map_best: float | None
    map_worst: float | None
    precision_at_radius: float | None
    empty_balls: float | None
    precision_at_10: float


class RowCounts(Record):
    """Rows of each part of the split, queries without copies, and labels that count."""

    train: int
    query: int
    database: int
    distinct_query: int
    labels: int


class DemoResults(Record):
    """Everything in ``scores.json``; ``statistics`` are of the database's codes, at the longest length."""

    data: str
    seed: int
    protocol: dict[str, str]
    counts: RowCounts
    scores: list[ScoreRow]
    statistics: list[dict[str, Any]]
    definition: dict[str, Any]
    seconds: dict[str, float]
    cpu_seconds: dict[str, float]
    versions: dict[str, str]
    config: dict[str, Any]
    next: list[str]


def demo_results(
    data: DemoData, rankings: Sequence[Ranking], timings: Timings, next_commands: Sequence[str]
) -> DemoResults:
    """Collect the results.

    Args:
        data: the data of the demo.
        rankings: as :func:`scdh.experiments.demo.rankings.compare_rankings` returns them.
        timings: time of each part.
        next_commands: commands to try next.
    """
    protocol, (bits, longest, _) = data.protocol, longest_learned(rankings)
    return DemoResults(
        data=data.source.name,
        seed=data.config.seed,
        protocol={"name": protocol.name, "fingerprint": protocol.fingerprint},
        counts=RowCounts(
            train=len(protocol.train),
            query=len(protocol.query),
            database=len(protocol.database),
            distinct_query=len(data.distinct_queries),
            labels=len(data.label_names),
        ),
        scores=[score_row(ranking) for ranking in rankings],
        statistics=[
            _statistics(data, ranking.method, ranking.codes)
            for ranking in rankings
            if ranking.codes is not None and ranking.bits == bits
        ],
        definition={"codes": dict(longest.scores.definition) | {"bits": None}, "floats": FLOATS_DEFINITION},
        seconds=timings.seconds,
        cpu_seconds=timings.cpu_seconds,
        versions=versions(),
        config=data.config.model_dump(mode="json"),
        next=list(next_commands),
    )


def score_row(ranking: Ranking) -> ScoreRow:
    """The scores of one ranking."""
    scores = ranking.scores
    of_ties: dict[str, float | None] = dict.fromkeys(("map_best", "map_worst", "precision_at_radius", "empty_balls"))
    if ranking.codes is not None:
        of_ties = {name: getattr(scores, name) for name in of_ties}
    return ScoreRow(
        method=ranking.method,
        bits=ranking.bits,
        bytes=ranking.bytes,
        map=scores.map,
        precision_at_10=float(scores.precision_at_k(PRECISION_AT)),
        **of_ties,
    )


def per_query(data: DemoData, rankings: Sequence[Ranking]) -> dict[str, np.ndarray]:
    """Row numbers of the queries, and their average precisions by the name of the ranking."""
    return {"rows": data.protocol.query, **{ranking.name: ranking.scores.per_query["ap"] for ranking in rankings}}


def _statistics(data: DemoData, method: str, codes: RankedCodes) -> dict[str, Any]:
    """Statistics of the database's codes, with l_q of the queries' outputs if the codes were learned."""
    return {"method": method, **code_statistics(codes.database, data.database_labels), "l_q": codes.l_q}

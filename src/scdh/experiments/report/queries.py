"""Queries that a report shows: failures first, by a rule that looks at scores alone."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

WORST = 6
MIDDLE = 3
BEST = 3
RULES = {
    "worst": "the lowest average precision",
    "middle": "an average precision next to the median",
    "best": "the highest average precision",
}


@dataclass(frozen=True)
class ChosenQuery:
    """Position among the queries, and why it is shown: a key of ``RULES``."""

    position: int
    why: str


def choose_queries(average_precisions: np.ndarray, relevant: np.ndarray, labels: np.ndarray) -> list[ChosenQuery]:
    """The worst queries, some in the middle and the best, each of another label (or set of labels) where possible.

    Args:
        average_precisions: float [q].
        relevant: [q], how many items of the database are relevant; a query without any cannot succeed and is left out.
        labels: int64 [q] or multi-hot [q, C].
    """
    possible = np.flatnonzero(relevant > 0)
    scores = average_precisions[possible]
    if not len(possible):
        return []
    keys: list[Hashable] = [labels[n].tobytes() for n in possible]
    rising = np.argsort(scores, kind="stable")
    by_middle = np.argsort(np.abs(scores - np.median(scores)), kind="stable")
    chosen: dict[int, str] = {}
    for why, order, count in (("worst", rising, WORST), ("best", rising[::-1], BEST), ("middle", by_middle, MIDDLE)):
        for place in _of_different_keys(order, keys, count, chosen):
            chosen[place] = why
    ranked = sorted(chosen, key=lambda place: (list(RULES).index(chosen[place]), scores[place]))
    return [ChosenQuery(int(possible[place]), chosen[place]) for place in ranked]


def _of_different_keys(order: np.ndarray, keys: Sequence[Hashable], count: int, taken: Iterable[int]) -> list[int]:
    """The first ``count`` places in order that are not taken; a key comes again only if there are too few others."""
    used = set(taken)
    free = [place for place in order.tolist() if place not in used]
    firsts: dict[Hashable, int] = {}
    for place in free:
        firsts.setdefault(keys[place], place)
    different = list(firsts.values())[:count]
    used = set(different)
    return [*different, *[place for place in free if place not in used][: count - len(different)]]

"""What a service found, as objects of Python."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FoundItem:
    """A hit of a search.

    Attributes:
        id: of the item.
        distance: bits that differ from the query's; with ``rank="outputs"`` a real number, the sum of the query's
            outputs over these bits.
        name: of the item; empty if it has none.
        labels: names of its labels.
    """

    id: int
    distance: float
    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class QueryAnswer:
    """What was found for one query.

    Attributes:
        code: of the query, its packed bits in hexadecimal digits.
        hits: nearest first; equal distances by id.
        total: number of items within the radius; None for a search without radius.
    """

    code: str
    hits: tuple[FoundItem, ...]
    total: int | None


def read_answers(answer: Any) -> list[QueryAnswer]:
    """The results in an answer of httpx to a search, one for each query."""
    return [
        QueryAnswer(
            result["code"],
            tuple(FoundItem(hit["id"], hit["distance"], hit["name"], tuple(hit["labels"])) for hit in result["hits"]),
            result["total"],
        )
        for result in answer.json()["results"]
    ]

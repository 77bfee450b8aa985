"""The page of a search: every query with its hits, everything inside one HTML file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scdh.experiments.pages.pictures import ShownHit
from scdh.experiments.pages.template import load_template, save_page

MOST_QUERIES, MOST_HITS = 200, 100  # on one page; a browser must be able to open it


@dataclass(frozen=True)
class SearchedQuery:
    """A query with its hits; ``note`` says what ties leave out, ``hidden`` how many hits the page does not show."""

    image: str | None
    name: str
    label: str
    hits: list[ShownHit]
    note: str
    hidden: int


def write_hits_page(
    path: Path,
    index_name: str,
    items: int,
    bits: int,
    ranking: str,
    ties: str,
    queries: Sequence[SearchedQuery],
    query_count: int,
) -> None:
    """Write the page.

    Args:
        path: HTML file.
        index_name: what was searched.
        items, bits: its size.
        ranking: the distance that orders the hits.
        ties: what orders hits at the same distance.
        queries: those that are shown.
        query_count: all queries of the search.
    """
    page = load_template("search.html").render(
        index_name=index_name,
        items=items,
        bits=bits,
        ranking=ranking,
        ties=ties,
        queries=queries,
        query_count=query_count,
        without_picture=sum(hit.image is None for query in queries for hit in query.hits),
        hit_count=sum(len(query.hits) for query in queries),
        has_marks=any(hit.right is not None for query in queries for hit in query.hits),
    )
    save_page(path, page)

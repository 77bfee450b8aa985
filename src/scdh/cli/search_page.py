"""``scdh search --html``: the hits of a search as a page with pictures."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scdh.cli.inputs import open_inputs
from scdh.cli.output import print_note
from scdh.cli.search_hits import SearchRequest
from scdh.cli.search_queries import SearchQueries
from scdh.codes import ranking_of
from scdh.data.images.formats import is_image_name
from scdh.data.row_names import RowNames
from scdh.errors import DataError
from scdh.experiments.pages.label_texts import label_text
from scdh.experiments.pages.pictures import ShownHit, picture_of_file, pictures_of_source
from scdh.experiments.pages.template import load_template, save_page
from scdh.index.weights import NAME as WEIGHTED

if TYPE_CHECKING:
    from scdh.data.source import Source

MOST_QUERIES, MOST_HITS = 200, 100  # on one page; a browser must be able to open it


@dataclass(frozen=True)
class SearchedQuery:
    """A query with its hits; ``note`` is about ties that are not shown, ``hidden`` is the number of hits not on the
    page.
    """

    image: str | None
    name: str
    label: str
    hits: list[ShownHit]
    note: str
    hidden: int


def write_hits(
    path: Path,
    index_name: str,
    search: SearchRequest,
    queries: SearchQueries,
    found: list[tuple[np.ndarray, np.ndarray]],
    row_names: RowNames | None,
    data: str | None,
) -> None:
    """Write the page of the hits."""
    pictures = ItemPictures(None if data is None else open_inputs([data]), index_name)
    shown = []
    for n, (ids, distances) in enumerate(found[:MOST_QUERIES]):
        labels, hits = queries.labels(n), []
        for row_id, distance in list(zip(ids.tolist(), distances.tolist(), strict=True))[:MOST_HITS]:
            position = None if row_names is None else row_names.position(row_id)
            known = row_names if position is not None else None
            name = f"id {row_id}" if known is None else known.names[position or 0]
            own = [] if known is None else known.label_list(position or 0)
            right = bool(labels & set(own)) if labels and own else None
            image = pictures.of_item(row_id, name, is_named=known is not None)
            away = (
                f"distance {distance:.4f}"
                if isinstance(distance, float)
                else f"{distance} bit{'' if distance == 1 else 's'} away"
            )
            if image is not None:  # else the name stands in the place of the picture
                away += f" · {Path(name).name}"
            hits.append(ShownHit(image, name, label_text(own), right, away))
        note = search.note(queries, n, distances)
        image = _query_picture(queries, n, pictures)
        shown.append(
            SearchedQuery(image, queries.names[n], label_text(sorted(labels)), hits, note, len(ids) - len(hits))
        )
    pictures.print_missing()
    ranking = ranking_of(search.index.metadata) if queries.outputs is None else WEIGHTED
    all_hits = [hit for query in shown for hit in query.hits]
    page = load_template("search.html").render(
        index_name=index_name,
        items=len(search.index),
        bits=search.index.bits,
        ranking=ranking,
        ties=queries.tie_order,
        queries=shown,
        query_count=len(found),
        without_picture=sum(hit.image is None for hit in all_hits),
        hit_count=len(all_hits),
        has_marks=any(hit.right is not None for hit in all_hits),
    )
    save_page(path, page)


class ItemPictures:
    """Pictures of items: rows of a source by id, else image files by name."""

    def __init__(self, source: "Source | None", index_name: str) -> None:
        self.source, self.index_name = source, index_name
        self.asked: set[str] = set()  # names of image files
        self.missing: set[str] = set()  # those that do not exist
        self._of_row = None if source is None else pictures_of_source(source)

    def of_item(self, row_id: int, name: str, *, is_named: bool, scale: int = 1) -> str | None:
        if self.source is None or self._of_row is None:
            return self.of_file(name, scale)
        # Ids are row numbers of the data that were encoded, unless they were renumbered, which the names show.
        own = self.source.item_name(row_id) if 0 <= row_id < len(self.source) else None
        if own is None or (is_named and Path(own).name != Path(name).name):
            called = "is not there" if own is None else f"is {own!r} there"
            raise DataError(
                f"{self.source.name} does not hold the items of {self.index_name}: id {row_id} ({name}) {called}."
            )
        return self._of_row(row_id, scale)

    def of_file(self, name: str, scale: int = 1) -> str | None:
        """The picture of the image file of this name; None if there is none. Counts the files that do not exist."""
        if is_image_name(Path(name).name):
            self.asked.add(name)
            if not os.path.exists(name):
                self.missing.add(name)
                return None
        return picture_of_file(name, scale)

    def print_missing(self) -> None:
        """A note about the image files that do not exist, if any."""
        if self.missing:
            print_note(
                f"{len(self.missing)} of the {len(self.asked)} photos do not exist, such as {min(self.missing)!r}; the "
                "page shows their names. Run the command in the folder that the names start from, or give --data."
            )


def _query_picture(queries: SearchQueries, query: int, pictures: ItemPictures) -> str | None:
    if queries.source is not None:
        assert queries.codes.ids is not None  # codes of a source carry row numbers
        return pictures_of_source(queries.source)(int(queries.codes.ids[query]), 2)
    if pictures.source is not None and queries.row_names is not None:
        row_id, name = int(queries.row_names.ids[query]), queries.names[query]
        has_row = 0 <= row_id < len(pictures.source)
        is_row = has_row and Path(pictures.source.item_name(row_id)).name == Path(name).name
        return pictures.of_item(row_id, name, is_named=True, scale=2) if is_row else pictures.of_file(name, 2)
    return pictures.of_file(queries.names[query], 2)

"""``scdh duplicates --html``: the pictures of each group side by side."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from scdh.cli.inputs import open_inputs
from scdh.cli.search_page import ItemPictures
from scdh.experiments.pages.label_texts import label_text
from scdh.experiments.pages.pictures import ShownHit
from scdh.experiments.pages.template import load_template, save_page

if TYPE_CHECKING:
    from scdh.data.row_names import RowNames
    from scdh.index import HammingIndex

MOST_GROUPS, MOST_ITEMS = 300, 12  # on one page; a browser must be able to open it


def write_page(
    path: Path,
    source: Path,
    index: "HammingIndex",
    groups: list[np.ndarray],
    kept: list[int],
    names: "RowNames | None",
    data: str | None,
    about: dict[str, int],
) -> None:
    """Write the page of the largest groups; the item to keep is first and has a solid frame."""
    from scdh.cli.duplicates import _rows

    pictures = ItemPictures(None if data is None else open_inputs([data]), str(source))
    shown = []
    for number, group in enumerate(groups[:MOST_GROUPS]):
        hits = []
        for row in _rows(index, number, group, kept[number], names)[:MOST_ITEMS]:
            position = None if names is None else names.position(row["id"])
            label = "" if names is None or position is None else label_text(names.label_list(position))
            name = row["name"] or f"id {row['id']}"
            image = pictures.of_item(row["id"], name, is_named=bool(row["name"]))
            away = "keep" if row["keep"] else f"{row['distance']} bit{'' if row['distance'] == 1 else 's'} away"
            hits.append(ShownHit(image, name, label, True if row["keep"] else None, f"{away} · id {row['id']}"))
        shown.append((len(group), hits))
    pictures.print_missing()
    save_page(path, load_template("duplicates.html").render(source=source.name, about=about, groups=shown))

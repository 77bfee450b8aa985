"""``scdh duplicates``: groups of near-duplicates in an index or a file of codes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scdh.cli.options import Json, PictureData
from scdh.cli.output import print_json, print_line, print_table
from scdh.errors import ConfigError
from scdh.printable import counted

if TYPE_CHECKING:
    import numpy as np

    from scdh.data.row_names import RowNames
    from scdh.index import HammingIndex

EXAMPLES = (
    "scdh duplicates photos.index",
    "scdh duplicates photos.index --radius 0 --out duplicates.csv",
    "scdh duplicates photos.codes --radius 2 --html duplicates.html",
)
PRINTED_GROUPS, PRINTED_ITEMS = 10, 5
COLUMNS = ("group", "id", "name", "keep", "distance")


def duplicates(
    source: Annotated[Path, typer.Argument(metavar="INDEX|CODES", help="Index file, or file of codes.")],
    radius: Annotated[int, typer.Option(help="Items at most this many bits apart are near-duplicates.")] = 2,
    out: Annotated[
        Path | None, typer.Option(help="Also write the items of all groups into this .csv or .json file.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write a page with the pictures of each group side by side.")
    ] = None,
    data: PictureData = None,
    as_json: Json = False,
) -> None:
    """Find groups of near-duplicates: items connected by pairs that are at most --radius bits apart.

    The search is exact. One item of each group is marked to keep: the largest file if the names are files, otherwise
    the smallest id. The column distance is the number of bits between an item and the one to keep; it may exceed
    --radius if other items connect the two. Nothing is removed; `scdh index --out INDEX --remove ID` does that.
    """
    from scdh.cli.inputs import check_file_writable, open_codes

    if radius < 0:
        raise ConfigError(f"--radius must be at least 0, got {radius}.")
    if out is not None:
        if out.suffix not in (".csv", ".json"):
            raise ConfigError(f"--out must end in .csv or .json, got {out.name!r}.")
        check_file_writable(out)
    if html is not None:
        check_file_writable(html, "--html")
    elif data is not None:
        raise ConfigError("--data is for the pictures of --html; give that too.")
    index, names = open_codes(source)
    groups = list(index.groups_within(radius, progress=True))
    kept = [_to_keep(group, names) for group in groups]
    items = sum(map(len, groups))
    about = {"items": len(index), "radius": radius, "groups": len(groups), "in_groups": items}
    about["removable"] = items - len(groups)
    rows = (row for n, group in enumerate(groups) for row in _rows(index, n, group, kept[n], names))
    if out is not None:
        _write(out, rows, about)
    if html is not None:
        from scdh.cli.duplicates_page import write_page

        write_page(html, source, index, groups, kept, names, data, about)
    if as_json:
        print_json(about if out is not None else {**about, "rows": list(rows)})
        return
    print_line(
        f"{source}: {counted(len(groups), 'group')} of near-duplicates within {counted(radius, 'bit')}, with {items:,} "
        f"of {counted(len(index), 'item')}; keeping one of each group would remove {about['removable']:,}."
    )
    if groups:
        few = range(min(len(groups), PRINTED_GROUPS))
        shown = [row for n in few for row in _rows(index, n, groups[n], kept[n], names)[:PRINTED_ITEMS]]
        print_table(list(COLUMNS), [[row[column] for column in COLUMNS] for row in shown], title="The largest groups")
    for path in (out, html):
        if path is not None:
            print_line(f"All groups are in {path}.")


def _name(names: "RowNames | None", item: int) -> str:
    position = None if names is None else names.position(item)
    return "" if names is None or position is None else names.names[position]


def _to_keep(group: "np.ndarray", names: "RowNames | None") -> int:
    """The largest file of a group; the smallest id among equals or if there are no files."""
    ids: list[int] = group.tolist()
    if names is None or len(ids) > 1000:
        return ids[0]
    return max(ids, key=lambda item: (_file_size(_name(names, item)), -item))


def _file_size(name: str) -> int:
    try:
        return Path(name).stat().st_size if name else -1
    except (OSError, ValueError):
        return -1


def _rows(
    index: "HammingIndex", number: int, group: "np.ndarray", keep: int, names: "RowNames | None"
) -> list[dict[str, Any]]:
    """The items of a group, the one to keep first, the others by distance from it."""
    import numpy as np

    differing = index.codes_of(group).packed ^ index.codes_of([keep]).packed
    distances = np.bitwise_count(differing).sum(axis=1, dtype=np.int64)
    order = np.lexsort((group, distances, group != keep))
    return [
        {
            "group": number,
            "id": int(group[row]),
            "name": _name(names, int(group[row])),
            "keep": bool(group[row] == keep),
            "distance": int(distances[row]),
        }
        for row in order.tolist()
    ]


def _write(path: Path, rows: Any, about: dict[str, int]) -> None:
    import csv
    import json

    from scdh.storage.files import replacing

    with replacing(path) as temporary:
        if path.suffix == ".json":
            temporary.write_text(json.dumps({**about, "rows": list(rows)}, indent=1), "utf-8")
            return
        with temporary.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows({**row, "keep": int(row["keep"])} for row in rows)

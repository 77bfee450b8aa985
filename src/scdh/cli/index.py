"""``scdh index``: files of codes → one index to search in."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scdh.cli.options import Json
from scdh.cli.show import document, result
from scdh.errors import CodesError

if TYPE_CHECKING:
    from scdh.data.sidecar import Items

EXAMPLES = (
    "scdh index digits.codes --out digits.index",
    "scdh index new.codes --out digits.index --append --renumber",
    "scdh index a.codes b.codes --renumber --out both.index --json",
)


def index(
    codes: Annotated[list[Path], typer.Argument(help="Files that `scdh encode` wrote.")],
    out: Annotated[Path, typer.Option(help="Index file to write.")],
    append: Annotated[
        bool, typer.Option("--append", metavar="", help="Add to the index that OUT already holds.")
    ] = False,
    renumber: Annotated[
        bool, typer.Option("--renumber", metavar="", help="Give new ids to codes whose file is not the first.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put codes into an index file for `scdh search`.

    An id may come only once. Codes of two data sets both count from 0, so putting them together needs --renumber, which
    counts on from the largest id present. Names and labels go into OUT.items.json.
    """
    from scdh.cli.inputs import check_writable
    from scdh.cli.same_model import refuse_other_model
    from scdh.codes import Codes
    from scdh.data.sidecar import Items, joined
    from scdh.index import HammingIndex

    check_writable(out)
    parts: list[tuple[Path, int, Items | None]] = []
    built: HammingIndex | None = None
    if append:
        built = HammingIndex.load(out)
        parts.append((out, len(built), Items.load(out, built.ids, len(built))))
    for path in codes:
        more = Codes.load(path)
        parts.append((path, len(more), Items.load(path, more.ids, len(more))))
        if built is None:
            built = HammingIndex(more)
            continue
        if more.bits != built.bits:
            raise CodesError(f"{path} holds codes of {more.bits} bits, but those before have {built.bits} bits.")
        refuse_other_model(built.codes.metadata, more.metadata, str(parts[0][0]), str(path))
        ids = None
        if renumber:
            first = int(built.ids.max()) + 1 if len(built) else 0
            ids = range(first, first + len(more))
        try:
            built.add(more, ids)
        except CodesError as error:
            if "already holds" not in str(error):
                raise
            raise CodesError(f"{str(error).rstrip('.')}, from {path}; --renumber gives new ids.") from None
    assert built is not None  # typer asks for at least one file
    known = [_named(path, count, items) for path, count, items in parts]
    if any(items is not None for _, _, items in parts):
        joined(known, built.ids).save(out)
    built.save(out)
    size = out.stat().st_size
    if as_json:
        document({"index": str(out), "items": len(built), "bits": built.bits, "bytes": size})
        return
    result(f"{out}: {len(built):,} codes of {built.bits} bits, {size:,} bytes.")
    result(f"Next:\n  scdh search {out} --row {built.ids[0] if len(built) else 0}")


def _named(path: Path, count: int, items: "Items | None") -> "Items":
    """Rows of a file without names are called by the file and their number."""
    import numpy as np

    from scdh.data.sidecar import Items

    if items is not None:
        return items
    names = [f"{path.name} row {row}" for row in range(count)]
    return Items(np.arange(count), names, np.full(count, -1), [])

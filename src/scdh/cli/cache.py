"""``scdh cache``: show what scdh keeps on this machine, and remove it."""

from typing import Annotated, Literal

import typer

from scdh.cli.options import Json
from scdh.cli.output import print_json, print_line, print_table

EXAMPLES = ("scdh cache", "scdh cache --clear features", "scdh cache --json")


def cache(
    clear: Annotated[
        Literal["features", "exports", "loops", "all"] | None,
        typer.Option(help="Remove what is kept; it is recomputed when needed."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or clear what scdh keeps on this machine.

    Features of frozen networks are shared by all runs, so a run with other bits or another method reuses those of the
    same photos. The least recently used ones are removed beyond the limit. `scdh train --feature-cache FOLDER` keeps
    those of one run elsewhere. SCDH_FEATURE_DIR sets another folder for all runs; if it is empty, each run keeps its
    own.
    """
    from scdh.printable import readable_size
    from scdh.runs.caches import machine_caches

    for one in machine_caches():
        if clear in (one.name, "all"):
            one.clear()
    found = machine_caches()
    if as_json:
        print_json(
            {
                one.name: {
                    "folder": str(one.folder),
                    "entries": len(one.entries),
                    "bytes": one.bytes,
                    "most_bytes": one.most_bytes,
                }
                for one in found
            }
        )
        return
    rows = [
        (
            one.name,
            one.holds,
            readable_size(one.bytes),
            "–" if one.most_bytes is None else readable_size(one.most_bytes),
            one.folder,
        )
        for one in found
    ]
    print_table(("cache", "holds", "size", "limit", "folder"), rows, right=("size", "limit"))
    if clear is None:
        print_line("`scdh cache --clear features` removes one of them, `--clear all` removes all.")

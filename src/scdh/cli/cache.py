"""``scdh cache``: what scdh keeps on this machine, and how to remove it."""

from typing import Annotated, Literal

import typer

from scdh.cli.options import Json
from scdh.cli.output import print_json, print_line, print_table

EXAMPLES = ("scdh cache", "scdh cache --clear features", "scdh cache --json")


def cache(
    clear: Annotated[
        Literal["features", "exports", "loops", "all"] | None,
        typer.Option(help="Remove what is kept; what is needed again is computed again."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or clear what scdh keeps on this machine.

    Features of frozen networks are shared by all runs, so a run with other bits or another method on the same photos
    computes none again. The least recently used ones are removed beyond the limit. `--feature-cache FOLDER` of `scdh
    train` keeps those of a run elsewhere; SCDH_FEATURE_DIR names another folder for all runs, and if it is empty, each
    run keeps its own.
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

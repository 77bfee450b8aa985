"""Commands to go on with after training."""

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scdh.config import RunConfig


def next_commands(run: "RunConfig", folder: Path, ranking: str, has_queries: bool) -> list[str]:
    """Commands to go on with, ready for a shell: names with spaces are quoted, and data have the same options."""
    from scdh.codes import HAMMING

    data = run.data
    options = {
        "--root": data.root,
        "--image-column": data.image_column,
        "--vector-column": data.vector_column,
        "--label-column": data.label_column,
        "--label-separator": None if data.label_separator == "auto" else data.label_separator,
        "--id-column": data.id_column,
        "--labels": data.labels,
        "--on-bad-image": "skip" if data.on_bad_image == "skip" else None,
    }
    given = [part for option, value in options.items() if value is not None for part in (option, value)]
    codes, index = str(folder / "all.codes"), str(folder / "all.index")
    commands = [["evaluate", str(folder)]] if has_queries else []
    commands += [
        ["encode", str(folder), data.source, *given, "--out", codes],
        *([] if ranking != HAMMING else [["index", codes, "--out", index], ["search", index, "--row", "0"]]),
    ]
    return [join(["scdh", *parts]) for parts in commands]

"""Commands to go on with after training."""

from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scdh.config import RunConfig


def next_commands(run: "RunConfig", folder: Path, ranking: str, has_queries: bool) -> list[str]:
    """Commands to go on with, ready for a shell: names with spaces are quoted, and data have the same options."""
    from scdh.codes import HAMMING
    from scdh.runs.data_options import data_options

    data = run.data
    given = data_options(data.model_dump())
    codes, index = str(folder / "all.codes"), str(folder / "all.index")
    commands = [
        *([["evaluate", str(folder)]] if has_queries else []),
        ["report", str(folder)],
        ["encode", str(folder), data.source, *given, "--out", codes],
        ["index", codes, "--out", index],
        # A distance of the method's own is computed by the model.
        ["search", index, *([] if ranking == HAMMING else ["--model", str(folder)]), "--row", "0"],
    ]
    return [join(["scdh", *parts]) for parts in commands]

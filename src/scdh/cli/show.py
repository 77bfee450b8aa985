"""How commands speak: results to standard output, remarks to standard error, and only one process of many speaks."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any


class Stopped(Exception):
    """The user pressed Ctrl-C, and the command knows how to go on."""


def rank() -> int:
    """Number of this process under ``torchrun``; 0 where there is only one."""
    word = os.environ.get("RANK", "0")
    return int(word) if word.isdigit() else 0


def result(text: str = "") -> None:
    """A line of the result."""
    if rank() == 0:
        print(text)


def document(content: Any) -> None:
    """The one JSON document that ``--json`` promises."""
    if rank() == 0:
        print(json.dumps(content, indent=1, ensure_ascii=False))


def remark(text: str) -> None:
    """A line beside the result; it never mixes with what a program reads from standard output."""
    if rank() == 0:
        print(text, file=sys.stderr, flush=True)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", right: Sequence[str] = ()
) -> None:
    """A table; columns named in ``right`` are set to the right, as numbers want."""
    if rank() != 0:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # a file has no width; 80 would break long paths for nothing
    shown = Table(title=Text(title) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        shown.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        # As Text, for rich would read [brackets] in a file's name as its own markup.
        shown.add_row(*(Text(str(cell)) for cell in row))
    console.print(shown)


def examples(*commands: str) -> str:
    """The block below a command's options in ``--help``."""
    return "\n".join(("[bold]Examples[/bold]", *(escaped(command) for command in commands)))


def paragraphs(docstring: str | None) -> str:
    """A docstring for ``--help``: lines within a paragraph flow, whatever the width of the terminal."""
    parts = (docstring or "").split("\n\n")
    return escaped("\n\n".join(" ".join(part.split()) for part in parts))


def escaped(text: str) -> str:
    """Brackets stay brackets; help texts are otherwise read as rich's markup."""
    return text.replace("[", "\\[")

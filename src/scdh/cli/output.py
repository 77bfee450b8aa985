"""What commands print: results to standard output, notes to standard error, and only by the first of many processes."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any


class Stopped(Exception):
    """The user pressed Ctrl-C; the message says how to go on."""


def process_rank() -> int:
    """Number of this process under ``torchrun``; 0 if there is only one."""
    rank = os.environ.get("RANK", "0")
    return int(rank) if rank.isdigit() else 0


def print_line(text: str = "") -> None:
    """Print a line of the result."""
    if process_rank() == 0:
        print(text, flush=True)  # at once also into a pipe: work that takes hours may follow


def print_json(content: Any) -> None:
    """Print the one JSON document that ``--json`` promises."""
    if process_rank() == 0:
        print(json.dumps(content, indent=1, ensure_ascii=False))


def print_note(text: str) -> None:
    """Print a line to standard error, where it does not mix with what a program reads from standard output."""
    if process_rank() == 0:
        print(text, file=sys.stderr, flush=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str = "", right: Sequence[str] = ()
) -> None:
    """Print a table; columns named in ``right`` are aligned to the right, as numbers are read."""
    if process_rank() != 0:
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160)  # a file has no width; 80 would break long paths for nothing
    table = Table(title=Text(title) if title else None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        # As Text, because rich would read [brackets] in a file's name as its own markup.
        table.add_row(*(Text(str(cell)) for cell in row))
    console.print(table)


def help_examples(commands: Iterable[str]) -> str:
    """The block below a command's options in ``--help``."""
    return "\n".join(("[bold]Examples[/bold]", *(escape_markup(command) for command in commands)))


def help_text(docstring: str | None) -> str:
    """A docstring for ``--help``: lines of a paragraph are joined, so that they fit any width of terminal."""
    paragraphs = (docstring or "").split("\n\n")
    return escape_markup("\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))


def escape_markup(text: str) -> str:
    """Brackets stay brackets; rich would read them as markup."""
    return text.replace("[", "\\[")

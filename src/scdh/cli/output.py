"""Print the output of commands: results to standard output, notes to standard error. Of several processes that train
together only the first prints. All output is made safe to show (:mod:`scdh.printable`), because it contains names of
files and classes.
"""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from scdh.printable import json_text, printable

if TYPE_CHECKING:
    from scdh.data.protocol import Protocol

_rank: ContextVar[int] = ContextVar("rank", default=0)


class Stopped(Exception):
    """The user pressed Ctrl-C; the message says how to continue."""


def join_training() -> None:
    """Note that this command trains together with the other processes of ``torchrun``, of which only the first prints.

    Other commands ignore the environment, because clusters set RANK for everything that runs on a node.
    """
    rank, count = (os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE"))
    _rank.set(int(rank) if rank.isdecimal() and count.isdecimal() and int(count) > 1 else 0)


def process_rank() -> int:
    """Number of this process among those that train together; 0 for any other command."""
    return _rank.get()


def never_fail_to_print() -> None:
    """Show letters that the encoding of the terminal lacks as escapes, which would otherwise be an error."""
    for stream in (sys.stdout, sys.stderr):
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")


def print_line(text: str = "") -> None:
    """Print a line of the result."""
    if process_rank() == 0:
        print(printable(text, keep="\n"), flush=True)  # flushed, also into a pipe: work that takes hours may follow


def print_json(content: Any) -> None:
    """Print the one JSON document that ``--json`` promises."""
    if process_rank() == 0:
        text = json_text(content, indent=1)
        try:
            text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
        except UnicodeEncodeError:
            text = json.dumps(content, indent=1)
        print(text)


def split_json(protocol: "Protocol") -> dict[str, Any]:
    """A split under the keys that all commands use."""
    return {"split_counts": protocol.counts, "split_about": protocol.about}


def print_note(text: str) -> None:
    """Print a line to standard error, where it does not mix with what a program reads from standard output."""
    if process_rank() == 0:
        print(printable(text, keep="\n"), file=sys.stderr, flush=True)


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
        console = Console(highlight=False, width=160)  # a file has no width; 80 columns would break long paths
    heading = Text(printable(title)) if title else None
    table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    # As Text, because rich would read [brackets] in a file's name as its own markup.
    for column in columns:
        table.add_column(Text(printable(column)), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(str(cell))) for cell in row))
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

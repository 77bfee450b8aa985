"""Tables and texts in Markdown. Imports nothing, so that scripts can use it at no cost."""

from collections.abc import Iterable, Sequence


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]], left: Iterable[int] = (0,)) -> str:
    """A Markdown table.

    Args:
        columns: headings.
        rows: texts of each row, one per column; escape texts of users with :func:`escape_markdown` before.
        left: numbers of the columns aligned to the left; the others are aligned to the right, as numbers are read.

    >>> print(markdown_table(["method", "MAP"], [["LSH", "0.3"]]))
    | method | MAP |
    |---|---:|
    | LSH | 0.3 |
    """
    left = set(left)
    rule = "|" + "".join("---|" if n in left else "---:|" for n in range(len(columns)))
    return "\n".join([_line(columns), rule, *(_line(row) for row in rows)])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escape_markdown(text: str) -> str:
    """The text on one line, with all characters escaped that Markdown or HTML would interpret."""
    for sign, escaped in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*"), ("_", "\\_"), ("`", "\\`")):
        text = text.replace(sign, escaped)
    return " ".join(text.split())

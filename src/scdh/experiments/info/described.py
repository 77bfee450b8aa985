"""A description of anything that scdh reads or writes: what it is, rows for a table, and what to do next."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scdh.errors import DataError
from scdh.storage.checksums import is_intact
from scdh.storage.files import read_regular
from scdh.storage.json_files import parse_json


@dataclass
class Described:
    """What something is.

    Args:
        kind: "run", "model", "codes", "index", "comparison", "split" or "data".
        title: one line about it.
        facts: values by name, ready for JSON.
        rows: (name, text) pairs to print.
        commands: what to do next, ready for a shell.
    """

    kind: str
    title: str
    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[tuple[str, str]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any, text: str | None = None) -> None:
        """A fact that is also printed; None is left out."""
        if value is not None:
            self.facts[name.replace(" ", "_")] = value
            self.rows.append((name, _text(value) if text is None else text))

    def suggest(self, *parts: object) -> None:
        """A command to try next."""
        self.commands.append(shlex.join(["scdh", *map(str, parts)]))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "title": self.title, **self.facts, "next": self.commands}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def read_json(path: Path) -> Any:
    """The content of a JSON file; a broken one raises an error."""
    try:
        content = parse_json(read_regular(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}.") from None
    if isinstance(content, dict) and not is_intact(content):
        raise DataError(f"{path} was changed or damaged after it was written; restore it from a copy.")
    return content


def some(names: Sequence[str] | Iterable[str], most: int = 5) -> str:
    """The first few names, and how many there are.

    >>> some(["a", "b", "c"], most=2)
    '3: a, b …'
    """
    names = list(names)
    listed = ", ".join(names[:most])
    return f"{len(names):,}" + (f": {listed}{' …' if len(names) > most else ''}" if names else "")


def counts_text(counts: dict[str, int]) -> str:
    """Rows of each part of a split."""
    return ", ".join(f"{part} {count:,}" for part, count in counts.items())

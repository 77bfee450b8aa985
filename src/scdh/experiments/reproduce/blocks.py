"""The tables and figures of a reproduction's item, ready for the page, the Markdown file and CSV files."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scdh.experiments.pages.svg import svg_file
from scdh.experiments.pages.template import save_page
from scdh.storage.files import replacing


@dataclass(frozen=True)
class Block:
    """A table, or a figure with its data."""

    name: str
    title: str
    note: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]] = field(default_factory=list)
    svg: str = ""

    def write(self, folder: Path) -> None:
        """Write ``<name>.csv`` and, for a figure, ``<name>.svg``."""
        folder.mkdir(parents=True, exist_ok=True)
        with (
            replacing(folder / f"{self.name}.csv") as temporary,
            open(temporary, "w", newline="", encoding="utf-8") as f,
        ):
            csv.writer(f).writerows([self.columns, *self.lines])
        if self.svg:
            save_page(folder / f"{self.name}.svg", svg_file(self.svg))

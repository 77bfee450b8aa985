"""The page, the Markdown tables and the plots of a comparison; every number in them comes from ``compare.json``."""

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scdh.experiments.compare.tables import Table, blocks, facts, tables, tuning_table
from scdh.experiments.pages.template import template
from scdh.files import replacing

CAPTIONS = {
    "map": "MAP against the length of codes. Bars are one standard deviation to either side.",
    "precision": "Precision of what lies within the radius; a query with nothing there counts 0.",
    "validation": "Validation MAP against seconds of training, longest codes, mean over seeds.",
    "cost": "What training costs and what it gives, longest codes: up and to the left is better.",
}


def write_page(found: dict[str, Any], out: Path) -> list[Path]:
    """Write ``compare.md``, ``compare.html`` and ``plots/*.svg`` into ``out``, and return what was written."""
    written = [_write(out / "compare.md", as_markdown(found))]
    lacking = [name for name in ("matplotlib", "jinja2") if find_spec(name) is None]
    if lacking:
        warnings.warn(f"The page and the plots need {' and '.join(lacking)}: pip install 'scdh[demo]'.", stacklevel=2)
        return written
    from scdh.experiments.compare.figures import plots
    from scdh.experiments.demo.figures import as_file

    pictures = plots(found)
    for old in (out / "plots").glob("*.svg"):  # of an earlier call with other data in it
        if old.stem in CAPTIONS and old.stem not in pictures:
            old.unlink()
    written.append(_write(out / "compare.html", as_page(found, pictures)))
    return [*written, *(_write(out / "plots" / f"{name}.svg", as_file(svg)) for name, svg in pictures.items())]


def as_page(found: dict[str, Any], pictures: dict[str, str]) -> str:
    """The HTML text, with everything inside."""
    shown = blocks(found["rows"])
    return template("compare.html").render(
        run=found,
        methods=len(found["methods"]),
        first=next((block for block in shown if any(row["map"] is not None for row in block.by.values())), None),
        longest=max(found["bits"]),
        tables=tables(found),
        tuning=tuning_table(found),
        facts=facts(found),
        pictures=[(svg, CAPTIONS[name]) for name, svg in pictures.items()],
    )


def as_markdown(found: dict[str, Any]) -> str:
    parts = [f"# {len(found['methods'])} methods compared on {_plain(found['data']['name'])}"]
    parts += [_markdown(table) for table in tables(found)]
    if (tuning := tuning_table(found)) is not None:
        parts.append(_markdown(tuning))
    parts.append("\n".join(f"- **{what}.** {_plain(words)}" for what, words in facts(found).items()))
    return "\n\n".join(parts) + "\n"


def _markdown(table: Table) -> str:
    lines = ["| " + " | ".join(table.columns) + " |", "|---" + "|---:" * (len(table.columns) - 1) + "|"]
    for n, texts in enumerate(table.lines):
        cells = [f"**{_plain(text)}**" if (n, m) in table.best else _plain(text) for m, text in enumerate(texts)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n\n".join([f"## {table.title}", table.note, "\n".join(lines)])


def _plain(text: str) -> str:
    """A name must not become a column, a tag or a style of its own."""
    for sign, instead in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*"), ("_", "\\_"), ("`", "\\`")):
        text = text.replace(sign, instead)
    return " ".join(text.split())


def _write(path: Path, text: str) -> Path:
    with replacing(path) as temporary:
        temporary.write_text(text, "utf-8")
    return path

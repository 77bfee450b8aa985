"""The page, the Markdown tables and the plots of a comparison; every number in them comes from ``compare.json``."""

from pathlib import Path

from scdh.experiments.compare.conditions import conditions
from scdh.experiments.compare.results import ComparisonResults
from scdh.experiments.compare.tables import MethodRows, Table, rows_by_method, score_tables, tuning_table
from scdh.experiments.pages.markdown import escape_markdown, markdown_table
from scdh.experiments.pages.template import load_template, save_page
from scdh.extras import missing_packages
from scdh.methods.registry import method_class, method_names

PAGE_PACKAGES = ("matplotlib", "jinja2")
CAPTIONS = {
    "map": "MAP of each method at each length of codes. Bars are one standard deviation to either side.",
    "precision": "Precision of the items within the radius; a query with no item there counts 0.",
    "validation": "Validation MAP against seconds of training, longest codes, mean over seeds.",
    "cost": "What training costs and what it gives, longest codes: up and to the left is better.",
}


def write_page(results: ComparisonResults, out: Path) -> list[Path]:
    """Write ``compare.md``, ``compare.html`` and ``plots/*.svg``.

    Returns:
        Paths of the files. Without matplotlib and jinja2 it is ``compare.md`` alone.
    """
    written = [save_page(out / "compare.md", to_markdown(results))]
    if missing_packages(*PAGE_PACKAGES):
        return written
    from scdh.experiments.compare.figures import plots
    from scdh.experiments.pages.svg import svg_file

    svgs = plots(results)
    for old in (out / "plots").glob("*.svg"):  # of an earlier call with other data in it
        if old.stem in CAPTIONS and old.stem not in svgs:
            old.unlink()
    written.append(save_page(out / "compare.html", to_html(results, svgs)))
    return [*written, *(save_page(out / "plots" / f"{name}.svg", svg_file(svg)) for name, svg in svgs.items())]


def to_html(results: ComparisonResults, svgs: dict[str, str]) -> str:
    """The HTML text, with the plots (SVG texts by name) inside."""
    rows = rows_by_method(results.rows)
    return load_template("compare.html").render(
        results=results,
        best=next((method for method in rows if method.is_scored), None),
        longest=max(results.bits),
        uses_unlabelled=[row.title for row in rows if _uses_unlabelled(row)],
        tables=score_tables(results),
        tuning=tuning_table(results),
        conditions=conditions(results),
        plots=[(svg, CAPTIONS[name]) for name, svg in svgs.items()],
    )


def _uses_unlabelled(row: MethodRows) -> bool:
    is_known = row.method in method_names()  # else it is of a package that is not installed here
    return is_known and method_class(row.method).learns_from_unlabelled and not row.student


def to_markdown(results: ComparisonResults) -> str:
    """The same tables and conditions as Markdown text."""
    parts = [f"# {len(results.methods)} methods compared on {escape_markdown(results.data.name)}"]
    if results.changed_after_scoring:
        changed = escape_markdown(" ".join(results.changed_after_scoring))
        parts.append(f"**Changed after queries were scored**, so it may have been chosen by their scores: {changed}")
    parts += [_section(table) for table in score_tables(results)]
    if (tuning := tuning_table(results)) is not None:
        parts.append(_section(tuning))
    sentences = conditions(results).items()
    parts.append("\n".join(f"- **{heading}.** {escape_markdown(text)}" for heading, text in sentences))
    return "\n\n".join(parts) + "\n"


def _section(table: Table) -> str:
    rows = [[escape_markdown(text) for text in line] for line in table.lines]
    for line, column in table.highlighted:
        rows[line][column] = f"**{rows[line][column]}**"
    return "\n\n".join([f"## {table.title}", table.note, markdown_table(table.columns, rows)])

"""The figure of exact search: how time grows with the database, and how speed depends on the code length."""

from pathlib import Path
from typing import Any

from benchmarks.report import BATCH, FIGURES, WITHIN, Results, rows_of
from benchmarks.timing import Row

_OURS = "#0b6e4f"
_RIVAL = "#c8553d"
_OTHER = "#8a8a8a"
_STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "font.size": 10,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.marker": "o",
}


def draw(results: Results, folder: Path) -> list[Path]:
    """Draw the panels for which there are rows; returns the file, if there are any."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = [
        (_draw_sizes, rows_of(results, "search", BATCH)),
        (_draw_bits, rows_of(results, "search", BATCH)),
        (_draw_radius, rows_of(results, "radius", WITHIN)),
    ]
    wanted = [(paint, rows) for paint, rows in panels if rows]
    if not wanted:
        return []
    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(1, len(wanted), figsize=(4.6 * len(wanted), 3.8), squeeze=False)
        for axis, (paint, rows) in zip(axes[0], wanted, strict=True):
            paint(axis, rows)
        figure.tight_layout()
        folder.mkdir(parents=True, exist_ok=True)
        figure.savefig(folder / FIGURES["search"], dpi=130)
        plt.close(figure)
    return [folder / FIGURES["search"]]


def _draw_sizes(axis: Any, rows: list[Row]) -> None:
    k = max(row["k"] for row in rows)
    chosen = [row for row in rows if row["codes"] == "uniform" and row["bits"] == 64 and row["k"] == k]
    _curve(axis, chosen, "faiss, ms", "faiss IndexBinaryFlat", _RIVAL)
    _curve(axis, chosen, "scdh, ms", "scdh scan", _OURS)
    _finish(axis, f"{k} nearest of 64-bit codes", "items in the database", f"ms per {chosen[0]['queries']} queries")


def _draw_bits(axis: Any, rows: list[Row]) -> None:
    """At the size for which code lengths vary; of several paddings for faiss the fastest counts."""
    k = max(row["k"] for row in rows)
    rows = [row for row in rows if row["codes"] == "uniform" and row["k"] == k]
    size = next((row["items"] for row in rows if row["bits"] != 64), rows[0]["items"])
    rows = [row for row in rows if row["items"] == size]
    lengths = sorted({int(row["bits"]) for row in rows})
    for shift, column, label, colour in (
        (-0.2, "faiss, G distances/s", "faiss, fastest padding", _RIVAL),
        (0.2, "scdh, G distances/s", "scdh scan", _OURS),
    ):
        speeds = [max(float(row[column]) for row in rows if row["bits"] == bits) for bits in lengths]
        bars = axis.bar([at + shift for at in range(len(lengths))], speeds, 0.4, color=colour, label=label)
        axis.bar_label(bars, [f"{speed:.2g}" for speed in speeds], fontsize=7)
    axis.set_xticks(range(len(lengths)), [str(bits) for bits in lengths])
    axis.set(title=f"{size:,} items, k = {k}", xlabel="bits of a code", ylabel="G distances/s")
    axis.grid(axis="x", visible=False)
    axis.legend()


def _draw_radius(axis: Any, rows: list[Row]) -> None:
    chosen = [row for row in rows if row["queries"] != "one at a time"]
    _curve(axis, chosen, "scdh scan, µs/query", "scdh scan", _OTHER)
    _curve(axis, chosen, "faiss, µs/query", "faiss IndexBinaryMultiHash", _RIVAL)
    _curve(axis, chosen, "scdh tables, µs/query", "scdh tables", _OURS)
    _finish(axis, "Everything within 2 bits, 64-bit codes", "items in the database", "µs per query")


def _curve(axis: Any, rows: list[Row], column: str, label: str, colour: str) -> None:
    points = sorted((row["items"], row[column]) for row in rows)
    axis.loglog(*zip(*points, strict=True), color=colour, label=label)


def _finish(axis: Any, title: str, x: str, y: str) -> None:
    axis.set(title=title, xlabel=x, ylabel=y)
    axis.legend()

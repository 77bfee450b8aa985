"""Figures of the stored results: how time grows with the database, the batch and the data, and how speed depends on the
code length."""

from pathlib import Path
from typing import Any

from benchmarks.report import BATCH, FIGURES, GROWTH, MEMORY, PER_EPOCH, PER_STEP, WITHIN, Results, rows_of
from benchmarks.timing import Row

_OURS = "#0b6e4f"
_RIVAL = "#c8553d"
_OTHER = "#8a8a8a"
_BLUE = "#3b6ea8"
_PURPLE = "#8a5a9e"
_YELLOW = "#b8860b"
# The same idea has the same colour in both panels.
_COSTS = {
    "DSH": _RIVAL,
    "DSH in batches": _RIVAL,
    "DPSH": _BLUE,
    "DPSH, all stored": _BLUE,
    "all pairs": _YELLOW,
    "NINH": _PURPLE,
    "all triplets, sorted": _PURPLE,
    "every triplet": _OTHER,
}
_WIDTHS = {"cost": 6.2}  # inches a panel; labels at the ends of lines need space
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
    """Draw the figures for which there are rows; returns their files."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {
        "search": [
            (_draw_sizes, rows_of(results, "search", BATCH)),
            (_draw_bits, rows_of(results, "search", BATCH)),
            (_draw_radius, rows_of(results, "radius", WITHIN)),
        ],
        "evaluation": [(_draw_evaluation, rows_of(results, "evaluation", GROWTH))],
        "cost": [
            (_draw_steps, rows_of(results, "cost", PER_STEP)),
            (_draw_epochs, rows_of(results, "cost", PER_EPOCH)),
        ],
        "serve": [(_draw_memory, rows_of(results, "serve", MEMORY))],
    }
    written = []
    for name, wanted in panels.items():
        wanted = [(paint, rows) for paint, rows in wanted if rows]
        if not wanted:
            continue
        with plt.rc_context(_STYLE):
            figure, axes = plt.subplots(
                1, len(wanted), figsize=(_WIDTHS.get(name, 4.6) * len(wanted), 3.8), squeeze=False
            )
            for axis, (paint, rows) in zip(axes[0], wanted, strict=True):
                paint(axis, rows)
            figure.tight_layout()
            folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(folder / FIGURES[name], dpi=130)
            plt.close(figure)
        written.append(folder / FIGURES[name])
    return written


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


def _draw_evaluation(axis: Any, rows: list[Row]) -> None:
    _curve(axis, rows, "argsort way, s", "argsort way (numpy)", _RIVAL)
    _curve(axis, rows, "scdh, s", "scdh.evaluate", _OURS)
    _finish(axis, f"MAP of {rows[0]['queries']:,} queries, {rows[0]['bits']} bits", "items in the database", "seconds")


def _draw_memory(axis: Any, rows: list[Row]) -> None:
    minutes, memory = ([row[name] for row in rows] for name in ("minutes", "memory of the service, MB"))
    axis.plot(minutes, memory, color=_OURS)
    axis.set(title="The service at half load", xlabel="minutes", ylabel="memory, MB", xlim=(0, None), ylim=(0, None))


def _draw_steps(axis: Any, rows: list[Row]) -> None:
    """The rivals with the fewest classes only, since their cost hardly depends on classes."""
    few, many = min(row["classes"] for row in rows), max(row["classes"] for row in rows)
    fewest = [row for row in rows if row["classes"] == few]
    lines = {f"SCUL, {few} classes": (_points(fewest, "batch", "SCUL, ms"), _OURS, "-")}
    if many != few:
        most = [row for row in rows if row["classes"] == many]
        lines[f"SCUL, {many} classes"] = (_points(most, "batch", "SCUL, ms"), _OURS, "--")
    _cost_panel(axis, lines, fewest, "batch")
    axis.set(title="One step of the loss, forward and backward", xlabel="items in the batch", ylabel="ms")


def _draw_epochs(axis: Any, rows: list[Row]) -> None:
    _cost_panel(axis, {"SCUL": (_points(rows, "items", "SCUL, ms"), _OURS, "-")}, rows, "items")
    axis.set(title=f"All items once, {rows[0]['classes']} classes", xlabel="training items", ylabel="ms")


def _cost_panel(axis: Any, lines: dict[str, Any], rows: list[Row], unit: str) -> None:
    for name, colour in _COSTS.items():
        if f"{name}, ms" in rows[0]:
            lines[name] = (_points(rows, unit, f"{name}, ms"), colour, "-")
    for points, colour, style in lines.values():
        axis.loglog(*zip(*points, strict=True), color=colour, linestyle=style, markersize=4)
    _label_ends(axis, {name: (points[-1], colour) for name, (points, colour, _) in lines.items()})


def _points(rows: list[Row], unit: str, column: str) -> list[tuple[float, float]]:
    """Where a loss was not measured, its row has a dash."""
    return sorted((float(row[unit]), float(row[column])) for row in rows if not isinstance(row[column], str))


def _label_ends(axis: Any, ends: dict[str, Any]) -> None:
    """Names in a column next to the panel, as high as their lines end and far enough apart to be read; a thin line
    leads to those whose line ends early."""
    (left, right), (low, high) = axis.get_xlim(), axis.get_ylim()
    step = (high / low) ** 0.075
    height = high
    for name, ((x, y), colour) in sorted(ends.items(), key=lambda end: -end[1][0][1]):
        height = min(y, height / step)
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.8, "linestyle": ":", "shrinkA": 0, "shrinkB": 3}
        place = (right * (right / left) ** 0.02, height)
        axis.annotate(name, (x, y), place, va="center", color=colour, fontsize=9, arrowprops=line)


def _curve(axis: Any, rows: list[Row], column: str, label: str, colour: str) -> None:
    points = sorted((row["items"], row[column]) for row in rows)
    axis.loglog(*zip(*points, strict=True), color=colour, label=label)


def _finish(axis: Any, title: str, x: str, y: str) -> None:
    axis.set(title=title, xlabel=x, ylabel=y)
    axis.legend()

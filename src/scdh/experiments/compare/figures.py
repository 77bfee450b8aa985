"""Plots of a comparison as SVG texts by name; a plot without data is left out."""

import statistics
from collections.abc import Sequence
from typing import Any

from scdh.experiments.compare.results import ComparisonResults
from scdh.experiments.compare.tables import MethodRows, rows_by_method
from scdh.experiments.pages.svg import COLOURS, MARKERS, TEXT_COLOUR, figure_axes, to_svg

WIDTH = 7.4
LEAST_HEIGHT = 4.2
LINE_HEIGHT = 0.21


def plots(results: ComparisonResults) -> dict[str, str]:
    """SVG texts of the plots ``map``, ``precision``, ``validation`` and ``cost``."""
    svgs = {
        "map": _plot_by_bits(results, "map", "MAP"),
        "precision": _plot_by_bits(results, "precision_at_radius", f"precision within radius {results.radius}"),
        "validation": _plot_validation(results),
        "cost": _plot_cost(results),
    }
    return {name: svg for name, svg in svgs.items() if svg}


def _plot_by_bits(results: ComparisonResults, score: str, label: str) -> str:
    """Lines over the lengths of codes, or with one length a dot for each method."""
    lengths = sorted(results.bits)
    methods = [m for m in rows_by_method(results.rows) if any(m.mean(score, bits) is not None for bits in lengths)]
    if not methods:
        return ""
    if len(lengths) == 1:
        return _plot_dots(results, methods, lengths[0], score, label)
    with figure_axes(_size(methods)) as (figure, axes):
        shift = min(0.02, 0.2 / len(methods))
        for n, method in enumerate(methods):
            present = [bits for bits in lengths if method.mean(score, bits) is not None]
            rows = [method.by_bits[bits] for bits in present]
            # Shifted a little, because error bars at one position would hide each other.
            positions = [lengths.index(bits) + shift * (n - (len(methods) - 1) / 2) for bits in present]
            means, bars = [row.mean(score) for row in rows], [row.deviation(score) or 0.0 for row in rows]
            axes.errorbar(positions, means, bars, capsize=2, elinewidth=1, **_line_style(results, method))
        axes.set(xticks=range(len(lengths)), xticklabels=lengths, xlabel="bits", ylabel=label)
        axes.grid(axis="x", visible=False)
        _add_legend(figure, axes)
        return to_svg(figure, f"{label} against bits for each method")


def _plot_dots(results: ComparisonResults, methods: Sequence[MethodRows], bits: int, score: str, label: str) -> str:
    with figure_axes(_size(methods)) as (figure, axes):
        for position, method in enumerate(methods):
            row = method.by_bits[bits]
            bar, style = row.deviation(score) or 0.0, _line_style(results, method)
            axes.errorbar([row.mean(score)], [position], xerr=[bar], capsize=3, **style)
        axes.set(yticks=range(len(methods)), yticklabels=[m.title for m in methods], xlabel=f"{label}, {bits} bits")
        axes.invert_yaxis()
        return to_svg(figure, f"{label} of each method at {bits} bits")


def _plot_validation(results: ComparisonResults) -> str:
    """Validation MAP against seconds of training at the longest codes; the mean over seeds, epoch by epoch."""
    longest = max(results.bits)
    curves: list[tuple[MethodRows, list[list[float]]]] = []
    for method in rows_by_method(results.rows):
        of_seeds = [
            cell.validation
            for cell in results.cells
            if (cell.method, cell.student, cell.bits) == (method.method, method.student, longest) and cell.validation
        ]
        if of_seeds:
            epochs = zip(*of_seeds, strict=False)  # all seeds have as many; a shorter one would end the mean
            points = [[statistics.fmean(values) for values in zip(*epoch, strict=True)] for epoch in epochs]
            curves.append((method, points))
    if not curves:
        return ""
    with figure_axes(_size([method for method, _ in curves])) as (figure, axes):
        for method, points in curves:
            seconds, scores = zip(*points, strict=True)
            axes.plot(seconds, scores, **_line_style(results, method) | {"markersize": 3})
        if results.target is not None:
            axes.axhline(results.target, color=TEXT_COLOUR, lw=1, ls=":", label=f"target {results.target:.2f}")
        axes.set(xscale="log", xlabel="seconds of training", ylabel=f"validation MAP, {longest} bits")
        _set_plain_ticks(axes)
        _add_legend(figure, axes)
        return to_svg(figure, f"Validation MAP against seconds of training at {longest} bits")


def _plot_cost(results: ComparisonResults) -> str:
    """MAP against seconds of training at the longest codes: up and to the left is better."""
    longest = max(results.bits)
    methods = [method for method in rows_by_method(results.rows) if method.mean("map", longest) is not None]
    if not methods:
        return ""
    with figure_axes(_size(methods)) as (figure, axes):
        for method in methods:
            row = method.by_bits[longest]
            style = _line_style(results, method) | {"ls": "none", "markersize": 8}
            style |= {"markerfacecolor": "none" if method.student else style["color"]}
            seconds = max(row.seconds or 0.0, 1e-4)  # the axis is logarithmic
            axes.errorbar([seconds], [row.map], [row.map_std or 0.0], capsize=2, **style)
        axes.set(xscale="log", xlabel="seconds of training", ylabel=f"MAP, {longest} bits")
        _set_plain_ticks(axes)
        _add_legend(figure, axes)
        return to_svg(figure, f"MAP against seconds of training at {longest} bits")


def _line_style(results: ComparisonResults, method: MethodRows) -> dict[str, Any]:
    """By the method's position in the command, so that it looks the same in every plot; its student is dashed."""
    position = results.methods.index(method.method)
    return {
        "color": COLOURS[position % len(COLOURS)],
        "marker": MARKERS[position % len(MARKERS)],
        "ls": "--" if method.student else "-",
        "lw": 1.8,
        "markersize": 5,
        "label": method.title,
    }


def _size(methods: Sequence[MethodRows]) -> tuple[float, float]:
    """Width and height in inches: as high as the legend needs."""
    return WIDTH, max(LEAST_HEIGHT, LINE_HEIGHT * len(methods) + 1)


def _add_legend(figure: Any, axes: Any) -> None:
    """In the order of the table, the target last."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(handles)), key=lambda n: labels[n].startswith("target"))
    figure.legend([handles[n] for n in order], [labels[n] for n in order], loc="outside right upper", handlelength=2.6)


def _set_plain_ticks(axes: Any) -> None:
    """Seconds without powers of ten; over a short range powers of ten alone would be too few."""
    from matplotlib.ticker import LogLocator

    low, high = axes.get_xlim()
    if high < 100 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")

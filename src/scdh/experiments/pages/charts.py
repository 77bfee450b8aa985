"""Line, bar and heat-map charts of pages as SVG text. Texts may come from data; they are shown as they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scdh.experiments.pages.svg import COLOURS, RIGHT_COLOUR, TEXT_COLOUR, WRONG_COLOUR, figure_axes, to_svg
from scdh.printable import printable

CELL = 0.31  # inches of a cell of a heat map
LONGEST_NAME = 40  # letters of a name next to a heat map
MOST_TICKS = 16  # below bars without names


@dataclass(frozen=True)
class Line:
    """One line of a chart: its name, its points (non-finite ones are left out), and matplotlib's line style."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: str = COLOURS[0]
    style: str = "-"

    def points(self) -> list[tuple[float, float]]:
        return [(x, y) for x, y in zip(self.xs, self.ys, strict=True) if math.isfinite(x) and math.isfinite(y)]


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    x_label: str,
    y_label: str,
    log_x: bool = False,
    x_range: tuple[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
) -> str:
    """SVG text of lines in one frame; empty if no line has a point."""
    drawn = [(line, points) for line in lines if (points := line.points())]
    if not drawn:
        return ""
    with figure_axes() as (figure, axes):
        handles = []
        for line, points in drawn:
            marker = "o" if len(points) == 1 else ""
            handles += axes.plot(*zip(*points, strict=True), ls=line.style, color=line.colour, lw=2, marker=marker)
        axes.set(xlabel=x_label, ylabel=y_label)
        if log_x:
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda x, _: f"{x:,g}" if x < 1e6 else f"{x:g}")
        for set_range, limits in ((axes.set_xlim, x_range), (axes.set_ylim, y_range)):
            if limits is not None:
                low, high = limits
                set_range(low, high + 0.02 * (high - low))  # a line along the edge is drawn at its full width
        if len(drawn) > 1:
            names = [printable(line.name) for line, _ in drawn]
            figure.legend(handles, names, loc="outside upper center", ncols=4, columnspacing=1.2, handletextpad=0.5)
        return to_svg(figure, title)


def bar_chart(
    title: str,
    values: Sequence[float],
    *,
    x_label: str,
    y_label: str,
    names: Sequence[str] | None = None,
    y_range: tuple[float, float] | None = None,
    marked: float | None = None,
    colour: str = COLOURS[0],
) -> str:
    """SVG text of bars that show their value on hover; empty if there are none."""
    if not len(values):
        return ""
    numbers = np.arange(1, len(values) + 1)
    with figure_axes() as (figure, axes):
        bars = axes.bar(numbers, values, color=colour, width=0.8)
        tips = {f"bar{number}": f"{number}: {value:.4g}" for number, value in zip(numbers, values, strict=True)}
        for bar, gid in zip(bars, tips, strict=True):
            bar.set_gid(gid)
        if names is not None:
            axes.set_xticks(numbers, [printable(name) for name in names])
        else:
            step = 2 ** max(0, math.ceil(math.log2(len(values) / MOST_TICKS)))
            first = [1] if step > 2 else []  # next to 2 it would be too close
            axes.set_xticks([*first, *range(step, len(values) + 1, step)])
        if marked is not None:
            axes.axhline(marked, color=TEXT_COLOUR, lw=1, ls="--")
        axes.set(xlabel=x_label, ylabel=y_label, xlim=(0.3, len(values) + 0.7))
        axes.set_ylim(y_range)
        axes.grid(axis="x", visible=False)
        return to_svg(figure, title, tips)


def heat_map(title: str, shares: np.ndarray, names: Sequence[str]) -> str:
    """SVG text of a square table of shares between 0 and 1, which cells show on hover."""
    from matplotlib.patches import Rectangle

    texts, tips = [_shortened(name) for name in names], {}
    side = CELL * len(names) + 0.1 * max(map(len, texts)) + 0.2
    with figure_axes((side, side)) as (figure, axes):
        for row, column in np.ndindex(shares.shape):
            share, colour = float(shares[row, column]), RIGHT_COLOUR if row == column else WRONG_COLOUR
            gid = f"cell{row}-{column}"
            cell = Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, color=colour, lw=0, alpha=_opacity(share))
            axes.add_patch(cell).set(gid=gid, clip_on=False)
            tips[gid] = printable(f"{names[row]} → {names[column]}: {100 * share:.1f} %")
        ends = (-0.5, len(names) - 0.5)
        axes.set(xlim=ends, ylim=ends[::-1], aspect="equal")
        axes.set_xticks(range(len(names)), texts, rotation=90 if max(map(len, texts)) > 2 else 0)
        axes.set_yticks(range(len(names)), texts)
        axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
        axes.spines[:].set_visible(False)
        axes.grid(visible=False)
        # As wide as the page, but not so wide that few cells become huge.
        return to_svg(figure, title, tips).replace("<svg", f'<svg style="max-width: {96 * side:.0f}px"', 1)


def _opacity(share: float) -> float:
    """Small shares stay visible; a share of 0 looks different from a small one."""
    return 0.04 if share <= 0 else 0.12 + 0.88 * min(share, 1.0) ** 0.6


def _shortened(name: str) -> str:
    """Names such as column=value differ at their end, others at their beginning."""
    name = printable(" ".join(name.split()))
    if len(name) > LONGEST_NAME and "=" in name:
        return "…" + name[1 - LONGEST_NAME :]
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"

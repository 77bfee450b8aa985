"""Line, bar and heat-map charts as SVG text, drawn without any package: a page of a run needs no plotting library.

Like the figures of :mod:`scdh.experiments.pages.svg` they have no background and take their colours from the page.
Texts come from data, and are escaped here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from scdh.experiments.pages.svg import COLOURS

WIDTH, HEIGHT = 560, 330
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 14, 46
LEGEND = 22  # pixels above the frame
CELL = 22  # pixels of a cell of a heat map
LONGEST_NAME = 18  # letters of a name beside a heat map


@dataclass(frozen=True)
class Line:
    """One line of a chart: its name, and its points; a point that is not finite is left out."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    colour: str = COLOURS[0]
    dashed: bool = False

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
    """SVG text of lines in one frame; empty if no line has a point.

    Args:
        title: for screen readers.
        lines: with a legend if there are several.
        x_label, y_label: below and beside the axes.
        log_x: powers of ten are equally far apart; all x are above 0.
        x_range, y_range: lowest and highest number on the axis; None: those of the points.
    """
    drawn = [(line, line.points()) for line in lines]
    drawn = [(line, points) for line, points in drawn if points]
    if not drawn:
        return ""
    xs = [x for _, points in drawn for x, _ in points]
    ys = [y for _, points in drawn for _, y in points]
    top = TOP + (LEGEND if len(drawn) > 1 else 0)
    frame = _Frame(
        x_range or _widened(min(xs), max(xs), log_x), y_range or _widened(min(ys), max(ys)), log_x=log_x, top=top
    )
    parts = [frame.grid(x_label, y_label)]
    for line, points in drawn:
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        shape = f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2.2"{dash}/>'
        if len(points) == 1:
            x, y = points[0]
            shape = f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="4" fill="{line.colour}"/>'
        parts.append(shape)
    if len(drawn) > 1:
        parts.append(_legend([line for line, _ in drawn]))
    return _svg(title, "".join(parts), WIDTH, HEIGHT)


def bar_chart(
    title: str,
    values: Sequence[float],
    *,
    x_label: str,
    y_label: str,
    names: Sequence[str] | None = None,
    y_range: tuple[float, float] | None = None,
    marked: float | None = None,
) -> str:
    """SVG text of bars; empty if there are none.

    Args:
        title: for screen readers.
        values: heights of the bars.
        x_label, y_label: below and beside the axes.
        names: below the bars (default: every few bars their number, from 1).
        y_range: lowest and highest y (default: 0 and the highest value).
        marked: y of a dashed line.
    """
    if not len(values):
        return ""
    count = len(values)
    frame = _Frame((0.5, count + 0.5), y_range or (0.0, max(float(max(values)), 1e-9) * 1.05))
    ticks = list(range(1, count + 1)) if names is not None else _whole_ticks(count)
    texts = list(names) if names is not None else [str(tick) for tick in ticks]
    parts = [frame.grid(x_label, y_label, x_ticks=list(zip(map(float, ticks), texts, strict=True)), vertical=False)]
    width = (WIDTH - LEFT - RIGHT) / count
    for number, value in enumerate(values, start=1):
        top, bottom = frame.y(max(value, frame.ys[0])), frame.y(frame.ys[0])
        parts.append(
            f'<rect x="{frame.x(number) - 0.4 * width:.1f}" y="{top:.1f}" width="{0.8 * width:.1f}" '
            f'height="{max(bottom - top, 0):.1f}" fill="{COLOURS[0]}"><title>{number}: {value:.4g}</title></rect>'
        )
    if marked is not None:
        y = frame.y(marked)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
            'stroke-dasharray="5 4"/>'
        )
    return _svg(title, "".join(parts), WIDTH, HEIGHT)


def heat_map(title: str, shares: np.ndarray, names: Sequence[str]) -> str:
    """SVG text of a square table of shares between 0 and 1.

    Args:
        title: for screen readers.
        shares: float [n, n]; row i is drawn beside ``names[i]``.
        names: of rows and columns.
    """
    count, beside = len(names), 7.2 * min(LONGEST_NAME, max(map(len, names))) + 10
    cells = []
    for row in range(count):
        for column in range(count):
            share = float(shares[row, column])
            colour = "var(--right)" if row == column else "var(--wrong)"
            tip = f"{names[row]} → {names[column]}: {100 * share:.1f} %"
            cells.append(
                f'<rect x="{beside + CELL * column:.0f}" y="{beside + CELL * row:.0f}" width="{CELL - 1}" '
                f'height="{CELL - 1}" fill="{colour}" fill-opacity="{_opacity(share):.3f}">'
                f"<title>{escape(tip)}</title></rect>"
            )
    for number, name in enumerate(names):
        middle, text = beside + CELL * (number + 0.5), escape(_shortened(name))
        cells.append(
            f'<text x="{beside - 6:.0f}" y="{middle + 4:.0f}" text-anchor="end" font-size="12">{text}</text>'
            f'<text transform="translate({middle + 4:.0f} {beside - 6:.0f}) rotate(-90)" font-size="12">{text}</text>'
        )
    side = beside + CELL * count + 4
    return _svg(title, "".join(cells), side, side, most=1.3 * side)


class _Frame:
    """Where a point of the data is in the picture, and the axes around it."""

    def __init__(
        self, xs: tuple[float, float], ys: tuple[float, float], *, log_x: bool = False, top: int = TOP
    ) -> None:
        self.xs, self.ys, self.log_x, self.top = xs, ys, log_x, top

    def x(self, value: float) -> float:
        low, high = self.xs
        if self.log_x:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.ys
        return HEIGHT - BOTTOM - (HEIGHT - self.top - BOTTOM) * (min(max(value, low), high) - low) / (high - low)

    def grid(
        self,
        x_label: str,
        y_label: str,
        *,
        x_ticks: Sequence[tuple[float, str]] | None = None,
        vertical: bool = True,
    ) -> str:
        parts, bottom = [], HEIGHT - BOTTOM
        for tick in nice_ticks(*self.ys):
            y = self.y(tick)
            parts.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--faint)"/>'
                f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
        if x_ticks is None:
            numbers = _powers_of_ten(*self.xs) if self.log_x else nice_ticks(*self.xs)
            x_ticks = [(tick, f"{tick:,g}" if tick < 1e6 else f"{tick:g}") for tick in numbers]
        for tick, text in x_ticks:
            x = self.x(tick)
            if vertical:
                parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{bottom}" stroke="var(--faint)"/>')
            parts.append(f'<text x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{escape(text)}</text>')
        middle = (self.top + bottom) / 2
        parts.append(
            f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>'
            f'<text transform="translate(14 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
        )
        return "".join(parts)


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers, at most about ``most``.

    >>> nice_ticks(0, 1)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * number, 12) for number in range(first, last + 1)]


def _powers_of_ten(low: float, high: float) -> list[float]:
    powers = [10.0**n for n in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)]
    return powers if len(powers) > 1 else [low, high]


def _whole_ticks(count: int) -> list[int]:
    step = next(step for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, count) if count / step <= 16)
    return sorted({1, *range(step, count + 1, step)} if step > 1 else range(1, count + 1))


def _widened(low: float, high: float, is_log: bool = False) -> tuple[float, float]:
    """A range of some size, also around a single number."""
    if high > low:
        return low, high
    return (low / 2, low * 2) if is_log else (low - max(abs(low), 1.0) / 10, low + max(abs(low), 1.0) / 10)


def _legend(lines: Sequence[Line]) -> str:
    """In a row above the frame, where no line can pass."""
    parts, x = [], float(LEFT)
    for line in lines:
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        parts.append(
            f'<line x1="{x:.0f}" x2="{x + 26:.0f}" y1="16" y2="16" stroke="{line.colour}" stroke-width="2.2"{dash}/>'
            f'<text x="{x + 32:.0f}" y="20">{escape(line.name)}</text>'
        )
        x += 32 + 7.2 * len(line.name) + 20
    return "".join(parts)


def _opacity(share: float) -> float:
    """Small shares stay visible; none at all does not look like some."""
    return 0.04 if share <= 0 else 0.12 + 0.88 * min(share, 1.0) ** 0.6


def _shortened(name: str) -> str:
    """Names such as column=value differ at their end, others at their beginning."""
    if len(name) > LONGEST_NAME and "=" in name:
        return "…" + name[1 - LONGEST_NAME :]
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def _svg(title: str, content: str, width: float, height: float, most: float | None = None) -> str:
    """As wide as the page lets it be, but not wider than ``most`` pixels."""
    limit = "" if most is None else f' style="max-width: {most:.0f}px"'
    return (
        f'<svg role="img" viewBox="0 0 {width:.0f} {height:.0f}" font-size="12.5" fill="currentColor"{limit}>'
        f"<title>{escape(title)}</title>{content}</svg>"
    )

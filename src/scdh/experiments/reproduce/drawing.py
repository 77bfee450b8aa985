"""Lines and maps that stay readable in print and for colour-blind readers: colour, marker and dash all differ."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from scdh.experiments.pages.svg import TEXT_COLOUR, figure_axes, to_svg

# Okabe and Ito's palette, without its yellow, which is lost on paper; the last four are for ten classes.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8B5A2B", "#332288", "#882255")
MARKS = "osD^vP*X"
DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
BAND = "#009E73"


@dataclass(frozen=True)
class Curve:
    """Points with a name; ``errors`` are drawn as bars."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    errors: Sequence[float] = field(default_factory=list)


@dataclass(frozen=True)
class Panel:
    """Curves in one frame. ``names`` are shown below the points in place of numbers, which are not joined by lines if
    they have no order (``joined``); ``band`` shades a range of y."""

    curves: Sequence[Curve]
    x_label: str
    y_label: str
    names: Sequence[str] = ()
    joined: bool = True
    log_x: bool = False
    band: tuple[float, float] | None = None


def draw_panels(panels: Sequence[Panel], title: str) -> str:
    """SVG text of panels next to each other, with one legend for all of them."""
    width = (4.6 if len(panels) < 3 else 3.6) * len(panels) + 0.6  # three panels fit the page without being reduced
    with figure_axes((width, 4.2)) as (figure, first):
        first.remove()
        handles: dict[str, Any] = {}
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            for number, curve in enumerate(panel.curves):
                style = _style(number) if panel.joined else {**_style(number), "ls": "", "markersize": 8}
                drawn = axes.errorbar(curve.xs, curve.ys, curve.errors or None, capsize=2, elinewidth=1, **style)
                if len(panel.curves) > 1:  # else the label of the axis names it
                    handles[curve.name] = drawn
            if panel.band is not None:
                axes.axhspan(*panel.band, color=BAND, alpha=0.15, lw=0)
            if panel.names:
                axes.set_xticks(range(len(panel.names)), panel.names)
                axes.margins(x=0.05 if panel.joined else 0.3)
            if panel.log_x:
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter(lambda x, _: f"{x:,g}")
            axes.set(xlabel=panel.x_label, ylabel=panel.y_label)
        if len(handles) > 1:
            figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=5, handlelength=2.8)
        return _as_wide_as_drawn(to_svg(figure, title), width)


def draw_map(values: Sequence[Sequence[float]], xs: Sequence[float], ys: Sequence[float], labels: Sequence[str]) -> str:
    """SVG text of a table of numbers as shades, each with its number."""
    from matplotlib.patches import Rectangle

    highest = max(max(row) for row in values) or 1.0
    with figure_axes((7.2, 5.2)) as (figure, axes):
        for y, row in enumerate(values):
            for x, value in enumerate(row):
                share = max(0.0, value) / highest
                axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=PALETTE[0], alpha=0.06 + 0.64 * share, lw=0))
                axes.text(x, y, f"{value:.2f}".replace("-0.00", "0.00"), ha="center", va="center", fontsize=8)
        axes.set(xlim=(-0.5, len(xs) - 0.5), ylim=(-0.5, len(ys) - 0.5), xlabel=labels[0], ylabel=labels[1])
        axes.set_xticks(range(len(xs)), [f"{x:.2g}" for x in xs])
        axes.set_yticks(range(len(ys)), [f"{y:.2g}" for y in ys])
        axes.grid(visible=False)
        axes.spines[:].set_visible(False)
        return _as_wide_as_drawn(to_svg(figure, labels[2]), 7.2)


def draw_clouds(clouds: Sequence[tuple[str, Any, Sequence[int]]], names: Sequence[str], title: str) -> str:
    """SVG text of points in the plane, one panel for each method: (its name, points [n, 2], class of each)."""
    with figure_axes((3.6 * len(clouds), 4.2)) as (figure, first):
        first.remove()
        for axes, (name, points, labels) in zip(figure.subplots(1, len(clouds)), clouds, strict=True):
            for number, label in enumerate(sorted(set(labels))):
                chosen = [point for point, of in zip(points, labels, strict=True) if of == label]
                colour, mark = PALETTE[number % len(PALETTE)], MARKS[(number + number // len(MARKS)) % len(MARKS)]
                shown = names[label] if axes is figure.axes[0] else None
                axes.scatter(*zip(*chosen, strict=True), s=24, c=colour, marker=mark, linewidths=0, label=shown)
            axes.set(xticks=[], yticks=[], title=name)
            axes.spines[:].set_visible(True)
        figure.legend(loc="outside lower center", ncols=10, handletextpad=0.1, columnspacing=1)
        return _as_wide_as_drawn(to_svg(figure, title), 3.6 * len(clouds))


def draw_gradient(
    field_: dict[str, list[float]], circles: Sequence[tuple[str, Sequence[float], Sequence[float]]]
) -> str:
    """SVG text of arrows, and of closed curves: (name, x, y)."""
    with figure_axes((5.4, 5.2)) as (figure, axes):
        for number, (name, xs, ys) in enumerate(circles):
            style = {"color": (PALETTE[0], TEXT_COLOUR)[number], "ls": ("-", "--")[number]}
            axes.plot([*xs, xs[0]], [*ys, ys[0]], label=name, lw=1.2, **style)
        arrows = [field_[name] for name in ("x", "y", "dx", "dy")]
        axes.quiver(*arrows, color=PALETTE[1], angles="xy", scale_units="xy", scale=2, width=0.005, zorder=3)
        axes.set(aspect="equal", xlabel="u₁", ylabel="u₂", xlim=(-1.45, 1.45), ylim=(-1.45, 1.45))
        figure.legend(loc="outside upper center", ncols=2)
        svg = to_svg(figure, "Steps against the gradient of l_q from points of the 3-norm circle")
        return _as_wide_as_drawn(svg, 5.4)


def _as_wide_as_drawn(svg: str, inches: float) -> str:
    """A small figure is not enlarged to the width of the page."""
    return svg.replace("<svg", f'<svg style="max-width: {96 * inches:.0f}px"', 1)


def _style(number: int) -> dict[str, Any]:
    return {
        "color": PALETTE[number % len(PALETTE)],
        "marker": MARKS[number % len(MARKS)],
        "ls": DASHES[number % len(DASHES)],
        "lw": 1.7,
        "markersize": 5,
    }

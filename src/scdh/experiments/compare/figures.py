"""Plots of a comparison as SVG texts by name; one that has no data is not there."""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scdh.experiments.compare.tables import Block, blocks
from scdh.experiments.demo.figures import CLASSES, INK, MARKERS, as_svg, house_axes

WIDTH, LEAST_HEIGHT, LINE_HEIGHT = 7.4, 4.2, 0.21


def plots(found: dict[str, Any]) -> dict[str, str]:
    radius = (found["definition"] or {}).get("radius", 2)
    drawn = {
        "map": _by_bits(found, "map", "MAP"),
        "precision": _by_bits(found, "precision_at_radius", f"precision within radius {radius}"),
        "validation": _validation(found),
        "cost": _cost(found),
    }
    return {name: svg for name, svg in drawn.items() if svg}


def _by_bits(found: dict[str, Any], key: str, words: str) -> str:
    """Lines over the lengths of codes, or with one length a dot a method."""
    shown = [block for block in blocks(found["rows"]) if any(row[key] is not None for row in block.by.values())]
    if not shown:
        return ""
    lengths = sorted(found["bits"])
    if len(lengths) == 1:
        return _dots(found, shown, lengths[0], key, words)
    with _many(shown) as (figure, axes):
        for n, block in enumerate(shown):
            rows = [block.by[bits] for bits in lengths if bits in block.by and block.by[bits][key] is not None]
            # Side by side by a little, for error bars at one place would hide each other.
            places = [lengths.index(row["bits"]) + 0.02 * (n - (len(shown) - 1) / 2) for row in rows]
            bars = [row[f"{key}_std"] or 0.0 for row in rows]
            axes.errorbar(places, [row[key] for row in rows], bars, capsize=2, elinewidth=1, **_look(found, block))
        axes.set(xticks=range(len(lengths)), xticklabels=lengths, xlabel="bits", ylabel=words)
        axes.grid(axis="x", visible=False)
        _legend(figure, axes)
        return as_svg(figure, f"{words} against bits for each method")


def _dots(found: dict[str, Any], shown: Sequence[Block], bits: int, key: str, words: str) -> str:
    with _many(shown) as (figure, axes):
        for place, block in enumerate(shown):
            row = block.by[bits]
            axes.errorbar([row[key]], [place], xerr=[row[f"{key}_std"] or 0.0], capsize=3, **_look(found, block))
        axes.set(yticks=range(len(shown)), yticklabels=[block.title for block in shown], xlabel=f"{words}, {bits} bits")
        axes.invert_yaxis()
        return as_svg(figure, f"{words} of each method at {bits} bits")


def _validation(found: dict[str, Any]) -> str:
    """Validation MAP against seconds of training at the longest codes; the mean over seeds, epoch by epoch."""
    longest, curves = max(found["bits"]), {}
    for block in blocks(found["rows"]):
        own = [
            entry["validation"]
            for entry in found["cells"]
            if (entry["method"], entry["student"], entry["bits"]) == (block.method, block.student, longest)
            and entry.get("validation")
        ]
        if own:
            epochs = zip(*own, strict=False)  # seeds of one method have as many; a shorter one would end the mean
            curves[block.title] = (block, [[statistics.fmean(v) for v in zip(*at, strict=True)] for at in epochs])
    if not curves:
        return ""
    with _many([block for block, _ in curves.values()]) as (figure, axes):
        for block, curve in curves.values():
            seconds, scores = zip(*curve, strict=True)
            axes.plot(seconds, scores, **_look(found, block) | {"markersize": 3})
        if found["target"] is not None:
            axes.axhline(found["target"], color=INK, lw=1, ls=":", label=f"target {found['target']:.2f}")
        axes.set(xscale="log", xlabel="seconds of training", ylabel=f"validation MAP, {longest} bits")
        _plain_ticks(axes)
        _legend(figure, axes)
        return as_svg(figure, f"Validation MAP against seconds of training at {longest} bits")


def _cost(found: dict[str, Any]) -> str:
    """MAP against seconds of training at the longest codes: up and to the left is better."""
    longest = max(found["bits"])
    shown = [block for block in blocks(found["rows"]) if (block.by.get(longest) or {}).get("map") is not None]
    if not shown:
        return ""
    with _many(shown) as (figure, axes):
        for block in shown:
            row = block.by[longest]
            look = _look(found, block) | {"ls": "none", "markersize": 8}
            look |= {"markerfacecolor": "none" if block.student else look["color"]}
            axes.errorbar([max(row["seconds"], 1e-4)], [row["map"]], [row["map_std"] or 0.0], capsize=2, **look)
        axes.set(xscale="log", xlabel="seconds of training", ylabel=f"MAP, {longest} bits")
        _plain_ticks(axes)
        _legend(figure, axes)
        return as_svg(figure, f"MAP against seconds of training at {longest} bits")


def _look(found: dict[str, Any], block: Block) -> dict[str, Any]:
    """By the method's place in the command, so that it looks the same in every plot; its student is dashed."""
    place = found["methods"].index(block.method)
    return {
        "color": CLASSES[place % len(CLASSES)],
        "marker": MARKERS[place % len(MARKERS)],
        "ls": "--" if block.student else "-",
        "lw": 1.8,
        "markersize": 5,
        "label": block.title,
    }


@contextmanager
def _many(shown: Sequence[Block]) -> Iterator[tuple[Any, Any]]:
    """Axes as high as their legend needs."""
    with house_axes((WIDTH, max(LEAST_HEIGHT, LINE_HEIGHT * len(shown) + 1))) as both:
        yield both


def _legend(figure: Any, axes: Any) -> None:
    """In the order of the table. Lines alone: the bars are those of the plot."""
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(handles)), key=lambda n: labels[n].startswith("target"))
    figure.legend([handles[n] for n in order], [labels[n] for n in order], loc="outside right upper", handlelength=2.6)


def _plain_ticks(axes: Any) -> None:
    """Seconds as they are said; over a short range powers of ten alone would be too few."""
    from matplotlib.ticker import LogLocator

    low, high = axes.get_xlim()
    if high < 100 * low:
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(lambda *_: "")

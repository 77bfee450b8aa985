"""Figures of the report as SVG text to be put into the page itself.

Drawn without a background and with ink that becomes ``currentColor``, they follow the page into light and dark.
"""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from html import escape
from itertools import cycle
from typing import Any

import numpy as np

from scdh.experiments.demo.comparison import Comparison, Entry
from scdh.metrics.statistics import bit_balance

INK = "#010203"  # stands for the page's text colour until the SVG is written
FAINT = "#040506"
METHODS = {"SCDH": "#2f7de1", "ITQ": "#e08a1e", "LSH": "#8d939e"}
FLOATS = "#9b5de5"
CLASSES = (
    *("#2f7de1", "#e08a1e", "#35a853", "#d64545", "#9b5de5", "#9c6b4f", "#e377c2"),
    *("#7a8290", "#b5b52a", "#17a9c0", "#6fa8ff", "#f2b366", "#7ccf93", "#f08f8f"),
)
MARKERS = "osD^v"
SIZE = (5.6, 4.0)
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "scdh",
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.5,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
}


def precision_curves(found: Comparison) -> str:
    """Precision of the first k against k, for every line of the table."""
    ks = np.unique(np.geomspace(1, min(100, len(found.protocol.database)), 40).round().astype(int))
    longest = max(entry.bits or 0 for entry in found.entries)
    with house_axes() as (figure, axes):
        for entry in found.entries:
            line = ":" if entry.bits is None else "-" if entry.bits == longest else "--"
            axes.plot(ks, entry.scores.precision_at_k(ks), line, color=colour_of(entry), lw=2, label=entry.name)
        axes.set(xscale="log", ylim=(0, 1.02), xlabel="first k returned", ylabel="share that is right")
        axes.xaxis.set_major_formatter(lambda k, _: f"{k:g}")
        # Columns fill first, so each method gets its own.
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1.2, handlelength=1.7, handletextpad=0.5)
        return as_svg(figure, "Precision of the first k photos for each method")


def bit_shares(entry: Entry) -> str:
    """Share of ones of each bit of the database's codes."""
    assert entry.database is not None  # the caller hands over codes, never floats
    shares = bit_balance(entry.database)
    with house_axes() as (figure, axes):
        axes.bar(np.arange(1, len(shares) + 1), shares, color=colour_of(entry), width=0.75)
        axes.axhline(0.5, color=INK, lw=1, ls="--")
        axes.grid(axis="x", visible=False)
        axes.set(ylim=(0, 1), xlim=(0.2, len(shares) + 0.8), xlabel="bit", ylabel="share of ones")
        return as_svg(figure, f"Share of ones of each bit of {entry.name}")


def map_of_items(points: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str) -> str:
    """A t-SNE picture [n, 2] with a colour and a shape for each class."""
    with house_axes() as (figure, axes):
        for label, name, colour, marker in zip(range(len(names)), names, cycle(CLASSES), cycle(MARKERS), strict=False):
            mine = points[labels == label]
            axes.scatter(*mine.T, s=17, c=colour, marker=marker, linewidths=0, alpha=0.9, label=name)
        axes.set(xticks=[], yticks=[])
        axes.margins(0.03)
        axes.spines[:].set_visible(False)
        columns = 4 if max(map(len, names)) > 4 else 10
        figure.legend(loc="outside lower center", ncols=columns, columnspacing=1, handletextpad=0.1, fontsize=9)
        return as_svg(figure, title)


def tsne(vectors: np.ndarray, seed: int) -> np.ndarray:
    """[n, 2] of vectors brought to length 1, as in the paper's picture: only their direction decides a code."""
    from sklearn.manifold import TSNE

    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length == 0, 1, length)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=seed, max_iter=500).fit_transform(unit)


@contextmanager
def house_axes(size: tuple[float, float] = SIZE) -> Iterator[tuple[Any, Any]]:
    """One figure with one set of axes in the house's style."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # A figure of its own, without pyplot: nothing is left behind in a notebook's or a test's state.
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, figure.add_subplot()


def as_svg(figure: Any, title: str) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", lambda _: f"<title>{escape(title)}</title>", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"| width="[\d.]+pt"| height="[\d.]+pt"', "", text).replace("xlink:href", "href")
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    for colour, word in ((INK, "currentColor"), (FAINT, "var(--faint)")):
        text = text.replace(colour, word)
    return text.replace("<svg", '<svg role="img"', 1)


def as_file(svg: str) -> str:
    """A picture of the page as a file of its own: black on white, whatever shows it."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" style="background: #fff; color: #1d2129; font-family: sans-serif"'
    return svg.replace("<svg", head, 1).replace("var(--faint)", "#d9d9d6")


def colour_of(entry: Entry) -> str:
    return METHODS.get(entry.method, FLOATS)

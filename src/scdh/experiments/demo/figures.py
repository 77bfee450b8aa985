"""Figures of the report as SVG texts."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np

from scdh.experiments.demo.comparison import Comparison, Entry
from scdh.experiments.pages.svg import COLOURS, MARKERS, TEXT_COLOUR, figure_axes, to_svg
from scdh.metrics.statistics import bit_balance

METHODS = {"SCDH": "#2f7de1", "ITQ": "#e08a1e", "LSH": "#8d939e"}
FLOATS = "#9b5de5"


def precision_curves(found: Comparison) -> str:
    """Precision of the first k against k, for every line of the table."""
    ks = np.unique(np.geomspace(1, min(100, len(found.protocol.database)), 40).round().astype(int))
    longest = max(entry.bits or 0 for entry in found.entries)
    with figure_axes() as (figure, axes):
        for entry in found.entries:
            line = ":" if entry.bits is None else "-" if entry.bits == longest else "--"
            axes.plot(ks, entry.scores.precision_at_k(ks), line, color=colour_of(entry), lw=2, label=entry.name)
        axes.set(xscale="log", ylim=(0, 1.02), xlabel="first k returned", ylabel="share that is right")
        axes.xaxis.set_major_formatter(lambda k, _: f"{k:g}")
        # Columns fill first, so each method gets its own.
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1.2, handlelength=1.7, handletextpad=0.5)
        return to_svg(figure, "Precision of the first k photos for each method")


def bit_shares(entry: Entry) -> str:
    """Share of ones of each bit of the database's codes."""
    assert entry.database is not None  # the caller hands over codes, never floats
    shares = bit_balance(entry.database)
    with figure_axes() as (figure, axes):
        axes.bar(np.arange(1, len(shares) + 1), shares, color=colour_of(entry), width=0.75)
        axes.axhline(0.5, color=TEXT_COLOUR, lw=1, ls="--")
        axes.grid(axis="x", visible=False)
        axes.set(ylim=(0, 1), xlim=(0.2, len(shares) + 0.8), xlabel="bit", ylabel="share of ones")
        return to_svg(figure, f"Share of ones of each bit of {entry.name}")


def map_of_items(points: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str) -> str:
    """A t-SNE picture [n, 2] with a colour and a shape for each class."""
    with figure_axes() as (figure, axes):
        for label, name, colour, marker in zip(range(len(names)), names, cycle(COLOURS), cycle(MARKERS), strict=False):
            mine = points[labels == label]
            axes.scatter(*mine.T, s=17, c=colour, marker=marker, linewidths=0, alpha=0.9, label=name)
        axes.set(xticks=[], yticks=[])
        axes.margins(0.03)
        axes.spines[:].set_visible(False)
        columns = 4 if max(map(len, names)) > 4 else 10
        figure.legend(loc="outside lower center", ncols=columns, columnspacing=1, handletextpad=0.1, fontsize=9)
        return to_svg(figure, title)


def tsne(vectors: np.ndarray, seed: int) -> np.ndarray:
    """[n, 2] of vectors brought to length 1, as in the paper's picture: only their direction decides a code."""
    from sklearn.manifold import TSNE

    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length == 0, 1, length)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=seed, max_iter=500).fit_transform(unit)


def colour_of(entry: Entry) -> str:
    return METHODS.get(entry.method, FLOATS)

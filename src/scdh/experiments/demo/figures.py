"""Figures of the report as SVG texts."""

from collections.abc import Sequence
from itertools import cycle

import numpy as np

from scdh.experiments.demo.rankings import CodeRanking, Ranking
from scdh.experiments.pages.svg import COLOURS, MARKERS, TEXT_COLOUR, figure_axes, to_svg
from scdh.metrics.statistics import bit_balance

METHOD_COLOURS = {"SCDH": "#2f7de1", "ITQ": "#e08a1e", "LSH": "#8d939e"}
FLOATS_COLOUR = "#9b5de5"


def precision_curves(rankings: Sequence[Ranking], database_size: int) -> str:
    """SVG: precision of the first k against k, for every line of the table.

    Args:
        rankings: one line each.
        database_size: items in the database; k goes up to 100, or to that many.
    """
    ks = np.unique(np.geomspace(1, min(100, database_size), 40).round().astype(int))
    longest = max(ranking.bits or 0 for ranking in rankings)
    with figure_axes() as (figure, axes):
        for ranking in rankings:
            style = ":" if ranking.bits is None else "-" if ranking.bits == longest else "--"
            colour = method_colour(ranking.method)
            axes.plot(ks, ranking.scores.precision_at_k(ks), style, color=colour, lw=2, label=ranking.name)
        axes.set(xscale="log", ylim=(0, 1.02), xlabel="first k returned", ylabel="share that is right")
        axes.xaxis.set_major_formatter(lambda k, _: f"{k:g}")
        # Columns fill first, so each method gets its own.
        figure.legend(loc="outside upper center", ncols=4, columnspacing=1.2, handlelength=1.7, handletextpad=0.5)
        return to_svg(figure, "Precision of the first k photos for each method")


def bit_shares(ranking: CodeRanking) -> str:
    """SVG: share of ones of each bit of the database's codes."""
    shares = bit_balance(ranking.database)
    with figure_axes() as (figure, axes):
        axes.bar(np.arange(1, len(shares) + 1), shares, color=method_colour(ranking.method), width=0.75)
        axes.axhline(0.5, color=TEXT_COLOUR, lw=1, ls="--")
        axes.grid(axis="x", visible=False)
        axes.set(ylim=(0, 1), xlim=(0.2, len(shares) + 0.8), xlabel="bit", ylabel="share of ones")
        return to_svg(figure, f"Share of ones of each bit of {ranking.name}")


def map_of_items(points: np.ndarray, labels: np.ndarray, names: Sequence[str], title: str) -> str:
    """SVG of a t-SNE map, with a colour and a shape for each class.

    Args:
        points: float [n, 2].
        labels: int64 [n], numbers of classes.
        names: of the classes.
        title: text for screen readers.
    """
    with figure_axes() as (figure, axes):
        for label, name, colour, marker in zip(range(len(names)), names, cycle(COLOURS), cycle(MARKERS), strict=False):
            axes.scatter(*points[labels == label].T, s=17, c=colour, marker=marker, linewidths=0, alpha=0.9, label=name)
        axes.set(xticks=[], yticks=[])
        axes.margins(0.03)
        axes.spines[:].set_visible(False)
        columns = 4 if max(map(len, names)) > 4 else 10
        figure.legend(loc="outside lower center", ncols=columns, columnspacing=1, handletextpad=0.1, fontsize=9)
        return to_svg(figure, title)


def tsne(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Vectors float [n, d] as points [n, 2]; brought to length 1 first, as in the paper's picture, because only the
    direction of u decides a code.
    """
    from sklearn.manifold import TSNE

    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length == 0, 1, length)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=seed, max_iter=500).fit_transform(unit)


def method_colour(method: str) -> str:
    """Colour of a method by its title; all float features have one."""
    return METHOD_COLOURS.get(method, FLOATS_COLOUR)

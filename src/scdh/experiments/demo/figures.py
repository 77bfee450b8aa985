"""Figures of the demo's page as SVG texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from scdh.experiments.demo.data import DemoData
from scdh.experiments.demo.rankings import Ranking, longest_learned
from scdh.experiments.pages.charts import Line, line_chart
from scdh.experiments.pages.svg import COLOURS, MARKERS, figure_axes, to_svg
from scdh.experiments.report.figures import FLOATS, draw_bits
from scdh.progress import track

METHOD_COLOURS = {"SCDH": COLOURS[0], "ITQ": COLOURS[1], "LSH": "#8d939e"}
MAPPED = 700  # queries in the t-SNE maps: more dots hide each other


@dataclass(frozen=True)
class Figures:
    """SVG texts of the page's figures; ``before`` and ``after`` are t-SNE maps of ``mapped`` queries."""

    curves: str
    bits: str
    before: str
    after: str
    mapped: int


def draw_figures(data: DemoData, rankings: Sequence[Ranking]) -> Figures:
    """Draw the figures of the page.

    Args:
        data: the data of the demo.
        rankings: one line of the precision plot each; the longest learned codes have the other figures.
    """
    _, longest, codes = longest_learned(rankings)
    seed = data.config.seed
    # Copies would only thicken dots.
    mapped = np.sort(np.random.default_rng(seed).permutation(data.distinct_queries)[:MAPPED])
    outputs = data.features.hash_outputs(codes.hasher, data.source, data.protocol.query, workers=0)
    u = np.concatenate([u for _, u in outputs])
    stages = [(data.query_features, "float features"), (u, f"u of {longest.name}")]
    before, after = (
        map_of_items(tsne(vectors[mapped], seed), data.query_labels[mapped], data.label_names, f"t-SNE by {name}")
        for vectors, name in track(stages, len(stages), "t-SNE", "pictures")
    )
    curves = precision_curves(rankings, len(data.protocol.database))
    return Figures(curves, draw_bits(codes.database), before, after, len(mapped))


def precision_curves(rankings: Sequence[Ranking], database_size: int) -> str:
    """SVG: precision of the first k against k, for every line of the table.

    Args:
        rankings: one line each.
        database_size: items in the database; k goes up to 100, or to that many.
    """
    ks = np.unique(np.geomspace(1, min(100, database_size), 40).round().astype(int))
    longest = max(ranking.bits or 0 for ranking in rankings)
    lines = [
        Line(
            ranking.name,
            ks.tolist(),
            ranking.scores.precision_at_k(ks).tolist(),
            method_colour(ranking.method),
            ":" if ranking.bits is None else "-" if ranking.bits == longest else "--",
        )
        for ranking in rankings
    ]
    title = "Precision of the first k photos for each method"
    return line_chart(
        title, lines, x_label="first k returned", y_label="share that is right", log_x=True, y_range=(0, 1)
    )


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
    return METHOD_COLOURS.get(method, FLOATS)

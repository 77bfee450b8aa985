"""Curves of one evaluation: precision and recall of the first k, and precision against recall as the radius grows."""

from pathlib import Path

import numpy as np

from scdh.errors import ConfigError
from scdh.extras import check_installed
from scdh.metrics.scores import RankingScores, Scores
from scdh.storage.files import replacing

_COLOUR = "#2f7de1"


def check_picture(path: Path) -> None:
    """Raise an error before the work if the file cannot be drawn."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"Curves are drawn as .png, .svg or .pdf, not as {path.name!r}.")
    check_installed("Drawing curves", "matplotlib")


def draw_score_curves(scores: RankingScores, path: Path) -> None:
    """Small plots in one picture; the one by radius only where the ranking is by Hamming distance.

    Args:
        scores: of one evaluation.
        path: .png, .svg or .pdf file to write.
    """
    from matplotlib.figure import Figure

    definition = scores.definition
    count, has_radius = definition["database"], isinstance(scores, Scores)
    ks = np.unique(np.geomspace(1, count, 60).round().astype(int))
    figure = Figure(figsize=(11 if has_radius else 7.4, 3.6), layout="constrained")
    plots = figure.subplots(1, 3 if has_radius else 2)
    plots[0].plot(ks, scores.precision_at_k(ks), color=_COLOUR, lw=2)
    plots[0].set(xscale="log", xlabel="first k returned", ylabel="precision, expected over ties")
    plots[1].plot(ks, scores.recall_at_k(ks), color=_COLOUR, lw=2)
    plots[1].set(xscale="log", xlabel="first k returned", ylabel="recall, expected over ties")
    if isinstance(scores, Scores):
        precision, recall = scores.precision_recall_curve()
        plots[2].plot(recall, precision, color=_COLOUR, lw=2, marker="o", ms=3)
        plots[2].set(xlabel="recall", ylabel="precision within radius 0, 1, 2 …", xlim=(0, 1.02))
    for axes in plots:
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    bits = f", {definition['bits']} bits" if "bits" in definition else ""
    figure.suptitle(f"{definition['queries']:,} queries, {count:,} items{bits}: MAP {scores.map:.4f}")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)

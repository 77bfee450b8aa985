"""Curves of one evaluation: what the first k hold, and precision against recall as the radius grows."""

from pathlib import Path

import numpy as np

from scdh.errors import ConfigError
from scdh.evaluation import Scores
from scdh.files import replacing

_COLOUR = "#2f7de1"


def check_picture(path: Path) -> None:
    """Refuse what cannot be drawn before the work, not after it."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ConfigError(f"Curves are drawn as .png, .svg or .pdf, not as {path.name!r}.")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ConfigError("Drawing curves needs matplotlib: pip install matplotlib.") from None


def draw_score_curves(scores: Scores, path: Path) -> None:
    """Three small plots in one picture."""
    from matplotlib.figure import Figure

    count = scores.definition["database"]
    ks = np.unique(np.geomspace(1, count, 60).round().astype(int))
    precision, recall = scores.precision_recall_curve()
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    first.plot(ks, scores.precision_at_k(ks), color=_COLOUR, lw=2)
    first.set(xscale="log", xlabel="first k returned", ylabel="precision, expected over ties")
    second.plot(ks, scores.recall_at_k(ks), color=_COLOUR, lw=2)
    second.set(xscale="log", xlabel="first k returned", ylabel="recall, expected over ties")
    third.plot(recall, precision, color=_COLOUR, lw=2, marker="o", ms=3)
    third.set(xlabel="recall", ylabel="precision within radius 0, 1, 2 …", xlim=(0, 1.02))
    for axes in (first, second, third):
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    about = scores.definition
    figure.suptitle(f"{about['queries']:,} queries, {count:,} items, {about['bits']} bits: MAP {scores.map:.4f}")
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:].lower(), dpi=150)

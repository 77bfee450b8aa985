"""Charts of a run's page as SVG texts; an empty text if there is nothing to draw."""

import math
from dataclasses import dataclass

import numpy as np

from scdh.codes import Codes
from scdh.experiments.pages.charts import Line, bar_chart, heat_map, line_chart
from scdh.experiments.pages.svg import COLOURS
from scdh.experiments.report.confusions import Confusions
from scdh.experiments.report.contents import Ranked
from scdh.metrics.scores import RankingScores, Scores
from scdh.metrics.statistics import bit_balance, bucket_sizes

CODES = COLOURS[0]
FLOATS = "#9b5de5"
STUDENT = COLOURS[1]
POINTS = 60  # of a curve
# Figures of the last batch of each epoch that show a collapse of unlabelled rows: both lines should stay close.
UNLABELLED = (
    ("norm", "Norm of the outputs by epoch", ("mean norm of u", "Unlabelled rows with a norm near 0 have collapsed.")),
    ("codes", "Distinct codes by epoch", ("share of rows", "Distinct codes in the last batch of each epoch.")),
    ("fullest", "Rows at the fullest centre", ("share of rows", "Near 1 for unlabelled rows only: a collapse.")),
)
BUCKETS = ((1, 1), (2, 9), (10, 99), (100, 999), (1000, None))  # items that share a code


@dataclass(frozen=True)
class Curves:
    """Precision and recall of the first k, and precision against recall as the radius grows."""

    precision: str
    recall: str
    radius: str


def draw_curves(ranked: Ranked) -> Curves:
    """Curves of the codes, of the student's where there is one, and of the floats behind them."""
    count = ranked.scores.scores.definition["database"] - ranked.leaves_one_out
    ks = np.unique(np.geomspace(1, max(count, 1), POINTS).round().astype(int))
    rankings: list[tuple[str, RankingScores, str, str]] = [("codes", ranked.scores.scores, CODES, "-")]
    if ranked.student is not None:
        rankings[0] = ("teacher", ranked.scores.scores, CODES, "-")
        rankings.append(("student", ranked.student.scores, STUDENT, "-"))
    if ranked.scores.floats is not None:
        rankings.append((ranked.scores.floats.name, ranked.scores.floats.scores, FLOATS, "--"))

    def chart(title: str, label: str, values: str) -> str:
        lines = [
            Line(name, ks.tolist(), getattr(scores, values)(ks).tolist(), colour, style)
            for name, scores, colour, style in rankings
        ]
        return line_chart(title, lines, x_label="first k returned", y_label=label, log_x=count > 1, y_range=(0, 1))

    by_radius = []
    for name, scores, colour, _ in rankings:
        if isinstance(scores, Scores):
            precision, recall = scores.precision_recall_curve()
            by_radius.append(Line(name, recall.tolist(), precision.tolist(), colour))
    return Curves(
        chart("Precision of the first k items", "share that is right", "precision_at_k"),
        chart("Recall of the first k items", "share that is found", "recall_at_k"),
        line_chart(
            "Precision against recall within radius 0, 1, 2 and so on",
            by_radius,
            x_label="recall",
            y_label="precision",
            x_range=(0, 1),
            y_range=(0, 1),
        ),
    )


def draw_training(epochs: dict[str, list[float]], validation_database: str) -> list[tuple[str, str]]:
    """Charts and captions of what the log of epochs holds: the loss and its parts, and validation MAP."""
    if not epochs.get("epoch"):
        return []
    xs, charts = epochs["epoch"], []
    parts = [name for name in ("loss", "scul", "l_1", "l_q") if name in epochs]
    lines = [Line(name, xs, epochs[name], COLOURS[n], "--" if n else "-") for n, name in enumerate(parts)]
    if chart := line_chart("Loss by epoch", lines, x_label="epoch", y_label="loss"):
        charts.append((chart, "Loss of each epoch, and its parts where the method has some."))
    scored = [("validation_map", "validation MAP", CODES), ("validation_map_student", "of the student", STUDENT)]
    lines = [Line(title, xs, epochs[name], colour) for name, title, colour in scored if name in epochs]
    if chart := line_chart("Validation MAP by epoch", lines, x_label="epoch", y_label="validation MAP"):
        charts.append((chart, f"MAP of the validation rows, ranked against {validation_database}."))
    for name, title, caption in UNLABELLED:
        kinds = [(f"{name}_labelled", "labelled rows", CODES), (f"{name}_unlabelled", "unlabelled rows", STUDENT)]
        lines = [Line(kind, xs, epochs[key], colour) for key, kind, colour in kinds if key in epochs]
        if chart := line_chart(title, lines, x_label="epoch", y_label=caption[0]):
            charts.append((chart, caption[1]))
    return charts


def draw_bits(codes: Codes) -> str:
    """Share of ones of each bit."""
    return bar_chart(
        "Share of ones of each bit",
        bit_balance(codes).tolist(),
        x_label="bit",
        y_label="share of ones",
        y_range=(0, 1),
        marked=0.5,
    )


def draw_buckets(codes: Codes) -> str:
    """A histogram of the number of items per code."""
    sizes = bucket_sizes(codes)
    shares, names = [], []
    for low, high in BUCKETS:
        inside = sizes[(sizes >= low) & (sizes <= (math.inf if high is None else high))]
        shares.append(float(inside.sum() / sizes.sum()))
        names.append("alone" if high == 1 else f"{low:,}+" if high is None else f"{low}–{high}")
    return bar_chart(
        "Share of items by how many items have the same code",
        shares,
        x_label="items with the same code",
        y_label="share of items",
        names=names,
        y_range=(0, 1),
    )


def draw_confusions(confusions: Confusions) -> str:
    """Labels of the first hits by label of the query; empty where there are too many labels."""
    if not confusions.names:
        return ""
    return heat_map("Labels of the first hits by label of the query", confusions.shares, confusions.names)

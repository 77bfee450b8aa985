"""Scores of a ranking by distance, from two histograms per query; and statistics of codes."""

from scdh.metrics.histograms import distance_histograms
from scdh.metrics.ordered import ordered_average_precision
from scdh.metrics.ranking import average_precision
from scdh.metrics.relevance import check_labels
from scdh.metrics.returned import precision_at_k, precision_recall_by_radius, precision_within_radius, recall_at_k
from scdh.metrics.statistics import (
    bit_balance,
    bit_correlation,
    bit_entropy,
    bucket_sizes,
    class_distances,
    code_statistics,
    distinct_codes,
)

__all__ = [
    "average_precision",
    "bit_balance",
    "bit_correlation",
    "bit_entropy",
    "bucket_sizes",
    "check_labels",
    "class_distances",
    "code_statistics",
    "distance_histograms",
    "distinct_codes",
    "ordered_average_precision",
    "precision_at_k",
    "precision_recall_by_radius",
    "precision_within_radius",
    "recall_at_k",
]

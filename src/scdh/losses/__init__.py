"""Losses as pure tensor functions, one idea a file, and SCUL as a module for anyone's loop."""

from scdh.losses.bounds import multilabel_upper_bound, triplet_ranking_loss, unary_upper_bound
from scdh.losses.consistency import consistency_loss
from scdh.losses.distances import centre_distances
from scdh.losses.quantization import quantization_loss
from scdh.losses.unary import SemanticClusterUnaryLoss, scul, scul_hinge, softmax_loss

__all__ = [
    "SemanticClusterUnaryLoss",
    "centre_distances",
    "consistency_loss",
    "multilabel_upper_bound",
    "quantization_loss",
    "scul",
    "scul_hinge",
    "softmax_loss",
    "triplet_ranking_loss",
    "unary_upper_bound",
]

"""Losses as pure tensor functions, one idea a file, and SCUL as a module for anyone's loop."""

from scdh.losses.bounds import multilabel_upper_bound, triplet_ranking_loss, unary_upper_bound
from scdh.losses.central import central_similarity_loss
from scdh.losses.consistency import consistency_loss
from scdh.losses.corners import corner_distance
from scdh.losses.distances import centre_distances
from scdh.losses.inner_products import centre_loss, inner_product_loss
from scdh.losses.pairwise import dpsh_loss, dsh_loss
from scdh.losses.quantization import quantization_loss
from scdh.losses.triplet import triplet_hinge_loss
from scdh.losses.unary import SemanticClusterUnaryLoss, scul, scul_hinge, softmax_loss

__all__ = [
    "SemanticClusterUnaryLoss",
    "central_similarity_loss",
    "centre_distances",
    "centre_loss",
    "consistency_loss",
    "corner_distance",
    "dpsh_loss",
    "dsh_loss",
    "inner_product_loss",
    "multilabel_upper_bound",
    "quantization_loss",
    "scul",
    "scul_hinge",
    "softmax_loss",
    "triplet_hinge_loss",
    "triplet_ranking_loss",
    "unary_upper_bound",
]

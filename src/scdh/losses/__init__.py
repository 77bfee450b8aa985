"""Losses as pure tensor functions, one idea per file, and SCUL as a module for any training loop."""

from scdh.losses.bounds import multilabel_upper_bound, triplet_ranking_loss, unary_upper_bound
from scdh.losses.cauchy import cauchy_corner_loss, cauchy_pair_loss
from scdh.losses.classification import centre_loss, inner_product_loss, squared_hinge_loss, squared_sigmoid_loss
from scdh.losses.consistency import AlignedTargets, NearestLabels, consistency_loss, target_loss, teacher_targets
from scdh.losses.cosine import cosine_margin_loss, similar_pair_loss, target_likelihood_loss
from scdh.losses.outputs import euclidean_distances
from scdh.losses.pairwise import batch_likelihood_loss, contrastive_loss, pair_likelihood_loss
from scdh.losses.quantization import quantization_loss, sign_distance_loss, unbalanced_bits_loss, undecided_bits_loss
from scdh.losses.semi_supervised import graph_context_loss, neighbour_loss, pseudo_label_loss
from scdh.losses.target_codes import central_similarity_loss, polarization_loss
from scdh.losses.triplet import triplet_hinge_loss
from scdh.losses.unary import SemanticClusterUnaryLoss, own_softmax_loss, scul, scul_hinge, scul_own, softmax_loss

__all__ = [
    "AlignedTargets",
    "NearestLabels",
    "SemanticClusterUnaryLoss",
    "batch_likelihood_loss",
    "cauchy_corner_loss",
    "cauchy_pair_loss",
    "central_similarity_loss",
    "centre_loss",
    "consistency_loss",
    "contrastive_loss",
    "cosine_margin_loss",
    "euclidean_distances",
    "graph_context_loss",
    "inner_product_loss",
    "multilabel_upper_bound",
    "neighbour_loss",
    "own_softmax_loss",
    "pair_likelihood_loss",
    "polarization_loss",
    "pseudo_label_loss",
    "quantization_loss",
    "scul",
    "scul_hinge",
    "scul_own",
    "sign_distance_loss",
    "similar_pair_loss",
    "softmax_loss",
    "squared_hinge_loss",
    "squared_sigmoid_loss",
    "target_likelihood_loss",
    "target_loss",
    "teacher_targets",
    "triplet_hinge_loss",
    "triplet_ranking_loss",
    "unary_upper_bound",
    "unbalanced_bits_loss",
    "undecided_bits_loss",
]

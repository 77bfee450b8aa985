"""Losses over rows with and without a label: the neighbour graph of BGDH, and the pairs of SemiSDH.

The pair losses of SemiSDH are contrastive with d_ij = |h_i − h_j|: a positive pair costs d²/2, a negative one
max(0, m − d)²/2. The authors draw one positive and one negative pair per row. Here the mean over all candidates is
taken, which is the expectation of such draws.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from scdh.losses.label_masks import has_label, label_mask, labels_of, mean_over_labelled
from scdh.losses.outputs import euclidean_distances, full_precision, outputs, outputs_as_wide_as


def graph_context_loss(e: Tensor, contexts: Tensor, met: Tensor, known: Tensor) -> Tensor:
    """−Σ_c P_ic log σ(e_i · w_c) − 1/m Σ_c log σ(−e_i · w_c); mean over the rows that are in the graph.

    It is the mean of Planetoid's samples: a node that the walk meets, and a random node.

    Args:
        e: float tensor [B, k], embeddings.
        contexts: float tensor [m, k], one vector w for each node that can be met.
        met: P, float tensor [B, m], how probably the walk from a row meets each node.
        known: bool tensor [B], which rows are in the graph.

    Returns:
        float tensor [], 0 where no row is in the graph.
    """
    e, met = outputs_as_wide_as(e, contexts, "contexts", "e"), outputs(met, "met")
    with torch.autocast(e.device.type, enabled=False):
        scores = full_precision(e) @ full_precision(contexts).T
        values = -(met.to(scores.dtype) * logsigmoid(scores)).sum(1) - logsigmoid(-scores).mean(1)
        return mean_over_labelled(values, known)


def neighbour_loss(h: Tensor, near: int, far: tuple[int, int], margin: float) -> Tensor:
    """½ [mean_{j near i} d_ij² + mean_{k far from i} max(0, m − d_ik)²]; mean over the rows i.

    Args:
        h: float tensor [B, r].
        near: number of nearest rows, with i itself as the first.
        far: rows are far from the first of these places to before the second, in the order of distances, counted from
            0.
        margin: m.

    Returns:
        float tensor [], 0 where no row is far or the batch is empty.
    """
    distances = euclidean_distances(outputs(h, "h"), h)
    ordered = distances.sort(1).values
    attracted, repelled = ordered[:, :near], ordered[:, far[0] : far[1]]
    if not attracted.numel() or not repelled.numel():
        return 0 * distances.sum()
    return (attracted.square().mean() + (margin - repelled).clamp(min=0).square().mean()) / 2


def pseudo_label_loss(h: Tensor, scores: Tensor, y: Tensor, margin: float) -> Tensor:
    """½ [mean_{j∈P_i} d_ij² + mean_{k∈N_i} max(0, m − d_ik)²]; mean over rows i without a label that have both sets.

    With c_i the class of i's largest score and c̄_i that of its smallest: P_i are rows without a label whose class is
    c_i (i is one of them), and labelled rows that have c_i but not c̄_i; N_i the same with c̄_i in place of c_i.

    Args:
        h: float tensor [B, r].
        scores: float tensor [B, C], of the classes; they get no gradient.
        y: int64 [B] with −1 for no label, or multi-hot [B, C].
        margin: m.

    Returns:
        float tensor [], 0 where no row has both sets.
    """
    y = labels_of(y, outputs(h, "h"))
    mask = label_mask(y, scores.shape[1])
    unlabelled = ~has_label(mask)
    distances = euclidean_distances(h, h)
    likely, unlikely = scores.argmax(1), scores.argmin(1)
    has_likely, has_unlikely = mask.T[likely], mask.T[unlikely]  # [i, j]: whether j has i's class
    same, opposite = likely.unsqueeze(1) == likely, unlikely.unsqueeze(1) == likely
    positive = torch.where(unlabelled, same, has_likely & ~has_unlikely)
    negative = torch.where(unlabelled, opposite & ~same, has_unlikely & ~has_likely)
    values = _row_means(distances.square(), positive) + _row_means((margin - distances).clamp(min=0).square(), negative)
    return mean_over_labelled(values / 2, unlabelled & positive.any(1) & negative.any(1))


def _row_means(values: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, values, 0).sum(1) / mask.sum(1).clamp(min=1)

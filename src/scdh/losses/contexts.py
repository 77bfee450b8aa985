"""The graph loss of Planetoid and BGDH: the embedding of a row predicts which nodes a walk from it meets."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from scdh.losses.distances import full_precision, outputs, outputs_beside
from scdh.losses.labels import mean_over_labelled


def context_loss(e: Tensor, contexts: Tensor, met: Tensor, known: Tensor) -> Tensor:
    """−Σ_c P_ic log σ(e_i · w_c) − 1/m Σ_c log σ(−e_i · w_c); mean over the rows that are in the graph.

    It is the mean of what Planetoid draws: a node that the walk meets, and one at random that it need not meet.

    Args:
        e: float tensor [B, k], embeddings.
        contexts: float tensor [m, k], one vector w for each node that can be met.
        met: P, float tensor [B, m], how probably the walk from a row meets each node.
        known: bool tensor [B], which rows are in the graph.

    Returns:
        float tensor [], 0 where no row is in the graph.
    """
    e, met = outputs_beside(e, contexts, "contexts", "e"), outputs(met, "met")
    with torch.autocast(e.device.type, enabled=False):
        scores = full_precision(e) @ full_precision(contexts).T
        values = -(met.to(scores.dtype) * logsigmoid(scores)).sum(1) - logsigmoid(-scores).mean(1)
        return mean_over_labelled(values, known)

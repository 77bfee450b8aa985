"""Pairs and clusters: how likely two items are similar by their clusters, and which clusters pairs speak for.

p_ik is the probability that item i is in cluster k. With a share ε of wrong pairs, P(similar) = ε + (1 − 2ε) P_ij:

    one cluster per item:   P_ij = Σ_k p_ik p_jk               (p_i sums to 1)
    overlapping clusters:   P_ij = 1 − Π_k (1 − p_ik p_jk)     (items with a cluster in common are similar)
"""

import torch
from torch import Tensor

ENTRIES = 1 << 24  # of pairs × K that are in memory at once
LARGEST = 1 - 1e-4  # of p_ik p_jk: what divides or has a logarithm stays finite


def cluster_similarity(p: Tensor, q: Tensor, overlapping: bool, wrong: float = 0.0) -> Tensor:
    """P(similar) of each pair: float tensor [m].

    Args:
        p, q: float tensors [m, K], cluster probabilities of the two items of each pair.
        overlapping: whether an item may be in several clusters.
        wrong: ε.
    """
    both = (p * q).clamp(max=LARGEST)
    similar = 1 - (1 - both).prod(1) if overlapping else both.sum(1)
    return wrong + (1 - 2 * wrong) * similar


def pair_evidence(q: Tensor, pairs: tuple[Tensor, Tensor, Tensor], overlapping: bool, wrong: float) -> Tensor:
    """What the pairs of each item say about its clusters: float tensor [n, K].

    One cluster per item: Σ_j log P(s_ij | i is in k). Overlapping: Σ_j log P(s_ij | i is in k) − log P(s_ij | i is not
    in k). The clusters of the other items have the probabilities q_j. Added to the logarithm (one) or the log-odds
    (overlapping) of a prior, it gives the mean-field posterior.

    Args:
        q: float tensor [n, K], present cluster probabilities.
        pairs: a, b int64 [m] and similar float [m], positions of the items and the probability that they are similar.
        overlapping: whether an item may be in several clusters.
        wrong: ε, above 0: a certain item would have infinite evidence against a wrong pair.
    """
    evidence = torch.zeros_like(q)
    for a, b, similar in zip(*(column.split(max(1, ENTRIES // q.shape[1])) for column in pairs), strict=True):
        s = similar.unsqueeze(1)
        for first, second in ((a, b), (b, a)):
            other = q[second]
            if overlapping:
                apart = 1 - (q[first] * other).clamp(max=LARGEST)
                by_others = apart.prod(1, keepdim=True) / apart  # not similar by any other cluster
                inside, outside = (wrong + (1 - 2 * wrong) * (1 - by_others * gap) for gap in (1 - other, 1.0))
                value = s * (inside / outside).log() + (1 - s) * ((1 - inside) / (1 - outside)).log()
            else:
                inside = wrong + (1 - 2 * wrong) * other
                value = s * inside.log() + (1 - s) * (1 - inside).log()
            evidence.index_add_(0, first, value)
    return evidence


def merge_clusters(clusters: Tensor, pairs: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Join fragments of clusters, two at a time, while the pairs between them speak for it: int64 [n], 0 … K′ − 1.

    S_kl is the number of similar pairs between k and l, and E_kl = S_k S_l / Σ S what chance would give, with
    S_k = Σ_l S_kl. θ₁ and θ₀ are the ratios ΣS/ΣE within clusters and between them. The two clusters with the largest
    S_kl − (θ₁ + θ₀)/2 E_kl become one while it is > 0: they have more than half as many similar pairs as one cluster
    would have. A few wrong pairs do not join two clusters.

    Args:
        clusters: int64 [n], the cluster of each item.
        pairs: as for :func:`pair_evidence`.
    """
    a, b, similar = pairs
    count = int(clusters.max()) + 1
    table = torch.bincount(clusters[a] * count + clusters[b], similar.double(), count * count).view(count, count)
    table = table + table.T  # the diagonal counts twice, as pairs between two clusters do
    names = torch.arange(count)
    for _ in range(count - 2):
        chance = table.sum(0) * table.sum(1, keepdim=True) / table.sum().clamp(min=1)
        within, by_chance = table.trace(), chance.trace()
        half = (within / by_chance + (table.sum() - within) / (chance.sum() - by_chance).clamp(min=1e-9)) / 2
        gain = (table - half * chance).triu(1)
        k, other = divmod(int(gain.argmax()), count)
        if not gain[k, other] > 0:
            break
        table[k] += table[other]
        table[:, k] += table[:, other]
        table[other] = 0
        table[:, other] = 0
        names[names == other] = k
    return names[clusters].unique(return_inverse=True)[1]

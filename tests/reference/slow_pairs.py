"""Clusters and pairs as loops over items, written from the equations."""

import math


def cluster_similarity(p, q, overlapping, wrong):
    if overlapping:
        apart = math.prod(1 - a * b for a, b in zip(p, q, strict=True))
        value = 1 - apart
    else:
        value = sum(a * b for a, b in zip(p, q, strict=True))
    return wrong + (1 - 2 * wrong) * value


def pair_evidence(q, pairs, overlapping, wrong):
    """log P(s | i is in k), less log P(s | i is not in k) if clusters overlap, summed over the pairs of i."""
    count = len(q[0])
    evidence = [[0.0] * count for _ in q]
    for a, b, s in pairs:
        for i, j in ((a, b), (b, a)):
            for k in range(count):
                inside = [(1.0 if m == k else (q[i][m] if overlapping else 0.0)) for m in range(count)]
                outside = [0.0 if m == k else value for m, value in enumerate(inside)]
                yes = cluster_similarity(inside, q[j], overlapping, wrong)
                evidence[i][k] += s * math.log(yes) + (1 - s) * math.log(1 - yes)
                if overlapping:
                    no = cluster_similarity(outside, q[j], True, wrong)
                    evidence[i][k] -= s * math.log(no) + (1 - s) * math.log(1 - no)
    return evidence


def merge_clusters(clusters, pairs):
    """Sets of clusters, joined two at a time."""
    groups = [{name} for name in sorted(set(clusters))]

    def links(one, other):
        """Similar pairs between two groups, counted in both directions."""
        ends = [(clusters[a], clusters[b], s) for a, b, s in pairs]
        return sum(s * ((x in one and y in other) + (y in one and x in other)) for x, y, s in ends)

    while len(groups) > 2:
        table = [[links(one, other) for other in groups] for one in groups]
        degree, size = [sum(row) for row in table], range(len(groups))
        total = sum(degree)
        chance = [[degree[k] * degree[m] / total for m in size] for k in size]
        within = sum(table[k][k] for k in size) / sum(chance[k][k] for k in size)
        others = [(k, m) for k in size for m in size if k != m]
        between = sum(table[k][m] for k, m in others) / sum(chance[k][m] for k, m in others)
        gains = {(k, m): table[k][m] - (within + between) / 2 * chance[k][m] for k, m in others if k < m}
        (k, m), gain = max(gains.items(), key=lambda item: item[1])
        if gain <= 0:
            break
        groups[k] |= groups.pop(m)
    return [next(number for number, group in enumerate(groups) if name in group) for name in clusters]


def pair_auc(distances, similar):
    wins = [
        (d < e) + 0.5 * (d == e)
        for d, s in zip(distances, similar, strict=True)
        if s > 0.5
        for e, t in zip(distances, similar, strict=True)
        if t <= 0.5
    ]
    return sum(wins) / len(wins)

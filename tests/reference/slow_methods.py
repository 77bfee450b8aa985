"""The losses of the other methods as plain loops over Python floats, written from their equations."""

import math

from tests.reference.slow_losses import label_set, quantization, softmax_loss


def mean(values):
    return sum(values) / len(values) if values else 0.0


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def squared(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def alike(y, other):
    return bool(set(label_set(y)) & set(label_set(other)))


def labelled(items, ys):
    return [(item, y) for item, y in zip(items, ys, strict=True) if label_set(y)]


def dsh_pairs(us, ys, margin):
    rows = labelled(us, ys)
    values = []
    for i, (u, y) in enumerate(rows):
        for v, other in rows[:i]:
            d2 = squared(u, v)
            values.append(d2 / 2 if alike(y, other) else max(margin - d2, 0.0) / 2)
    return mean(values)


def corners(us, ys, p):
    return mean([sum(abs(abs(x) - 1) ** p for x in u) for u, _ in labelled(us, ys)])


def dpsh_pairs(us, ys, table, table_ys, seen):
    values = []
    for u, y in labelled(us, ys):
        for v, other, known in zip(table, table_ys, seen, strict=True):
            if known and label_set(other):
                theta = dot(u, v) / 2
                likelihood = sigmoid(theta) if alike(y, other) else 1 - sigmoid(theta)
                values.append(-math.log(likelihood))
    return mean(values)


def triplets(hs, ys, margin):
    rows = labelled(hs, ys)
    values = []
    for i, (h, y) in enumerate(rows):
        for j, (near, same) in enumerate(rows):
            for far, other in rows:
                if i != j and alike(y, same) and not alike(y, other):
                    values.append(max(0.0, margin + squared(h, near) - squared(h, far)))
    return mean(values)


def inner_products(us, ys, weights):
    return softmax_loss([[dot(c, u) for c in weights] for u in us], ys)


def centre(us, ys, centres):
    return mean([mean([squared(u, centres[s]) for s in label_set(y)]) for u, y in labelled(us, ys)])


def target(y, centres, ties):
    votes = [sum(centres[s][k] for s in label_set(y)) for k in range(len(ties))]
    return [tie if vote == 0 else math.copysign(1, vote) for vote, tie in zip(votes, ties, strict=True)]


def central(us, ys, centres, ties):
    values = []
    for u, y in labelled(us, ys):
        for x, t in zip(u, target(y, centres, ties), strict=True):
            p = (math.tanh(x) + 1) / 2
            values.append(-math.log(p if t > 0 else 1 - p))
    return mean(values)


def loss_of(name, settings, us, ys, *, logits=None, extra=None):
    """The whole objective of a method for outputs ``us``; ``extra`` holds what the method keeps beside the network."""
    s, e = settings, extra or {}
    bits = len(us[0])
    if name == "scdh_s":
        fc8 = s.mu * softmax_loss(logits, ys)
        return inner_products(us, ys, e["c"]) + fc8 + s.alpha * quantization(us, s.p)
    if name == "scdh_c":
        pull = s.lam * centre(us, ys, e["w"])
        return inner_products(us, ys, e["c"]) + pull + s.alpha * quantization(us, s.p)
    if name == "dsh":
        margin = 2 * bits if s.margin is None else s.margin
        return dsh_pairs(us, ys, margin) + s.corner_weight * corners(us, ys, 1)
    if name == "dpsh":
        return dpsh_pairs(us, ys, e["table"], e["table_ys"], e["seen"]) + s.eta * corners(us, ys, 2)
    if name == "ninh":
        return triplets([[sigmoid(x) for x in u] for u in us], ys, s.margin)
    tanh = [[math.tanh(x) for x in u] for u in us]
    return central(us, ys, e["centres"], e["ties"]) + s.corner_weight * corners(tanh, ys, 2) / bits

"""The paper's losses as plain loops over Python floats, written from the equations: slow, obvious, and the oracle."""

import math


def distance(a, b):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def label_set(y):
    """−1 → ∅, k → {k}, a multi-hot row → the set of its ones."""
    if isinstance(y, int):
        return [] if y < 0 else [y]
    return [s for s, present in enumerate(y) if present]


def probabilities(u, centres):
    weights = [math.exp(-distance(u, c)) for c in centres]
    return [w / sum(weights) for w in weights]


def scul(us, ys, centres, lam):
    values = []
    for u, y in zip(us, ys, strict=True):
        labels = label_set(y)
        if labels:
            p = probabilities(u, centres)
            l_mc = sum(-math.log(p[s]) for s in labels)
            values.append(l_mc / len(labels) + lam * sum(distance(u, centres[s]) for s in labels))
    return sum(values) / len(values) if values else 0.0


def scul_hinge(us, ys, centres, lam, margin):
    values = []
    for u, y in zip(us, ys, strict=True):
        labels = label_set(y)
        if labels:
            others = [t for t in range(len(centres)) if t not in labels]
            d = [distance(u, c) for c in centres]
            total = sum(max(0.0, margin + d[s] - d[t]) for s in labels for t in others)
            l_mc = total / len(others) if others else 0.0
            values.append(l_mc / len(labels) + lam * sum(d[s] for s in labels))
    return sum(values) / len(values) if values else 0.0


def softmax_loss(scores, ys):
    values = []
    for row, y in zip(scores, ys, strict=True):
        labels = label_set(y)
        if labels:
            log_sum = math.log(sum(math.exp(v) for v in row))
            values.append(sum(log_sum - row[s] for s in labels) / len(labels))
    return sum(values) / len(values) if values else 0.0


def own_softmax_loss(scores, ys):
    """Each own label against the labels that are not own."""
    values = []
    for row, y in zip(scores, ys, strict=True):
        labels = label_set(y)
        if labels:
            others = sum(math.exp(v) for t, v in enumerate(row) if t not in labels)
            values.append(sum(-math.log(math.exp(row[s]) / (math.exp(row[s]) + others)) for s in labels) / len(labels))
    return sum(values) / len(values) if values else 0.0


def scul_own(us, ys, centres, lam):
    cluster = own_softmax_loss([[-distance(u, c) for c in centres] for u in us], ys)
    pairs = [(u, label_set(y)) for u, y in zip(us, ys, strict=True) if label_set(y)]
    pull = [sum(distance(u, centres[s]) for s in labels) for u, labels in pairs]
    return cluster + lam * sum(pull) / max(len(pull), 1)


def quantization(us, p):
    q = 1 / (1 - 1 / p)
    total = 0.0
    for u in us:
        norm = sum(abs(x) ** p for x in u) ** (1 / p)
        ones = sum(1.0 for _ in u) ** (1 / q)
        total += 1 - sum(abs(x) for x in u) / (ones * norm)
    return total / len(us)


def scul_gradients(u, y, centres, lam):
    """The paper's gradient formulas for one item with one label: (∇u, [∇c_j])."""
    p = probabilities(u, centres)

    def unit(c):
        d = distance(u, c)
        return [(a - b) / d for a, b in zip(u, c, strict=True)]

    grad_u = [(1 + lam) * v for v in unit(centres[y])]
    grad_c = []
    for j, c in enumerate(centres):
        direction = unit(c)
        grad_u = [g - p[j] * v for g, v in zip(grad_u, direction, strict=True)]
        weight = (1 - p[y] + lam) if j == y else -p[j]
        grad_c.append([-weight * v for v in direction])  # ∇_c |u − c| = −(u − c)/|u − c|
    return grad_u, grad_c


def g_hinge(a, b, margin):
    return max(0.0, margin + a - b)


def g_softmax(a, b, margin):
    return -math.log(math.exp(-a) / (math.exp(-a) + math.exp(-b)))


def triplet(hs, ys, g, margin):
    total = 0.0
    sets = [set(label_set(y)) for y in ys]
    for i, h in enumerate(hs):
        for j, other in enumerate(hs):
            for k, third in enumerate(hs):
                shared = len(sets[i] & sets[j])
                if shared and sets[k] and not sets[i] & sets[k]:
                    total += shared * g(distance(h, other), distance(h, third), margin)
    return total


def upper_bound(hs, ys, centres, g, margin):
    n, num_classes = len(hs), len(centres)
    total = 0.0
    for h, y in zip(hs, ys, strict=True):
        d = [distance(h, c) for c in centres]
        l_c = sum(g(d[y], d[j], margin) for j in range(num_classes) if j != y) / (num_classes - 1)
        total += l_c + 2 * d[y]
    return (n / num_classes) ** 2 * (num_classes - 1) * total


def multilabel_upper_bound(hs, ys, centres, p, g, margin):
    n, num_classes = len(hs), len(centres)
    big_q = (1 - p) ** 2 * (1 - p**2) ** (num_classes - 2)
    total = 0.0
    for h, y in zip(hs, ys, strict=True):
        labels = label_set(y)
        others = [t for t in range(num_classes) if t not in labels]
        d = [distance(h, c) for c in centres]
        q = (num_classes - len(labels)) / (num_classes - 1) * (1 - p) ** len(labels)
        l_mc = sum(g(d[s], d[t], margin) for s in labels for t in others) / max(len(others), 1)
        total += q * l_mc + (big_q + q) * sum(d[s] for s in labels)
    return (num_classes - 1) * p**2 * n**2 * total


def consistency(students, teachers):
    """Mean over rows and classes of the squared difference of softmaxes."""
    total, count = 0.0, 0
    for student, teacher in zip(students, teachers, strict=True):
        p, q = ([math.exp(v) / sum(math.exp(w) for w in row) for v in row] for row in (student, teacher))
        total += sum((a - b) ** 2 for a, b in zip(p, q, strict=True))
        count += len(p)
    return total / count

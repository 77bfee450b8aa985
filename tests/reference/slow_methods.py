"""Plain loops over Python floats that the slow twins of several methods share; labels as in ``slow_losses``."""

import math

from tests.reference.slow_losses import label_set, softmax_loss


def mean(values):
    return sum(values) / len(values) if values else 0.0


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def cosine(a, b):
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def squared_distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def linear(x, layer):
    """W x + b of a linear layer."""
    return [dot(w, x) + b for w, b in zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)]


def share_a_label(y, other):
    return bool(set(label_set(y)) & set(label_set(other)))


def labelled_rows(us, ys):
    """(u, y) of the rows that have a label."""
    return [(u, y) for u, y in zip(us, ys, strict=True) if label_set(y)]


def batch_likelihood(hs, ys, scale):
    """log(1 + e^θ) − s θ, θ = a h_i · h_j, of all similar pairs and of all dissimilar pairs of labelled rows."""
    rows, similar, dissimilar = labelled_rows(hs, ys), [], []
    for i, (h, y) in enumerate(rows):
        for other, other_y in rows[:i]:
            theta = scale * dot(h, other)
            if share_a_label(y, other_y):
                similar.append(math.log(1 + math.exp(theta)) - theta)
            else:
                dissimilar.append(math.log(1 + math.exp(theta)))
    return similar, dissimilar


def corners(us, ys, p):
    """Σ_k ||u_k| − 1|^p, mean over the labelled rows."""
    return mean([sum(abs(abs(x) - 1) ** p for x in u) for u, _ in labelled_rows(us, ys)])


def inner_products(us, ys, classifier):
    """−log softmax_y(c^T u), mean over the labels of a row and over the labelled rows."""
    return softmax_loss([[dot(c, u) for c in classifier] for u in us], ys)

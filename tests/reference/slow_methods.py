"""Plain loops over Python floats that the slow twins of several methods share; labels as in ``slow_losses``."""

import math

from tests.reference.slow_losses import label_set, softmax_loss


def mean(values):
    return sum(values) / len(values) if values else 0.0


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


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


def corners(us, ys, p):
    """Σ_k ||u_k| − 1|^p, mean over the labelled rows."""
    return mean([sum(abs(abs(x) - 1) ** p for x in u) for u, _ in labelled_rows(us, ys)])


def inner_products(us, ys, classifier):
    """−log softmax_y(c^T u), mean over the labels of a row and over the labelled rows."""
    return softmax_loss([[dot(c, u) for c in classifier] for u in us], ys)

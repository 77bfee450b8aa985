"""PCAH against principal axes that are found by plain rotations, and what it cannot do."""

import math

import numpy as np

from tests.methods.harness import build
from tests.reference.slow_methods import dot, mean


def slow_axes(matrix):
    """(variance, axis) of a symmetric matrix, largest first, by Jacobi's rotations of two coordinates at a time."""
    size = len(matrix)
    matrix = [list(row) for row in matrix]
    axes = [[float(i == j) for j in range(size)] for i in range(size)]  # axes[k] is column k
    for _ in range(60):
        for p in range(size):
            for q in range(p + 1, size):
                if abs(matrix[p][q]) < 1e-14:
                    continue
                angle = 0.5 * math.atan2(2 * matrix[p][q], matrix[q][q] - matrix[p][p])
                c, s = math.cos(angle), math.sin(angle)
                for row in matrix:
                    row[p], row[q] = c * row[p] - s * row[q], s * row[p] + c * row[q]
                for rows in (matrix, axes):
                    one, other = rows[p], rows[q]
                    rows[p] = [c * a - s * b for a, b in zip(one, other, strict=True)]
                    rows[q] = [s * a + c * b for a, b in zip(one, other, strict=True)]
    return sorted(((matrix[k][k], axes[k]) for k in range(size)), reverse=True)


def slow_fit(features, labels, bits, settings, seed):
    width = len(features[0])
    means = [mean([x[i] for x in features]) for i in range(width)]
    centred = [[x[i] - means[i] for i in range(width)] for x in features]
    covariance = [[sum(x[i] * x[j] for x in centred) for j in range(width)] for i in range(width)]
    axes = [axis if max(axis, key=abs) > 0 else [-a for a in axis] for _, axis in slow_axes(covariance)[:bits]]
    return [[dot(x, axis) for axis in axes] for x in centred]


def test_the_first_bit_is_the_sign_of_the_longest_axis_whatever_the_seed():
    features = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32) * np.array([1, 9, 1, 3], np.float32)
    projections = []
    for seed in (0, 1):
        net, method = build("pca", 2, width=4)
        method.fit(net, features, np.full(200, -1), seed=seed)
        projections.append(net.head.projection.numpy())
    np.testing.assert_array_equal(*projections)
    assert np.abs(projections[0]).argmax(axis=0).tolist() == [1, 3]
    assert (projections[0][[1, 3], [0, 1]] > 0.9).all()

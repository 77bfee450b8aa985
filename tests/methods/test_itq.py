"""ITQ against loops that find its rotation in another way, and what it cannot do."""

import numpy as np

from tests.methods.harness import build
from tests.reference.slow_methods import mean


def nearest_rotation(matrix):
    """The orthogonal factor of the polar decomposition, by Newton's iteration X ← (X + X^-T) / 2."""
    for _ in range(200):
        matrix = (matrix + np.linalg.inv(matrix).T) / 2
    return matrix


def slow_fit(features, labels, bits, settings, seed):
    width = len(features[0])
    means = [mean([x[i] for x in features]) for i in range(width)]
    centred = [[x[i] - means[i] for i in range(width)] for x in features]
    covariance = [[sum(x[i] * x[j] for x in centred) for j in range(width)] for i in range(width)]
    variances, axes = np.linalg.eigh(covariance)
    largest_first = sorted(range(width), key=lambda axis: -variances[axis])[:bits]
    projected = np.array([[sum(x[i] * axes[i, a] for i in range(width)) for a in largest_first] for x in centred])
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(bits, bits)))
    for _ in range(settings.iterations):
        signs = np.array([[1.0 if value >= 0 else -1.0 for value in row] for row in projected @ rotation])
        rotation = nearest_rotation(projected.T @ signs)
    return (projected @ rotation).tolist()


def test_the_rotation_of_many_rows_is_fitted_to_some_of_them():
    features = np.random.default_rng(0).normal(size=(4000, 8)).astype(np.float32) * np.arange(1, 9, dtype=np.float32)

    def fitted(rows, seed=0):
        net, method = build("itq", 4, settings={"rotated_rows": rows}, width=8)
        method.fit(net, features, np.zeros(4000), seed=seed)
        u = (features - net.head.mean.numpy()) @ net.head.projection.numpy()
        return u, float(((u - np.where(u >= 0, 1, -1)) ** 2).mean())

    np.testing.assert_array_equal(fitted(4000)[0], fitted(100_000)[0])
    (some, error), (_, least) = fitted(1000), fitted(4000)
    np.testing.assert_array_equal(some, fitted(1000)[0])
    assert least < error < 1.01 * least

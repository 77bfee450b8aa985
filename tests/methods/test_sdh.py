"""SDH against plain loops, its discrete step against all codes, and what it learns."""

import math

import numpy as np
import pytest

from scdh.config import load_config
from scdh.errors import DataError
from scdh.model.hasher import Hasher
from tests.methods.harness import build, query_map
from tests.reference.slow_losses import label_set
from tests.reference.slow_methods import dot, mean, squared_distance


def slow_fit(features, labels, bits, settings, seed):
    rng, n = np.random.default_rng(seed), len(features)
    anchors = sorted(rng.choice(np.arange(n), n, replace=False))  # fewer rows than anchors are wanted
    means = [mean([x[i] for x in features]) for i in range(len(features[0]))]
    centred = [[value - m for value, m in zip(x, means, strict=True)] for x in features]
    units = [[value / math.sqrt(dot(x, x)) for value in x] for x in centred]
    width = 2 * settings.sigma**2
    basis = [[*(math.exp(-squared_distance(x, units[a]) / width) for a in anchors), 1.0] for x in units]
    targets = [[float(s in label_set(y)) for s in range(5)] for y in labels]
    codes = [[1.0 if value >= 0 else -1.0 for value in row] for row in rng.normal(size=(n, bits))]

    def ridge(inputs, wanted, penalty):
        """The least squares weights by an augmented system: a row √penalty · e_i for each input."""
        size = len(inputs[0])
        rows = [*inputs, *(math.sqrt(penalty) * np.eye(size)).tolist()]
        zeros = [[0.0] * len(wanted[0])] * size
        return np.linalg.lstsq(np.array(rows), np.array([*wanted, *zeros]), rcond=None)[0].tolist()

    def regressions():
        return ridge(codes, targets, settings.lam), list(zip(*ridge(basis, codes, settings.ridge), strict=True))

    weights, columns = regressions()
    for _ in range(settings.iterations):
        for i in range(n):
            q = [dot(w, targets[i]) + settings.nu * dot(basis[i], f) for w, f in zip(weights, columns, strict=True)]
            code = list(codes[i])
            for _ in range(settings.sweeps):
                for k in range(bits):
                    others = sum(code[j] * dot(weights[j], weights[k]) for j in range(bits) if j != k)
                    code[k] = 1.0 if q[k] - others >= 0 else -1.0
            codes[i] = code
        weights, columns = regressions()
    return [[dot(row, column) for column in columns] for row in basis]


def test_rows_without_a_label_and_rows_beyond_the_limit_are_left_out():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(60, 6)).astype(np.float32), np.arange(60) % 5
    unlabelled = np.concatenate([labels, np.full(20, -1)])
    further = np.concatenate([features, 100 + features[:20]])
    fits = []
    for x, y, limit in ((features, labels, 100), (further, unlabelled, 100), (features, labels, 30)):
        net, method = build("sdh", 8, settings={"anchors": 20, "fitted_rows": limit})
        method.fit(net, x, y, seed=0)
        fits.append(net.head.projection.numpy())
    np.testing.assert_array_equal(fits[0], fits[1])
    assert not np.allclose(fits[0], fits[2])
    net, method = build("sdh", 8)
    with pytest.raises(DataError, match="no training row has one"):
        method.fit(net, features, np.full(60, -1), seed=0)


@pytest.mark.slow
def test_it_learns_digits():
    # With bits that start from nothing at every turn it was 0.87.
    chosen = {"method.name": "sdh", "method.bits": 12, "seed": 1}
    assert query_map(Hasher.train(load_config("demo-digits", overrides=chosen), quiet=True)) > 0.95

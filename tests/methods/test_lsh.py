"""LSH against plain loops."""

import numpy as np

from tests.reference.slow_methods import dot, mean


def slow_fit(features, labels, bits, settings, seed):
    width = len(features[0])
    weights = np.random.default_rng(seed).normal(size=(width, bits)).tolist()
    means = [mean([x[i] for x in features]) for i in range(width)]
    centred = [[x[i] - means[i] for i in range(width)] for x in features]
    return [[dot(x, [weights[i][k] for i in range(width)]) for k in range(bits)] for x in centred]

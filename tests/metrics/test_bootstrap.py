"""Bootstrap intervals of means over queries."""

import numpy as np
import pytest

from scdh.metrics.bootstrap import mean_interval


def test_interval_agrees_with_a_loop_over_samples() -> None:
    values = np.random.default_rng(1).beta(0.5, 0.5, 200)
    rng = np.random.default_rng(7)
    means = sorted(float(np.mean([values[rng.integers(200)] for _ in range(200)])) for _ in range(400))
    low, high = mean_interval(values)
    assert low == pytest.approx(means[10], abs=0.012)
    assert high == pytest.approx(means[389], abs=0.012)


def test_interval_covers_the_true_mean_about_as_often_as_promised() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        low, high = mean_interval(rng.random(100), resamples=300)
        covered += low <= 0.5 <= high
    assert 180 <= covered <= 200


def test_interval_depends_on_the_seed_only() -> None:
    values = np.random.default_rng(0).random(30)
    assert mean_interval(values) == mean_interval(values)
    assert mean_interval(values) != mean_interval(values, seed=1)
    assert mean_interval(np.array([0.25])) == (0.25, 0.25)
    many = np.random.default_rng(0).random((1 << 20) + 1)
    low, high = mean_interval(many, resamples=3)
    assert high - low < 0.01

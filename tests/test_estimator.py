"""The scikit-learn face: scikit-learn's own checks, one and many labels, digits in seconds."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import scdh


@parametrize_with_checks([scdh.SCDHTransformer(bits=16, epochs=2)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


@pytest.mark.slow
def test_digits_are_found_again(digits):
    X, y = digits
    estimator = scdh.SCDHTransformer(bits=32, random_state=0).fit(X[:1497], y[:1497])
    assert estimator.transform(X[:5]).shape == (5, 4)
    database, queries = estimator.codes(X[:1497]), estimator.codes(X[1497:])
    scores = scdh.evaluate(queries, y[1497:], database, y[:1497])
    assert scores.map > 0.94


@pytest.mark.slow
def test_names_and_many_labels(digits):
    X, y = digits
    names = np.array(["even", "odd"])[y % 2]
    assert list(scdh.SCDHTransformer(bits=8, epochs=1).fit(X, names).classes_) == ["even", "odd"]
    hot = np.concatenate([np.eye(10, dtype=int)[y], np.eye(2, dtype=int)[y % 2]], axis=1)  # the digit, and its parity
    estimator = scdh.SCDHTransformer(bits=24, epochs=8).fit(X[:1497], hot[:1497])
    scores = scdh.evaluate(estimator.codes(X[1497:]), hot[1497:], estimator.codes(X[:1497]), hot[:1497])
    assert scores.map > 0.85  # chance is 0.5: half of the digits share a parity


def test_the_callers_random_numbers_are_left_alone(digits):
    import torch

    X, y = digits
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    scdh.SCDHTransformer(bits=8, epochs=1).fit(X[:200], y[:200])
    assert torch.equal(torch.rand(2), expected)


def test_numbers_are_not_classes(digits):
    X, _ = digits
    with pytest.raises(ValueError, match="Unknown label type"):
        scdh.SCDHTransformer(bits=8, epochs=1).fit(X, np.linspace(0, 1, len(X)))
    with pytest.raises(ValueError, match=r"'method\.bits' cannot be 0"):
        scdh.SCDHTransformer(bits=0, epochs=1).fit(X, np.arange(len(X)) % 3)

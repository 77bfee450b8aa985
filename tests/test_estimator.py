"""The scikit-learn estimators: scikit-learn's own checks, every method, one label and several, digits in seconds."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import scdh
from scdh.errors import ConfigError
from scdh.estimator import HashTransformer
from scdh.methods.declared import declared
from tests.methods.harness import METHODS

ESTIMATORS = [
    scdh.SCDHTransformer(bits=16, epochs=2),
    HashTransformer("dsh", bits=16, epochs=2, settings={"margin": 8.0}),
    HashTransformer("lsh", bits=16),
    HashTransformer("itq", bits=1),  # at most one bit a feature, and some checks have one feature
]


@parametrize_with_checks(ESTIMATORS)
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


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_an_estimator(name, digits):
    X, y = digits[0][:300], digits[1][:300]
    estimator = HashTransformer(name, bits=16, epochs=2)
    packed = estimator.fit_transform(X, y)
    assert packed.dtype == np.uint8
    assert packed.shape == (300, (estimator.hasher_.bits + 7) // 8)
    assert len(np.unique(packed, axis=0)) > 1
    np.testing.assert_array_equal(clone(estimator).fit(X, y).transform(X), packed)
    assert list(estimator.get_feature_names_out()) == [f"byte{i}" for i in range(packed.shape[1])]
    if declared(name).needs_labels:
        with pytest.raises(ValueError, match="requires y to be passed"):
            HashTransformer(name, bits=16, epochs=1).fit(X)
    else:
        np.testing.assert_array_equal(clone(estimator).fit(X).transform(X), packed)


def test_rows_without_a_label_are_used_by_methods_that_can(digits):
    X, y = digits[0][:200], digits[1][:200]
    sets = np.eye(10, dtype=int)[y]
    sets[100:] = 0
    one, other = (HashTransformer("mt_scdh", bits=16, epochs=1).fit(X[:rows], sets[:rows]) for rows in (200, 100))
    assert len(one.hasher_.network.state_dict()) == len(other.hasher_.network.state_dict())
    assert one.hasher_.fingerprint() != other.hasher_.fingerprint()


def test_settings_are_the_methods_own_and_those_that_suit_embeddings(digits):
    X, y = digits[0][:100], digits[1][:100]
    own = HashTransformer("scdh", bits=8, epochs=1, settings={"lam": 0.25}).fit(X, y).hasher_.method.settings
    assert (own.lam, own.alpha, own.mu) == (0.25, 0.5, 0.2)
    short_form = scdh.SCDHTransformer(bits=8, epochs=1, lam=0.25).fit(X, y)
    long_form = HashTransformer("scdh", bits=8, epochs=1, settings={"lam": 0.25}).fit(X, y)
    assert short_form.hasher_.fingerprint() == long_form.hasher_.fingerprint()
    with pytest.raises(ConfigError, match="Unknown dsh setting 'alpha'"):
        HashTransformer("dsh", settings={"alpha": 1.0}).fit(X, y)
    with pytest.raises(ConfigError, match=r"Unknown method 'dshh'; did you mean 'dsh'\?"):
        HashTransformer("dshh").fit(X, y)
    with pytest.raises(ConfigError, match="ITQ gives at most 64 bits"):
        HashTransformer("itq", bits=65).fit(X)


def test_a_teacher_gives_the_codes(monkeypatch):
    from scdh.training import loop

    results, original = [], loop.train_epochs

    def train_epochs(*args, **options):
        results.append(original(*args, **options))
        return results[-1]

    monkeypatch.setattr(loop, "train_epochs", train_epochs)
    X, y = load_digits(return_X_y=True)
    estimator = scdh.HashTransformer("mt_scdh", bits=8, epochs=1).fit(X[:200], y[:200])
    assert results[0].student is not None
    assert estimator.hasher_.network is results[0].net is not results[0].student

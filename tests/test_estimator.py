"""The scikit-learn estimators: scikit-learn's own checks, every method, one label and several, digits in seconds."""

import inspect

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import scdh
from scdh.config import load_config
from scdh.errors import CodesError, ConfigError, DataError
from scdh.estimator import HashTransformer, SCDHTransformer
from scdh.methods.registry import method_class
from tests.methods.harness import METHODS

ESTIMATORS = [
    scdh.SCDHTransformer(bits=16, epochs=2),
    HashTransformer("dsh", bits=16, epochs=2, settings={"margin": 8.0}),
    HashTransformer("itq", bits=1),  # fitted; at most one bit per feature, and some checks have one feature
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


def test_outputs_rank_items_where_a_method_has_a_distance_of_its_own(digits):
    X, y = digits
    fitted = HashTransformer("dqn", bits=16, epochs=2, random_state=0).fit(X[300:], y[300:])
    codes, u = fitted.codes(X[:50]), fitted.outputs(X[:50])
    assert fitted.hasher_.encode_outputs([(np.arange(50), u)]) == codes
    index = scdh.HammingIndex(fitted.codes(X[300:]))
    hits = index.search(codes, 1, byte_tables=fitted.hasher_.distance_tables(u))
    assert (y[300:][hits.ids[:, 0]] == y[:50]).mean() > 0.8


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
    assert 0.1 < estimator.score(digits[0][300:350], digits[1][300:350]) <= 1  # by the ranking of the method
    if method_class(name).needs_labels:
        with pytest.raises(ValueError, match="requires y to be passed"):
            HashTransformer(name, bits=16, epochs=1).fit(X)
    else:
        np.testing.assert_array_equal(clone(estimator).fit(X).transform(X), packed)


def slow_score(estimator, X, y, database, database_labels):
    """The mean over queries that are scored one by one."""
    queries, items = estimator.codes(X), estimator.codes(database)
    return float(
        np.mean([scdh.evaluate(queries[i : i + 1], y[i : i + 1], items, database_labels).map for i in range(len(X))])
    )


@pytest.mark.parametrize("names", [False, True])
def test_the_score_is_that_of_held_out_rows_against_the_training_rows(digits, names):
    X, y = digits[0][:300], digits[1][:300]
    y = np.array([f"digit {label}" for label in y]) if names else y
    estimator = HashTransformer("itq", bits=16).fit(X[:200], y[:200])
    expected = slow_score(estimator, X[200:], y[200:], X[:200], y[:200])
    assert estimator.score(X[200:], y[200:]) == pytest.approx(expected, abs=1e-12)
    with_unknown, hidden = y[200:].copy(), y[:200].copy()
    with_unknown[:50] = "" if names else -1
    assert estimator.score(X[200:], with_unknown) == pytest.approx(estimator.score(X[250:], y[250:]), abs=1e-12)
    hidden[100:] = "" if names else -1
    half = HashTransformer("itq", bits=16).fit(X[:200], hidden)  # learned from all rows, scored by those with a label
    np.testing.assert_array_equal(half.transform(X), estimator.transform(X))
    assert half.score(X[200:], y[200:]) == pytest.approx(
        slow_score(half, X[200:], y[200:], X[:100], y[:100]), abs=1e-12
    )
    other = np.full(100, "new") if names else np.full(100, 99)
    assert estimator.score(X[200:], other) == 0  # a class that no training row has
    with pytest.raises(ValueError, match="No row of y has a label"):
        estimator.score(X[200:], np.full(100, "" if names else -1))
    with pytest.raises(ValueError, match="a label for each of 100 rows, got 3"):
        estimator.score(X[200:], y[:3])
    with pytest.raises(ValueError, match="a label for each of 100 rows, got none"):
        estimator.score(X[200:])
    with pytest.raises(ValueError, match="Labels must be names, or numbers, as those that were learned from"):
        estimator.score(X[200:], digits[1][200:300] if names else np.full(100, "new"))


def test_the_score_with_many_labels_and_without_any(digits):
    X, hot = digits[0][:300], np.eye(10, dtype=int)[digits[1][:300]] | np.eye(10, dtype=int)[digits[1][:300] % 2]
    estimator = HashTransformer("lsh", bits=16).fit(X[:200], hot[:200])
    expected = slow_score(estimator, X[200:], hot[200:], X[:200], hot[:200])
    assert estimator.score(X[200:], hot[200:]) == pytest.approx(expected, abs=1e-12)
    with pytest.raises(ValueError, match=r"Labels of shape \[100\] do not fit .* 10 columns of 0 and 1"):
        estimator.score(X[200:], hot[200:, 0])
    single = HashTransformer("lsh", bits=16).fit(X[:200], digits[1][:200])
    with pytest.raises(ValueError, match=r"do not fit those that were learned from, one label per row"):
        single.score(X[200:], hot[200:])
    unlabelled = HashTransformer("lsh", bits=16).fit(X[:200])
    codes, labels = unlabelled.codes(X[200:]), digits[1][200:300]
    among = scdh.evaluate(codes, labels, codes, labels, leave_one_out=True).map
    assert unlabelled.score(X[200:], labels) == pytest.approx(among, abs=1e-12)
    assert unlabelled.score(X[200:], hot[200:]) > among  # more rows share a label


@pytest.mark.slow
def test_grid_search_and_cross_validation_choose_by_the_score(digits):
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = digits[0][:400], digits[1][:400]
    folds = StratifiedKFold(3)
    search = GridSearchCV(HashTransformer("itq"), {"method": ["lsh", "itq"], "bits": [4, 16]}, cv=folds).fit(X, y)
    assert search.best_params_ == {"method": "itq", "bits": 16}
    assert search.best_score_ == pytest.approx(search.cv_results_["mean_test_score"].max())
    assert search.transform(X).shape == (400, 2)
    scores = cross_val_score(HashTransformer("itq", bits=16), X, y, cv=folds)
    assert scores.mean() == pytest.approx(search.best_score_)
    assert cross_val_score(make_pipeline(StandardScaler(), HashTransformer("pca", bits=16)), X, y).min() > 0.3
    hot = np.eye(10, dtype=int)[y]
    assert (
        GridSearchCV(scdh.SCDHTransformer(bits=16, epochs=2), {"alpha": [0.1, 0.5]}, cv=2).fit(X, hot).best_score_ > 0.3
    )


@pytest.mark.parametrize("missing", [-1, None, ""])
def test_what_means_no_label_in_y(digits, missing):
    X, y = digits[0][:200], digits[1][:200]
    labels = y.astype(object) if missing == -1 else np.array([f"digit {label}" for label in y], object)
    labels[100:] = missing
    if missing == -1:
        labels = labels.astype(int)
    some, fewer = scdh.SCDHTransformer(bits=8, epochs=1), scdh.SCDHTransformer(bits=8, epochs=1)
    some.fit(X, labels)
    assert len(some.classes_) == 10
    assert missing not in some.classes_.tolist()
    assert "-1" not in some.hasher_.label_names
    assert len(some.training_codes_) == 100
    # Methods that need labels skip such rows: only mean and deviation of the features may differ.
    fewer.fit(X[:100], labels[:100])
    assert some.hasher_.label_names == fewer.hasher_.label_names
    taught = HashTransformer("mt_scdh", bits=8, epochs=1)
    assert taught.fit(X, labels).hasher_.fingerprint() != taught.fit(X[:100], labels[:100]).hasher_.fingerprint()
    with pytest.raises(ValueError, match="No row of y has a label"):
        scdh.SCDHTransformer(bits=8, epochs=1).fit(X, np.full(200, missing if missing is not None else ""))


def test_classes_minus_one_and_one_are_asked_about(digits):
    X, y = digits[0][:100], np.where(digits[1][:100] > 4, 1, -1)
    with pytest.warns(UserWarning, match="y has one class and -1, which means no label"):
        HashTransformer("itq", bits=8).fit(X, y)


def test_verbose_prints_figures_of_epochs(digits, capsys):
    X, y = digits[0][:100], digits[1][:100]
    for verbose in (0, 1):
        scdh.SCDHTransformer(bits=8, epochs=3, verbose=verbose).fit(X, y)
        printed = capsys.readouterr()
        assert (printed.out, "epoch 1 " in printed.err, "epoch 3 " in printed.err) == ("", verbose, verbose)


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
    from scdh.training import fitting

    results, original = [], fitting.train_epochs

    def train_epochs(*args, **options):
        results.append(original(*args, **options))
        return results[-1]

    monkeypatch.setattr(fitting, "train_epochs", train_epochs)
    X, y = load_digits(return_X_y=True)
    estimator = scdh.HashTransformer("mt_scdh", bits=8, epochs=1).fit(X[:200], y[:200])
    assert results[0].student is not None
    assert estimator.hasher_.network is results[0].net is not results[0].student


@pytest.mark.parametrize("call", ["transform", "codes", "outputs"])
def test_an_estimator_that_was_not_fitted_says_so(call, digits):
    with pytest.raises(NotFittedError):
        getattr(SCDHTransformer(), call)(digits[0])


def test_lists_of_labels_are_as_the_matrix_of_them(digits):
    X, y = digits[0][:120], digits[1][:120]
    lists = [[f"d{label}", "even"] if label % 2 == 0 else [f"d{label}"] for label in y]
    lists[3] = []
    listed = SCDHTransformer(16, epochs=2).fit(X, lists)
    names = sorted({name for row in lists for name in row})
    assert listed.classes_.tolist() == names
    matrix = np.array([[name in row for name in names] for row in lists], np.uint8)
    plain = SCDHTransformer(16, epochs=2).fit(X, matrix)
    assert np.array_equal(listed.transform(X), plain.transform(X))
    assert listed.score(X[:20], lists[:20]) == plain.score(X[:20], matrix[:20])
    one_each = SCDHTransformer(16, epochs=2).fit(X, [[f"d{label}"] for label in y])
    assert one_each.classes_.tolist() == [f"d{label}" for label in range(10)]


def test_sparse_data_are_answered_with_what_helps(digits):
    sparse = csr_matrix(digits[0][:60])
    with pytest.raises(TypeError, match="TruncatedSVD"):
        SCDHTransformer().fit(sparse, digits[1][:60])
    fitted = HashTransformer("itq", 8).fit(digits[0][:60])
    with pytest.raises(TypeError, match="TruncatedSVD"):
        fitted.transform(sparse)
    with pytest.raises(DataError, match="not a sparse matrix"):
        fitted.hasher_.encode(sparse)


def test_a_frame_and_a_tensor_are_encoded_as_their_array(digits):
    X, model = digits[0][:60].astype(np.float32), HashTransformer("itq", 8).fit(digits[0][:60]).hasher_
    frame = pytest.importorskip("pandas").DataFrame(X)
    assert model.encode(frame) == model.encode(torch.from_numpy(X)) == model.encode(X)


def test_a_model_is_described_in_one_line(digits):
    model = HashTransformer("itq", 8).fit(digits[0][:60]).hasher_
    assert repr(model) == "Hasher(itq, 8 bits, no labels, embeddings of width 64)"


def test_estimators_and_train_share_their_number_of_bits():
    assert SCDHTransformer().bits == HashTransformer().bits == load_config().method.bits == 32
    assert inspect.signature(scdh.train).parameters["bits"].default == 32


def test_labels_in_the_place_of_another_argument_are_noticed(digits):
    with pytest.raises(ConfigError, match=r"labels=…"):
        scdh.train(digits[0], digits[1])
    codes = scdh.Codes.from_signs(digits[0][:4, :8])
    with pytest.raises(CodesError, match="The order is evaluate"):
        scdh.evaluate(codes, codes, digits[1][:4], digits[1][:4])

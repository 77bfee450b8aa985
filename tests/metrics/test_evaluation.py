"""Scores of codes and labels against slow, obvious twins, and labels that are names."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import scdh
from scdh.codes import Codes
from scdh.errors import CodesError, ConfigError, DataError
from scdh.evaluation import TIES, evaluate, evaluate_distances
from scdh.metrics.label_names import check_both_labels
from scdh.metrics.ranking import DENOMINATORS
from tests.reference import slow_metrics as slow

LENGTHS = [1, 7, 8, 12, 13, 48, 63, 64, 65, 128, 1000]


def small_case(seed, bits, many=False, queries=3, items=6):
    """Few items on few different codes: many ties, and few enough orders to try them all."""
    rng = np.random.default_rng(seed)
    centres = rng.random((3, bits)) < 0.5
    query, base = centres[rng.integers(0, 3, queries)], centres[rng.integers(0, 3, items)]
    if many:
        return query, rng.integers(0, 2, (queries, 4)), base, rng.integers(0, 2, (items, 4))
    return query, rng.integers(-1, 2, queries), base, rng.integers(-1, 2, items)


def expected_scores(case, topk, denominator, radius, alone=False):
    query, query_labels, base, base_labels = case
    rows = []
    for i in range(len(query)):
        levels = slow.levels_of(query[i], query_labels[i], base, base_labels, left_out=i if alone else None)
        mean, best, worst = slow.average_precisions(levels, topk, denominator)
        rows.append(
            {
                "expected": float(mean),
                "best": float(best),
                "worst": float(worst),
                "order": float(slow.in_row_order(levels, topk, denominator)),
                "precision": float(slow.precision_within_radius(levels, radius)[0]),
                "empty": slow.precision_within_radius(levels, radius)[1] == 0,
                "first 2": float(slow.precision_at_k(levels, 2)),
                "recall 2": float(slow.recall_at_k(levels, 2)),
            }
        )
    return {name: np.mean([row[name] for row in rows]) for name in rows[0]}


def as_codes(case):
    return Codes.from_signs(case[0]), case[1], Codes.from_signs(case[2]), case[3]


def assert_scores(scores, wanted, ties):
    assert scores.map == pytest.approx(wanted[ties], abs=1e-12)
    assert scores.map_best == pytest.approx(wanted["best"], abs=1e-12)
    assert scores.map_worst == pytest.approx(wanted["worst"], abs=1e-12)
    assert scores.precision_at_radius == pytest.approx(wanted["precision"])
    assert scores.empty_balls == pytest.approx(wanted["empty"])
    assert scores.precision_at_k(2) == pytest.approx(wanted["first 2"])
    assert scores.recall_at_k(2) == pytest.approx(wanted["recall 2"])


@pytest.mark.parametrize("bits", LENGTHS)
@pytest.mark.parametrize("many", [False, True])
def test_all_scores_equal_the_slow_ones(bits, many):
    for seed, topk in enumerate((None, 1, 3, 4, 50)):
        case = small_case(seed + bits, bits, many)
        denominator, ties = DENOMINATORS[seed % 3], TIES[seed % 4]
        scores = evaluate(*as_codes(case), topk=topk, denominator=denominator, radius=bits // 4, ties=ties)
        assert_scores(scores, expected_scores(case, topk, denominator, bits // 4), ties)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    many=st.booleans(),
    topk=st.none() | st.integers(1, 7),
    denominator=st.sampled_from(DENOMINATORS),
    ties=st.sampled_from(TIES),
)
def test_leave_one_out_equals_removing_the_row(seed, many, topk, denominator, ties):
    _, _, base, labels = small_case(seed, 12, many)
    case = base, labels, base, labels
    scores = evaluate(*as_codes(case), topk=topk, denominator=denominator, ties=ties, leave_one_out=True)
    assert_scores(scores, expected_scores(case, topk, denominator, 2, alone=True), ties)


def test_all_equal_codes_and_perfect_codes():
    same = Codes.from_signs(np.ones((4, 8)))
    scores = evaluate(same[:1], [0], same, [0, 1, 1, 1])
    assert scores.map == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 4) / 4)
    assert (scores.map_best, scores.map_worst) == pytest.approx((1.0, 0.25))
    perfect = evaluate(same, [3] * 4, same, [3] * 4)
    assert perfect.map == perfect.map_worst == perfect.precision_at_radius == pytest.approx(1)


def test_nothing_relevant_scores_zero_and_stays_in_the_mean():
    codes = Codes.from_signs(np.eye(4) - 0.5)
    labels = np.array([0, -1, 5, 1])
    scores = evaluate(codes, labels, codes, [0, -1, 2, -1], radius=0)
    assert scores.per_query["ap"].tolist() == [1, 0, 0, 0]
    assert scores.map == 0.25
    assert scores.per_query["relevant"].tolist() == [1, 0, 0, 0]
    for topk in (1, 3):
        for denominator in DENOMINATORS:
            assert evaluate(codes, labels, codes, [0, -1, 2, -1], topk=topk, denominator=denominator).map == 0.25
    nothing = evaluate(codes, np.zeros((4, 3)), codes, np.ones((4, 3), dtype=bool))
    assert nothing.map == nothing.map_best == nothing.precision_at_k(2) == 0


def test_empty_balls_score_zero_and_are_counted():
    query, base = Codes.from_signs([[1.0] * 8, [-1.0] * 8]), Codes.from_signs([[1.0] * 8])
    scores = evaluate(query, [0, 0], base, [0], radius=2)
    assert scores.precision_at_radius == 0.5
    assert scores.empty_balls == 0.5
    assert evaluate(query, [0, 0], base, [0], radius=100).empty_balls == 0


def test_one_row_left_out_of_one():
    codes = Codes.from_signs([[1.0, -1.0]])
    scores = evaluate(codes, [0], codes, [0], leave_one_out=True)
    assert scores.map == scores.precision_at_k(5) == 0
    assert scores.empty_balls == 1


def test_inputs_are_left_alone_and_kinds_of_labels_agree():
    case = small_case(3, 12, queries=4, items=20)
    labels = [case[1].copy(), case[3].copy()]
    for array in (*labels, case[1], case[3]):
        array.flags.writeable = False
    whole = evaluate(Codes.from_signs(case[0]), case[1], Codes.from_signs(case[2]), case[3], ties="order")
    assert np.array_equal(case[1], labels[0])
    assert np.array_equal(case[3], labels[1])
    hot = [np.eye(2)[np.maximum(y, 0)] * (y >= 0)[:, None] for y in labels]
    before = [array.copy() for array in hot]
    same = evaluate(Codes.from_signs(case[0]), hot[0], Codes.from_signs(case[2]), hot[1], ties="order")
    assert all(map(np.array_equal, hot, before))
    assert same.per_query["ap"].tolist() == whole.per_query["ap"].tolist()
    for kind in (float, np.int8, list):
        other = [y.tolist() if kind is list else y.astype(kind) for y in labels]
        again = evaluate(Codes.from_signs(case[0]), other[0], Codes.from_signs(case[2]), other[1], ties="order")
        assert again.map == whole.map


def test_the_result_says_what_it_is():
    case = as_codes(small_case(0, 12, queries=4, items=20))
    scores = scdh.evaluate(*case, topk=5, denominator="min(k, relevant)", radius=1, ties="worst")
    sizes = {"queries": 4, "database": 20, "bits": 12, "classes": None}
    chosen = {"topk": 5, "denominator": "min(k, relevant)", "radius": 1, "ties": "worst", "leave_one_out": False}
    words = scores.definition["words"]
    assert scores.definition == {**sizes, **chosen, "words": words}
    assert "first 5 items" in words
    assert "worst order" in words
    assert isinstance(scores, scdh.Scores)
    assert all(values.dtype == np.float64 and len(values) == 4 for values in scores.per_query.values())
    assert scores.map == pytest.approx(scores.per_query["ap"].mean())
    short = json.loads(json.dumps(scores.to_dict()))
    assert short["map"] == scores.map
    assert short["definition"]["words"] == words
    assert "per_query" not in short
    assert json.loads(json.dumps(scores.to_dict(per_query=True)))["per_query"]["ap"] == scores.per_query["ap"].tolist()
    assert "MAP@5" in str(scores)
    assert "4 queries, 20 items, 12 bits" in str(scores)
    with pytest.raises(AttributeError):
        scores.map = 1.0


def test_precision_at_k_for_one_and_for_many():
    case = as_codes(small_case(0, 12, queries=4, items=20))
    scores = evaluate(*case)
    one = scores.precision_at_k(3)
    assert isinstance(one, float)
    many = scores.precision_at_k([1, 3, 20, 21])
    assert many.shape == (4,)
    assert many[1] == one
    assert many[2] == many[3] == pytest.approx(scores.per_query["relevant"].mean() / 20)
    assert scores.recall_at_k(np.array([20]))[0] == pytest.approx(np.mean(scores.per_query["relevant"] > 0))
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ConfigError, match="k must be"):
            scores.precision_at_k(wrong)


def test_progress_goes_to_the_error_stream_of_a_terminal(capsys, monkeypatch):
    case = as_codes(small_case(0, 12))
    for ties in ("expected", "order"):
        assert evaluate(*case, progress=True, ties=ties).map == evaluate(*case, ties=ties).map
    assert capsys.readouterr() == ("", "")  # not a terminal
    monkeypatch.setenv("FORCE_COLOR", "1")
    for ties in ("expected", "order"):
        evaluate(*case, progress=True, ties=ties)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "scoring" in captured.err
        assert "pairs/s" in captured.err


CODES = Codes.from_signs(np.eye(3) - 0.5)
HOT = np.eye(3)


@pytest.mark.parametrize(
    ("data", "options", "kind", "words"),
    [
        ((CODES, [0, 1], CODES, [0, 1, 2]), {}, DataError, "query_labels .* 2 for 3"),
        ((CODES, [0, 1, 2], CODES, [0]), {}, DataError, "database_labels .* 1 for 3"),
        ((CODES, [0, 1, 2], CODES, HOT), {}, DataError, "same kind"),
        ((CODES, HOT, CODES, HOT[:, :2]), {}, DataError, "3 and 2"),
        ((CODES, [0, 1, 2.5], CODES, [0, 1, 2]), {}, DataError, "whole numbers"),
        ((CODES, [0, 1, np.nan], CODES, [0, 1, 2]), {}, DataError, "whole numbers"),
        ((CODES, [0, 1, -2], CODES, [0, 1, 2]), {}, DataError, "-1 for unlabelled"),
        ((CODES, HOT * 2, CODES, HOT), {}, DataError, "0 or 1"),
        ((CODES, HOT[:, :0], CODES, HOT), {}, DataError, "shape"),
        ((CODES, np.zeros((3, 1, 1)), CODES, HOT), {}, DataError, "shape"),
        ((CODES, ["a", "b", "c"], CODES, [0, 1, 2]), {}, DataError, "names for the queries and numbers"),
        ((CODES, [[0], [1, 2], [1]], CODES, [0, 1, 2]), {}, DataError, "query_labels"),
        ((CODES, [0, 1, 2], Codes.from_bits(np.eye(2)), [0, 1]), {}, CodesError, "2 bits, but 3"),
        ((CODES.unpack(), [0, 1, 2], CODES, [0, 1, 2]), {}, CodesError, "query_codes must be Codes"),
        ((CODES[:0], [], CODES, [0, 1, 2]), {}, DataError, "0 queries"),
        ((CODES, [0, 1, 2], CODES[:0], []), {}, DataError, "0 items"),
        ((CODES, [0, 1, 2], CODES, [0, 1, 2]), {"topk": 0}, ConfigError, "topk"),
        ((CODES, [0, 1, 2], CODES, [0, 1, 2]), {"topk": -1}, ConfigError, "None means all"),
        ((CODES, [0, 1, 2], CODES, [0, 1, 2]), {"radius": -1}, ConfigError, "radius"),
        ((CODES, [0, 1, 2], CODES, [0, 1, 2]), {"ties": "random"}, ConfigError, "order of ties"),
        ((CODES, [0, 1, 2], CODES, [0, 1, 2]), {"denominator": "all"}, ConfigError, "denominator"),
        ((CODES[:2], [0, 1], CODES, [0, 1, 2]), {"leave_one_out": True}, DataError, "2 queries and 3 items"),
        ((CODES[::-1], [0, 1, 2], CODES, [0, 1, 2]), {"leave_one_out": True}, DataError, "differ"),
        ((CODES, [0, 1, 1], CODES, [0, 1, 2]), {"leave_one_out": True}, DataError, "differ"),
    ],
)
def test_mistakes_get_one_sentence(data, options, kind, words):
    with pytest.raises(kind, match=words) as caught:
        evaluate(*data, **options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


RNG = np.random.default_rng(0)
QUERIES, DATABASE = (Codes.from_signs(RNG.normal(size=(count, 12))) for count in (15, 40))
QUERY_NUMBERS, DATABASE_NUMBERS = RNG.integers(-1, 4, 15), RNG.integers(-1, 4, 40)
NAMES = np.array(["ant", "bee", "cat", "dog", ""])  # the last is what −1 points to


def name_forms(numbers):
    names = NAMES[numbers]
    yield names
    yield names.astype("S")
    yield names.tolist()
    yield tuple(names)
    yield [name or None for name in names.tolist()]
    yield [name or -1 for name in names.tolist()]
    yield np.array([name or -1 for name in names.tolist()])  # "-1" as text
    yield np.array([name or None for name in names.tolist()], dtype=object)
    yield np.array([name or float("nan") for name in names.tolist()], dtype=object)


def test_names_score_as_numbers_do():
    expected = evaluate(QUERIES, QUERY_NUMBERS, DATABASE, DATABASE_NUMBERS)
    for query in name_forms(QUERY_NUMBERS):
        for database in name_forms(DATABASE_NUMBERS):
            scores = evaluate(QUERIES, query, DATABASE, database)
            np.testing.assert_array_equal(scores.per_query["ap"], expected.per_query["ap"])
            assert (scores.map, scores.definition) == (expected.map, expected.definition)
    distances = RNG.normal(size=(15, 40))
    by_name = evaluate_distances(distances, NAMES[QUERY_NUMBERS], NAMES[DATABASE_NUMBERS])
    assert by_name.map == evaluate_distances(distances, QUERY_NUMBERS, DATABASE_NUMBERS).map
    own = evaluate(DATABASE, NAMES[DATABASE_NUMBERS], DATABASE, NAMES[DATABASE_NUMBERS], leave_one_out=True)
    assert own.map == evaluate(DATABASE, DATABASE_NUMBERS, DATABASE, DATABASE_NUMBERS, leave_one_out=True).map


def test_pandas_columns():
    pd = pytest.importorskip("pandas")
    names = [name or None for name in NAMES[DATABASE_NUMBERS].tolist()]
    expected = evaluate(QUERIES, QUERY_NUMBERS, DATABASE, DATABASE_NUMBERS).map
    for kind in ("object", "string", "category"):
        assert evaluate(QUERIES, NAMES[QUERY_NUMBERS], DATABASE, pd.Series(names, dtype=kind)).map == expected


def test_lists_of_names_score_as_multi_hot():
    query_hot, database_hot = (RNG.random((count, 4)) < 0.4 for count in (15, 40))
    expected = evaluate(QUERIES, query_hot, DATABASE, database_hot)
    query, database = ([NAMES[np.flatnonzero(row)].tolist() for row in hot] for hot in (query_hot, database_hot))
    scores = evaluate(QUERIES, query, DATABASE, database)
    np.testing.assert_array_equal(scores.per_query["ap"], expected.per_query["ap"])
    padded = np.array([[*row, "", "", "", ""][:4] for row in query])  # as an array: "" where there is no more
    np.testing.assert_array_equal(
        evaluate(QUERIES, padded, DATABASE, [set(row) or None for row in database]).per_query["ap"],
        expected.per_query["ap"],
    )
    one_each = evaluate(QUERIES, NAMES[QUERY_NUMBERS], DATABASE, database)  # one name against lists
    hot = np.zeros((15, 4), bool)
    hot[np.flatnonzero(QUERY_NUMBERS >= 0), QUERY_NUMBERS[QUERY_NUMBERS >= 0]] = True
    assert one_each.map == evaluate(QUERIES, hot, DATABASE, database_hot).map


def test_names_are_united():
    query, database = check_both_labels(["b", "z"], 2, ["c", "b", "a"], 3)
    assert (query.tolist(), database.tolist()) == ([1, 3], [2, 1, 0])
    query, database = check_both_labels([["b"], []], 2, ["", None], 2)
    assert (query.tolist(), database.tolist()) == ([[True], [False]], [[False], [False]])
    query, database = check_both_labels([None, ""], 2, [None], 1)
    assert (query.tolist(), database.tolist()) == ([-1, -1], [-1])


@pytest.mark.parametrize(
    ("query", "database", "message"),
    [
        (["a", 3], ["a", "b"], "query_labels must be all names or all numbers, but hold names and 3"),
        (["a", "b"], [0, 1], "names for both or numbers for both, got names for the queries and numbers for the datab"),
        ([0, 1], ["a", "b"], "got numbers for the queries and names for the database"),
        ([["a"], [4]], ["a", "b"], "query_labels must be all names or all numbers, but hold names and 4"),
        (["a", ["b"], 2.5], ["a", "b"], "query_labels must be all names or all numbers, but hold names and 2.5"),
        (["a"], ["a", "b"], "query_labels must be one per item: there are 1 for 2 items"),
        ([[1, 0], [1]], ["a", "b"], "got numbers for the queries and names"),
        ([[1, 0], [1]], [[1, 0], [1, 0]], "query_labels must be an array of shape"),
    ],
)
def test_mixtures_get_one_sentence(query, database, message):
    codes = Codes.from_bits([[0, 1], [1, 1]])
    with pytest.raises(DataError, match=message):
        evaluate(codes, query, codes, database)

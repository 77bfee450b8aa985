"""Names as labels: the same scores as with numbers, and one sentence for mixtures."""

import numpy as np
import pytest

from scdh import Codes, evaluate
from scdh.errors import DataError
from scdh.evaluation import evaluate_distances
from scdh.metrics.label_names import check_both_labels

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

"""Parts of pages: charts are well-formed SVG with any numbers; confusions and chosen queries against plain loops."""

import math
import re
from collections import Counter
from xml.etree import ElementTree

import numpy as np
import pytest

from scdh.experiments.pages.charts import Line, bar_chart, line_chart
from scdh.experiments.pages.label_texts import label_text, short_names
from scdh.experiments.report import confusions as module
from scdh.experiments.report.confusions import NO_LABEL_NAME, find_confusions, shares_a_label
from scdh.experiments.report.page import choose_queries

pytest.importorskip("matplotlib")

HOSTILE = '<script>alert("x")</script> & "quotes"'


def texts_of(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("text")]


def test_lines_keep_their_points_and_texts_are_escaped():
    lines = [
        Line(HOSTILE, [1, 10, 100], [0.0, 0.5, 1.0], "#123456"),
        Line("b", [1, 100], [math.nan, 0.2], "#654321", "--"),
    ]
    svg = line_chart(HOSTILE, lines, x_label="k", y_label="$y", log_x=True, y_range=(0, 1))
    assert "<script>" not in svg
    assert {HOSTILE, "b", "k", "$y", "1", "10", "100"} <= set(texts_of(svg))
    paths = [element for element in ElementTree.fromstring(svg).iter("path") if "#123456" in element.get("style", "")]
    xs = [float(x) for x in re.findall(r"[ML] ([\d.]+)", paths[0].get("d"))]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)  # powers of ten are equally far apart
    uses = [element.get("style") for element in ElementTree.fromstring(svg).iter("use")]
    assert any("#654321" in style for style in uses)  # the marker of a line of one point


@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0], [0.0, 0.0], [1e-9, 1e9], [-5.0, 5.0]])
def test_any_numbers_can_be_drawn(values):
    svg = line_chart("t", [Line("a", list(range(1, len(values) + 1)), values)], x_label="x", y_label="y")
    assert "nan" not in svg
    ElementTree.fromstring(svg)
    ElementTree.fromstring(bar_chart("t", [abs(value) for value in values], x_label="x", y_label="y"))


def test_nothing_to_draw_is_an_empty_text():
    assert line_chart("t", [Line("a", [1.0], [math.nan])], x_label="x", y_label="y") == ""
    assert bar_chart("t", [], x_label="x", y_label="y") == ""


def test_labels_of_columns_are_shown_by_value():
    assert short_names(["kind=pear", "sort=Anjou", "kind=x", "sort=x"]) == ["pear", "Anjou", "kind=x", "sort=x"]
    assert short_names(["a=b", "plain"]) == ["a=b", "plain"]
    assert label_text([]) == ""
    assert label_text(["kind=orange", "sort=orange"]) == "orange"


NAMES = ["apple", "pear", "plum", "fig"]


def as_sets(labels):
    if labels.ndim == 1:
        return [set() if number < 0 else {NAMES[number]} for number in labels]
    return [{NAMES[n] for n in np.flatnonzero(row)} for row in labels]


@pytest.fixture(params=["single", "multi"])
def case(request, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 3)
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    rng = np.random.default_rng(0)
    if request.param == "single":
        queries, database = rng.integers(-1, 3, 20), rng.integers(-1, 4, 50)
    else:
        queries, database = ((rng.random((n, 4)) < 0.35).astype(np.uint8) for n in (20, 50))
    hits = np.array([rng.choice(50, 6, replace=False) for _ in range(20)])
    return queries, database, hits, rng.random(20)


def test_pairs_labels_and_heat_agree_with_loops(case):
    queries, database, hits, ap = case
    asked, held = as_sets(queries), as_sets(database)
    pairs = Counter()
    for query, positions in zip(asked, hits, strict=True):
        for position in positions:
            if not query & held[position]:
                for one in query:
                    for other in held[position] or {NO_LABEL_NAME}:
                        pairs[one, other] += 1
    found = find_confusions(queries, database, NAMES, hits, ap)
    assert {(pair.query, pair.found): pair.count for pair in found.pairs} == pairs
    assert found.pair_count == len(pairs)
    counts = [pair.count for pair in found.pairs]
    assert counts == sorted(counts, reverse=True)
    for label in found.labels:
        own = [n for n, query in enumerate(asked) if label.name in query]
        assert label.queries == len(own)
        assert label.map == pytest.approx(ap[own].mean())
        assert label.items == sum(label.name in item for item in held)
        right = [bool(asked[n] & held[position]) for n in own for position in hits[n]]
        assert label.right == pytest.approx(np.mean(right))
    assert [label.map for label in found.labels] == sorted(label.map for label in found.labels)
    for row, one in enumerate(found.names):
        own = [n for n, query in enumerate(asked) if one in query]
        for column, other in enumerate(found.names):
            has = [
                other in held[position] and (one == other or not asked[n] & held[position])
                for n in own
                for position in hits[n]
            ]
            assert found.shares[row, column] == pytest.approx(np.mean(has))


def test_shared_labels_agree_with_sets(case):
    queries, database, hits, _ = case
    asked, held = as_sets(queries), as_sets(database)
    expected = [[bool(asked[n] & held[position]) for position in row] for n, row in enumerate(hits)]
    assert shares_a_label(queries, database, hits).tolist() == expected


def test_thousands_of_labels_give_short_tables():
    rng = np.random.default_rng(0)
    labels = np.arange(4000)
    found = find_confusions(
        labels, labels, [f"label {n}" for n in labels], rng.integers(0, 4000, (4000, 10)), rng.random(4000)
    )
    assert (len(found.labels), found.label_count, len(found.pairs)) == (30, 4000, 12)
    assert found.names == []


def test_queries_are_the_worst_then_the_middle_then_the_best():
    ap = np.linspace(0, 1, 101)
    labels = np.arange(101) % 25
    chosen = choose_queries(ap, np.ones(101), labels)
    assert [query.why for query in chosen] == ["worst"] * 6 + ["middle"] * 3 + ["best"] * 3
    assert [query.position for query in chosen[:6]] == [0, 1, 2, 3, 4, 5]
    assert [query.position for query in chosen[9:]] == [98, 99, 100]
    assert all(abs(query.position - 50) <= 2 for query in chosen[6:9])


def test_queries_are_of_different_labels_where_there_are_enough():
    ap = np.linspace(0, 1, 60)
    labels = np.repeat(np.arange(6), 10)
    chosen = choose_queries(ap, np.ones(60), labels)
    assert sorted(labels[query.position] for query in chosen[:6]) == [0, 1, 2, 3, 4, 5]
    alike = choose_queries(ap, np.ones(60), np.zeros(60, np.int64))
    assert [query.position for query in alike[:6]] == [0, 1, 2, 3, 4, 5]
    assert len({query.position for query in alike}) == len(alike) == 12


def test_queries_without_a_relevant_item_are_not_shown():
    assert choose_queries(np.zeros(3), np.zeros(3), np.arange(3)) == []
    (only,) = choose_queries(np.zeros(3), np.array([0, 4, 0]), np.arange(3))
    assert (only.position, only.why) == (1, "worst")

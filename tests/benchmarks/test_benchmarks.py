"""The benchmarks run at toy size, and what they check before they time can really fail. Nothing here is about speed."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import (
    agreement,
    cost,
    curves,
    evaluation,
    faiss_rival,
    first_search,
    made_up,
    outputs,
    quantised,
    radius,
    report,
    scale,
    search,
    serve,
)
from benchmarks.argsort_way import ArgsortWay
from benchmarks.evaluation import Protocol
from benchmarks.timing import Table, cell
from scdh.codes import Codes
from scdh.index import HammingIndex, Hits, RaggedHits, set_threads

SEARCH = search.Plan(
    sizes=(300, 600),
    bits=((12, 16), (12, 32), (64, 64)),
    ks=(1, 10),
    middle=600,
    queries=6,
    singles=2,
    turns=1,
    warm=False,
)
RADIUS = radius.Plan(sizes=(2000,), try_settings_up_to=2000, batches=2, queries=10, scanned=4, warm=False)
EVALUATION = evaluation.Plan(
    protocols=(Protocol("one label", 6, 200, 3, bits=12), Protocol("many", 6, 200, 21, topk=50, many_labels=True)),
    growth=(100, 200),
    growth_queries=6,
    rival_queries=3,
    turns=1,
    large=(),
    warm=False,
)

COST = cost.Plan(
    bits=12,
    classes=(3, 5),
    batches=(8, 16, 32),
    compared_at=(8, 16),
    stored=40,
    sizes=(20, 40, 80),
    batch=16,
    epochs_compared_at=(20, 80),
    longest=1e9,
    turns=2,
    window=0.0,
)


@pytest.fixture(autouse=True)
def same_threads_afterwards():
    yield
    set_threads(None)


def measured(module, plan):
    tables = module.measure(plan) if module is cost else module.measure(plan, 1)
    for table in tables:
        assert table.rows, table.heading
        assert all(list(row) == list(table.rows[0]) for row in table.rows)
        numbers = [value for row in table.rows for value in row.values() if isinstance(value, float)]
        assert np.isfinite(numbers).all()
    return {table.heading: table for table in tables}


@pytest.mark.slow
def test_sections_give_rows_a_report_and_pictures(tmp_path):
    tables_of = {"search": measured(search, SEARCH), "radius": measured(radius, RADIUS)}
    tables_of["scale"] = measured(scale, scale.Plan(items=4000, shard=1000, queries=(1, 2)))
    tables_of["first"] = measured(first_search, first_search.Plan(works=((700, 6),), turns=1, seconds=0.2))
    tables_of["quantised"] = measured(quantised, quantised.Plan(items=700, bits=(16, 48), queries=5, turns=1))
    tables_of["evaluation"], tables_of["cost"] = measured(evaluation, EVALUATION), measured(cost, COST)
    # By size, by other k, by other bits, clustered; single queries by size and with one thread.
    assert len(tables_of["search"][report.BATCH].rows) == 2 + 1 + 2 + 1
    assert len(tables_of["search"][report.SINGLE].rows) == 2 + 1
    assert [row["bits"] for row in tables_of["search"][outputs.HEADING].rows] == [12, 48, 64, 128]
    first = tables_of["first"][first_search.HEADING].rows
    assert [(row["process"][:5], row["queries a call"]) for row in first] == [("scdh,", 6), ("scdh", 6), ("faiss", 6)]
    assert all(row["slowest call, ms"] >= row["first call, ms"] > 0 for row in first)
    assert {"faiss, ms", "scdh, ms", "times faster"} <= set(tables_of["search"][report.BATCH].rows[0])
    assert {"faster than the scan", "faster than faiss"} <= set(tables_of["radius"][report.WITHIN].rows[0])
    assert len(tables_of["radius"][report.NEAREST].rows) == 2
    assert {"argsort way, s", "scdh, s", "times faster"} <= set(tables_of["evaluation"][report.AGAINST].rows[0])
    assert {"peak, MB", "scdh, G pairs/s"} <= set(tables_of["evaluation"][report.FIRST_CALL].rows[0])

    assert len(tables_of["cost"][report.PER_STEP].rows) == 2 * 3
    assert len(tables_of["cost"][cost.STEP_GROWTH].rows) == 2 * 5
    assert [row["items"] for row in tables_of["cost"][report.PER_EPOCH].rows] == [20, 40, 80]
    assert {"times SCUL's at 8", "times SCUL's at 16"} <= set(tables_of["cost"][cost.STEP_GROWTH].rows[0])

    for section, tables in tables_of.items():
        results = report.keep(tmp_path, section, list(tables.values()), 1, quick=True)
    assert {path.name for path in curves.draw(results, tmp_path)} == set(report.FIGURES.values())
    moved = [table for tables in tables_of.values() for table in tables.values()]
    kept = report.keep(tmp_path, "search", [*tables_of["search"].values(), moved[-1]], 1, quick=True)
    (run,) = kept["cost"].values()
    assert moved[-1].heading not in [table["heading"] for table in run["tables"]]  # a table is in one section only
    text = report.write(tmp_path, results, tmp_path)
    assert all(table.about in text for tables in tables_of.values() for table in tables.values())
    assert "](search_speed.png)" in text


@pytest.mark.slow
def test_the_service_is_measured_next_to_its_rivals():
    """Two processes start for it, and answer; figures of so short a run say nothing."""
    plan = serve.Plan(2000, 16, "small_conv", 40, connections=(2,), seconds=0.3)
    tables = measured(serve, plan)
    codes, pictures = tables[serve.CODES].rows, tables[serve.PICTURES].rows
    assert [row["who"] for row in codes] == ["the index itself", serve.RIVAL, serve.OURS]
    assert [row["who"] for row in pictures] == [serve.RIVAL, serve.OURS]
    assert all(row["errors"] == 0 and row["requests/s"] > 0 for row in codes + pictures)
    assert codes[0]["times the first row"] == 1.0


def test_running_one_section_again_keeps_the_others(tmp_path):
    report.keep(tmp_path, "scale", [Table("x", "old", [{"n": 1, "ratio": 0.5}])], 2, quick=False)
    report.keep(tmp_path, "search", [Table("y", "first", [{"n": 1234567, "ratio": 0.12345}])], 2, quick=False)
    results = report.keep(
        tmp_path, "search", [Table("y", "second", [{"n": 1234567, "ratio": 0.12345}])], 2, quick=False
    )
    assert results == json.loads((tmp_path / "results.json").read_text())
    assert list(results) == ["search", "scale"]
    text = report.write(tmp_path, results, tmp_path)
    assert "second" in text
    assert "first" not in text
    assert "old" in text
    # Results of the same section on another processor are kept.
    (run,) = results["search"].values()
    other = {**run, "machine": "Other, 8 cores, NEON; numpy 1"}
    (tmp_path / "results.json").write_text(json.dumps({"search": {"Other, 8 cores, NEON": other}}))
    results = report.keep(tmp_path, "search", [Table("y", "third", [{"n": 5, "ratio": 0.5}])], 2, quick=False)
    text_of_both = report.write(tmp_path, results, tmp_path)
    assert "### Other, 8 cores, NEON\n" in text_of_both
    assert "second" in text_of_both
    assert "third" in text_of_both
    assert "| 1,234,567 | 0.123 |" in text
    assert cell(98765.4) == "98,765"


@pytest.fixture
def nearest():
    database, queries = made_up.uniform(300, 16, seed=1), made_up.uniform(4, 16, seed=2)
    return HammingIndex(database).search(queries, 20), queries, database


def test_nearest_must_agree(nearest):
    hits, queries, database = nearest
    shuffled = np.random.default_rng(0).permutation(20)
    rival = hits.distances[:, shuffled], hits.ids[:, shuffled]
    agreement.same_nearest(hits, *rival)
    agreement.in_order(hits)
    agreement.true_distances(hits, queries, database)

    # Another item at the k-th distance is a matter of ties; a nearer one is not.
    tied, wrong = hits.ids.copy(), hits.ids.copy()
    tied[:, -1], wrong[:, 0] = 999, 999
    agreement.same_nearest(hits, hits.distances, tied)
    with pytest.raises(agreement.Disagreement, match="ids"):
        agreement.same_nearest(hits, hits.distances, wrong)
    farther = hits.distances.copy()
    farther[0, -1] += 1
    with pytest.raises(agreement.Disagreement, match="distances"):
        agreement.same_nearest(hits, farther, hits.ids)
    with pytest.raises(agreement.Disagreement, match="another distance than the one returned"):
        agreement.true_distances(Hits(hits.ids, farther), queries, database)
    with pytest.raises(agreement.Disagreement, match="ordered"):
        agreement.in_order(Hits(hits.ids[:, ::-1], hits.distances))


def test_within_must_agree():
    database, queries, rows = made_up.planted(2000, 64, 5, seed=1)
    hits = HammingIndex(database).within(queries, 2)
    assert hits.counts.tolist() == [10] * 5
    assert hits.distances.tolist() == made_up.PLANTED.tolist() * 5
    limits = np.arange(0, 60, 10)
    agreement.same_within(hits, limits, hits.distances, hits.ids)
    agreement.has_all_rows(hits, rows)
    with pytest.raises(agreement.Disagreement, match="items within"):
        agreement.same_within(hits, limits, hits.distances, hits.ids + 1)
    with pytest.raises(agreement.Disagreement, match="numbers"):
        agreement.same_within(hits, np.array([0, 9, 20, 30, 40, 50]), hits.distances, hits.ids)
    nothing = RaggedHits(np.zeros(5, np.int64), hits.ids[:0], hits.distances[:0])
    with pytest.raises(agreement.Disagreement, match="planted"):
        agreement.has_all_rows(nothing, rows)


@pytest.mark.parametrize("setting", faiss_rival.RADIUS_2_SETTINGS)
def test_faiss_is_exact_with_the_settings_it_gets_and_not_with_less(setting):
    database, queries, _ = made_up.planted(20_000, 64, 300, seed=3)
    hits = HammingIndex(database).within(queries, 2)
    agreement.same_within(hits, *faiss_rival.within(faiss_rival.multi_hash(database, setting), queries.packed, 2))
    less = faiss_rival.multi_hash(database, (2, 32, 0))
    with pytest.raises(agreement.Disagreement):
        agreement.same_within(hits, *faiss_rival.within(less, queries.packed, 2))


def test_average_precision_must_agree():
    codes = Codes.from_bits([[0, 0], [0, 1], [1, 1], [1, 1]])
    rival = ArgsortWay(codes[:1], np.array([4]), codes, np.array([4, 9, 4, 4]))
    value = rival.average_precision(kind="stable")
    assert value == pytest.approx([(1 + 2 / 3 + 3 / 4) / 3])
    assert rival.average_precision(topk=3, kind="stable") == pytest.approx([(1 + 2 / 3) / 2])
    agreement.between(value, value, value)
    agreement.same_values(value, value + 1e-7)
    for worst, best in ((value + 1e-3, value + 1), (value - 1, value - 1e-3)):
        with pytest.raises(agreement.Disagreement):
            agreement.between(value, worst, best)
    with pytest.raises(agreement.Disagreement):
        agreement.same_values(value, value + 1e-5)


def test_a_wrong_search_stops_the_benchmark(monkeypatch):
    right = HammingIndex.search

    def wrong(self, *args, **options):
        hits = right(self, *args, **options)
        return Hits(hits.ids, hits.distances + 1)

    monkeypatch.setattr(HammingIndex, "search", wrong)
    with pytest.raises(agreement.Disagreement):
        search.measure(SEARCH, 1)


def test_every_benchmark_can_be_imported():
    for file in Path(serve.__file__).parent.glob("[a-z]*.py"):
        importlib.import_module(f"benchmarks.{file.stem}")

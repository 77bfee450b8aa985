"""Means over seeds, the page made of them, and what a method learns beyond the plain network."""

from pathlib import Path
from typing import Any

import pytest

from scdh.config import load_config
from scdh.experiments.compare.cell import _training_facts
from scdh.experiments.compare.conditions import definitions_text
from scdh.experiments.compare.page import write_page
from scdh.experiments.compare.results import CellResult, ComparisonResults, SummaryRow
from scdh.experiments.compare.run import common_definition
from scdh.experiments.compare.summary import seconds_to, shared_target, summarise
from scdh.experiments.compare.tables import _weights, format_score
from scdh.model.hasher import Hasher
from scdh.training.optim import count_learned
from tests.experiments.comparisons import read_json

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def result(method: str, seed: int, score: float, *curve: tuple[float, float], failed: str | None = None) -> CellResult:
    return CellResult(
        method=method,
        title=method.upper(),
        bits=8,
        seed=seed,
        cell=f"{method}-8-{seed}",
        student=False,
        failed=failed,
        seconds=3.0,
        epochs=2,
        map=score,
        validation=list(curve),
    )


def test_a_length_of_its_own_is_in_the_title_of_all_rows_of_a_method() -> None:
    def titles(*cells: CellResult) -> list[str]:
        return [row.title for row in summarise(cells, None)]

    asked, longer = result("own", 0, 0.5), result("own", 0, 0.5).model_copy(update={"bits": 16})
    of_eight, of_ten = longer.model_copy(update={"code_bits": 8}), asked.model_copy(update={"code_bits": 10})
    failed = result("own", 1, 0.5, failed="It diverged.")
    assert titles(asked, longer) == ["OWN", "OWN"]
    assert titles(failed, asked, of_eight) == ["OWN (8 bits)"] * 2  # also where that length was asked for
    assert titles(of_ten) == ["OWN (10 bits)"]
    assert titles(of_ten, longer) == ["OWN", "OWN"]  # two lengths, so none is that of the whole line
    assert titles(failed) == ["OWN"]


def test_target_and_times() -> None:
    slow = result("slow", 0, 0.5, (1.0, 0.3), (2.0, 0.619), (3.0, 0.6))
    late = result("slow", 1, 0.7, (1.0, 0.1), (4.0, 0.65))
    fast = result("fast", 0, 0.9, (1.0, 0.7), (2.0, 0.9))
    fitted, failed = result("fitted", 0, 0.4), result("fast", 1, 0.1, failed="It diverged.")
    assert shared_target([slow, fast, fitted]) == 0.58  # 95 % of 0.619
    assert shared_target([slow, late, fast]) == 0.6  # of the mean over seeds, 0.6345
    collapsed = result("collapsed", 0, 0.1, (1.0, 0.44))
    assert shared_target([slow, fast, collapsed]) == 0.58  # less than half of 0.9
    assert seconds_to(collapsed, 0.58) is None
    assert shared_target([fitted, failed]) is None
    assert seconds_to(slow, 0.61) == 2.0
    assert seconds_to(fast, 0.61) == 1.0
    assert seconds_to(slow, 0.7) is None
    assert seconds_to(fitted, 0.1) is None
    assert seconds_to(slow, None) is None
    rows = {row.method: row for row in summarise([slow, late, fast, fitted, failed], 0.61)}
    assert list(rows) == ["fast", "slow", "fitted"]
    assert rows["slow"].seconds_to_target == 3.0
    assert rows["slow"].map == pytest.approx(0.6)
    assert rows["slow"].map_std == pytest.approx(0.02**0.5)
    assert (rows["fast"].runs, rows["fast"].failed, rows["fast"].map_std) == (1, 1, None)
    assert format_score(rows["fast"], "map") == "0.900 (1 failed)"
    assert format_score(rows["slow"], "map") == "0.600 ± 0.141"
    assert (format_score(None, "map"), format_score(summarise([failed], None)[0], "map")) == ("–", "failed")
    partly = summarise([slow, late], 0.64)[0]
    assert (partly.seconds_to_target, partly.reached_target) == (None, 1)  # a mean of one of two would mislead


def test_methods_are_sorted_by_the_lengths_that_all_have() -> None:
    """Longer codes score higher, which must not favour a method that has no short ones."""
    better, longer = result("better", 0, 0.8), result("better", 0, 0.9).model_copy(update={"bits": 16})
    only_longer = result("longer", 0, 0.87).model_copy(update={"bits": 16})
    rows = summarise([only_longer, better, longer], None)
    assert [(row.method, row.bits) for row in rows] == [("better", 8), ("better", 16), ("longer", 16)]
    rows = summarise([better, only_longer], None)  # no length in common: by what there is
    assert [row.method for row in rows] == ["longer", "better"]


def test_a_method_that_ranks_by_another_distance_has_no_radius() -> None:
    """It did not fail there, and its definition is listed with the others'."""
    hamming, other = result("itq", 0, 0.5), result("own", 0, 0.6)
    hamming = hamming.model_copy(update={"precision_at_radius": 0.4, "definition": {"radius": 2, "words": "Hamming."}})
    other = other.model_copy(update={"definition": {"words": "Weighted."}})
    rows = {row.method: row for row in summarise([hamming, other], None)}
    assert format_score(rows["own"], "precision_at_radius") == "–"
    assert format_score(rows["itq"], "precision_at_radius") == "0.400"
    assert common_definition([other, hamming]) == hamming.definition
    assert definitions_text([other, hamming]) == "OWN: Weighted. ITQ: Hamming."
    assert definitions_text([hamming, hamming]) == "Hamming."


@pytest.mark.slow
def test_results_are_read_back_as_written(compared: Path, tmp_path: Path) -> None:
    results = ComparisonResults.read(compared)
    assert results.to_json() == read_json(compared / "compare.json")
    assert results.write(tmp_path).read_bytes() == (compared / "compare.json").read_bytes()


@pytest.mark.slow
def test_the_page_is_one_file_and_names_are_escaped(compared: Path, tmp_path: Path) -> None:
    content = read_json(compared / "compare.json")
    content["data"]["name"] = "<script>x</script>|*photos*"
    content["methods"] += [f"more{n}" for n in range(20)]
    for n in range(20):  # more methods than colours
        content["rows"] += [{**row, "method": f"more{n}", "title": f"<M{n}> & $x$"} for row in content["rows"][:2]]
    files = write_page(ComparisonResults.model_validate(content), tmp_path)
    page, text = (tmp_path / "compare.html").read_text("utf-8"), (tmp_path / "compare.md").read_text("utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;x&lt;/script&gt;|*photos*" in page
    assert "&lt;script>x&lt;/script>\\|\\*photos\\*" in text
    assert "&lt;M3&gt; &amp;" in page
    assert "http" not in page
    assert page.count("<svg") == 4
    assert {path.name for path in files} == {
        *("compare.md", "compare.html", "map.svg", "precision.svg", "validation.svg", "cost.svg")
    }
    svg = (tmp_path / "plots/map.svg").read_text("utf-8")
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert "var(--" not in svg
    assert "MT-SCDH (student)" in svg
    for cut in ({"cells": [], "target": None}, {"rows": [], "cells": [], "definition": None, "target": None}):
        write_page(
            ComparisonResults.model_validate(content | cut), tmp_path
        )  # Nothing to draw is not an error, and an old plot is removed.
        assert not (tmp_path / "plots/validation.svg").exists()
    assert not list((tmp_path / "plots").iterdir())


HIDDEN, BITS, CLASSES = 8, 16, 10
PLAIN = 64 * HIDDEN + HIDDEN + HIDDEN * BITS + BITS
CLASSIFIER = HIDDEN * CLASSES + CLASSES
BEYOND = {
    "dpsh": 0,
    "hashnet": 0,
    "greedyhash": BITS * CLASSES,
    "scdh": CLASSIFIER + BITS * CLASSES,  # fc8 and centres
    "orthohash": BITS,  # batch-norm has a scale and a shift for each bit, in place of the bias
    "ninh": HIDDEN * 50 * BITS + 50 * BITS + 50 * BITS + BITS - (HIDDEN * BITS + BITS),  # 50 units for each bit
    "dqn": HIDDEN * 300 + 300 - (HIDDEN * BITS + BITS),  # a bottleneck of 300
    "cls_onehot": CLASSIFIER - (HIDDEN * BITS + BITS),  # one output a class in place of one a bit
    "cls_lsh": CLASSIFIER - (HIDDEN * BITS + BITS),  # a classifier is all that learns
}


def digits(method: str) -> Any:
    settings = {"method.name": method, "method.bits": BITS, "net.hidden": [HIDDEN], "train.epochs": 1}
    return load_config(preset="demo-digits", overrides=settings)


@pytest.mark.parametrize("method", BEYOND)
def test_what_a_method_learns_beyond_the_plain_network(method: str) -> None:
    hasher = Hasher.build(digits(method), [str(n) for n in range(CLASSES)], False, 64)
    learned = count_learned(hasher.network, hasher.method)
    assert learned == {"all": PLAIN + BEYOND[method], "plain": PLAIN}
    assert _training_facts({"learned_weights": learned})["own_weights"] == BEYOND[method]


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (7630, "+7,630"), (-9234, "−9,234"), (None, "–")])
def test_the_table_tells_more_from_fewer(number: int | None, text: str) -> None:
    row = SummaryRow.model_construct(learned_weights=672_288, own_weights=number)
    assert _weights(row) == ["672,288", text]

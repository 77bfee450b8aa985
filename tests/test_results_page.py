"""docs/results.md is made from the files of a reproduction, is up to date, and states the scale of every number."""

import importlib.util
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scdh.experiments.reproduce.report import RESULTS_FILE
from scdh.storage.json_files import read_table

SCRIPT = Path(__file__).parents[1] / "docs" / "make_results.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_results", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: Any) -> None:
    assert script.PAGE.read_text("utf-8") == script.render(), "run `python docs/make_results.py`"


def test_no_number_of_the_paper_stands_without_the_scale_of_ours(script: Any) -> None:
    content = read_table(script.PAGE.with_suffix("") / RESULTS_FILE, "results", "")
    scale = f"scale {content['scale']}"
    tables = [block for block in content["blocks"] if any("paper" in name for name in block.get("columns", []))]
    assert len(tables) >= 2
    for block in tables:
        assert f"Ours: {scale}" in block["note"]
        assert "Paper: Zhang" in block["note"]
        ours = [name for name in block["columns"] if name.startswith("ours")]
        assert ours
        assert all(scale in name for name in ours)
        # A difference is shown only where the data are the paper's.
        assert ("mean difference" in block["columns"]) <= ("no difference is shown" not in block["note"])


def test_every_claim_has_outcome_evidence_and_rule(script: Any) -> None:
    content = read_table(script.PAGE.with_suffix("") / RESULTS_FILE, "results", "")
    for claim in content["claims"]:
        assert claim["outcome"] in ("holds", "does not hold", "not tested at this scale")
        assert claim["evidence"]
        assert claim["rule"]


def test_every_figure_and_file_of_the_page_exists(script: Any) -> None:
    links = re.findall(r"\]\((results/[^)]+)\)", script.PAGE.read_text("utf-8"))
    assert len(links) > 10
    for link in links:
        assert (script.PAGE.parent / link).is_file()
        if link.endswith(".svg"):
            ElementTree.parse(script.PAGE.parent / link)

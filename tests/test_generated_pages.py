"""Pages that scripts in docs make are up to date; docs/architecture.md tells what the code does."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import scdh
from scdh.cli.methods import value_text
from scdh.codes import HAMMING
from scdh.experiments.reproduce.report import RESULTS_FILE
from scdh.methods.registry import built_in_names, method_class
from scdh.storage.json_files import read_table

ROOT = Path(__file__).parents[1]
MOST_FILES = {"An image to a weight update": 24, "A query to hits": 16, "A cell of a comparison": 32}


def script(name: str) -> Any:
    """A script of docs as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["make_api", "make_methods", "make_results"])
def test_the_page_is_up_to_date(name):
    made = script(name)
    assert made.PAGE.read_text("utf-8") == made.render(), f"run `python docs/{name}.py`"


def test_every_argument_of_every_public_name_is_described():
    api = script("make_api")
    assert api.undescribed() == []
    names = {path.partition(":")[2] for paths in api.CHAPTERS.values() for path in paths}
    assert set(dir(scdh)) - {"__version__", "losses"} <= names


def test_the_page_says_everything_about_a_method():
    made = script("make_methods")
    page = made.PAGE.read_text("utf-8")
    for name in built_in_names():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
        method = method_class(name)
        for text in (method.about.fidelity, method.about.differs, method.about.reference, method.about.use_when):
            assert made.escape_markdown(text) in section
        for key in method.Settings.model_fields:
            assert f"`method.{key}`" in section
        for key, values in method.tuned_settings.items():
            assert f"`{key if '.' in key else f'method.{key}'}` {value_text(values[0])}" in section
        assert (f"- **Ranked** by {method.ranking}, not by" in section) == (method.ranking != HAMMING)
        assert f"(#{name})" in page  # the overview leads to it
    assert [value_text(value) for value in (1 / 55, 10 / 3, 0.1 + 0.2, 0.0089, 1e-5, None)] == [
        *("1/55", "3.33", "0.3", "0.0089", "1e-05", "None")
    ]


def test_no_number_of_the_paper_stands_without_the_scale_of_ours():
    content = read_table(script("make_results").PAGE.with_suffix("") / RESULTS_FILE, "results", "")
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
    for claim in content["claims"]:
        assert claim["outcome"] in ("holds", "does not hold", "not tested at this scale")
        assert claim["evidence"]
        assert claim["rule"]


def test_every_figure_and_file_of_the_results_exists():
    page = script("make_results").PAGE
    links = re.findall(r"\]\((results/[^)]+)\)", page.read_text("utf-8"))
    assert len(links) > 10
    for link in links:
        assert (page.parent / link).is_file()
        if link.endswith(".svg"):
            ElementTree.parse(page.parent / link)


@pytest.mark.slow
def test_a_walk_passes_the_main_files_of_the_page_and_not_too_many():
    """The page names the files that matter; a walk may pass small helpers too, up to a limit. The walks are traced in a
    process of their own: a trace must not see other tests, nor they its settings.
    """
    done = subprocess.run([sys.executable, "-m", "tests.walks"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = re.findall(r"^(\w.*): \d+ files\n((?:  .*\n?)+)", done.stdout, re.MULTILINE)
    walks = {title: files.split() for title, files in parts}
    for title, most in MOST_FILES.items():
        section = (ROOT / "docs/architecture.md").read_text("utf-8").split(f"### {title}\n")[1].split("\n#")[0]
        on_page = re.findall(r"^\| `([\w/.]+\.py)` \|", section, re.MULTILINE)
        assert len(on_page) == len(set(on_page)) >= 10
        assert set(on_page) <= set(walks[title])
        assert len(walks[title]) <= most


@pytest.mark.slow
def test_the_picture_has_every_folder_and_arrows_go_down():
    drawing = script("draw_architecture")
    graph = drawing.import_graph()
    folders = {path.name for path in drawing.SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= drawing.PURPOSES.keys() <= graph.keys()
    drawn = {name: graph[name] & drawing.PURPOSES.keys() for name in drawing.PURPOSES}
    heights = drawing.levels(drawn)
    assert all(heights[name] > heights[target] for name, targets in drawn.items() for target in targets)
    assert {"codes", "config", "index", "metrics", "evaluation"}.isdisjoint(drawing.uses_torch())

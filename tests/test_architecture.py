"""docs/architecture.md tells what the code does: its three walks are traced, and its picture is drawn from imports."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
MOST_FILES = {"An image to a weight update": 24, "A query to hits": 16, "A cell of a comparison": 32}


@pytest.fixture(scope="module")
def walks():
    """Title → files, traced in a process of its own: a trace must not see other tests, nor they its settings."""
    command = [sys.executable, "-m", "tests.walks"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = re.findall(r"^(\w.*): \d+ files\n((?:  .*\n?)+)", done.stdout, re.MULTILINE)
    return {title: files.split() for title, files in parts}


@pytest.mark.slow
@pytest.mark.parametrize("title", MOST_FILES)
def test_a_walk_passes_the_main_files_of_the_page_and_not_too_many(walks, title):
    """The page names the files that matter; the walk may pass small helpers too, up to a limit."""
    section = PAGE.split(f"### {title}\n")[1].split("\n#")[0]
    on_page = re.findall(r"^\| `([\w/.]+\.py)` \|", section, re.MULTILINE)
    assert len(on_page) == len(set(on_page)) >= 10
    assert set(on_page) <= set(walks[title])
    assert len(walks[title]) <= MOST_FILES[title]


@pytest.mark.slow
def test_the_picture_has_every_folder_and_arrows_go_down():
    spec = importlib.util.spec_from_file_location("draw_architecture", ROOT / "docs" / "draw_architecture.py")
    drawing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(drawing)
    graph = drawing.import_graph()
    folders = {path.name for path in drawing.SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert folders <= drawing.PURPOSES.keys() <= graph.keys()
    drawn = {name: graph[name] & drawing.PURPOSES.keys() for name in drawing.PURPOSES}
    heights = drawing.levels(drawn)
    assert all(heights[name] > heights[target] for name, targets in drawn.items() for target in targets)
    assert {"codes", "config", "index", "metrics", "evaluation"}.isdisjoint(drawing.uses_torch())

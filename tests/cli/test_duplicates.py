"""`scdh duplicates`: groups with an item to keep, as a table, files and a page."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scdh import Codes
from scdh.data.name_files import save_named_codes
from scdh.data.row_names import RowNames
from tests.cli.commands import fails, must, run_json


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Photos a, b and c are near-duplicates, of which b is the largest file; d is far; e and f are equal."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, side in zip("abcdef", (40, 90, 50, 40, 40, 40), strict=True):
        Image.fromarray(rng.integers(0, 256, (side, side, 3), dtype=np.uint8)).save(f"{name}.png")
    signs = np.zeros((6, 16), np.int64)
    signs[1, :2] = 1
    signs[2, :4] = 1
    signs[3, :8] = 1
    signs[4:] = 1
    codes = Codes.from_bits(signs)
    names = RowNames(np.arange(6), [f"{name}.png" for name in "abcdef"], np.full(6, -1), [])
    save_named_codes(tmp_path / "photos.codes", codes, names)
    return tmp_path


def test_groups_are_written_with_the_item_to_keep(photos):
    must("index photos.codes --out photos.index")
    for source in ("photos.index", "photos.codes"):
        about = run_json(f"duplicates {source} --json")
        assert [about[key] for key in ("items", "groups", "in_groups", "removable")] == [6, 2, 5, 3]
        groups = [(row["group"], row["name"], row["keep"], row["distance"]) for row in about["rows"]]
        assert groups[:3] == [(0, "b.png", True, 0), (0, "a.png", False, 2), (0, "c.png", False, 2)]
        assert {row[1] for row in groups[3:]} == {"e.png", "f.png"}
    printed = must("duplicates photos.index --out groups.csv --html page.html")
    assert "2 groups of near-duplicates within 2 bits, with 5 of 6 items" in " ".join(printed.split())
    rows = list(csv.DictReader((photos / "groups.csv").open()))
    assert [row["keep"] for row in rows] == ["1", "0", "0", "1", "0"]
    must("duplicates photos.index --radius 0 --out groups.json")
    assert json.loads((photos / "groups.json").read_text())["groups"] == 1
    page = (photos / "page.html").read_text()
    assert page.count("<img") == 5
    assert page.count("✓</i>") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("photos.codes --radius -1", "--radius must be at least 0"),
        ("photos.codes --out groups.txt", "--out must end in .csv or .json"),
        ("nothing.index", "There is no index or codes file at nothing.index"),
        ("photos.codes --data photos", "--data is for the pictures of --html"),
    ],
)
def test_mistakes_are_one_sentence(photos, options, message):
    printed = fails(f"duplicates {options}")
    assert message in " ".join(printed.split())

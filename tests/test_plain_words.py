"""Text is plain technical English: words that a reader of other documentation does not expect are not used."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNUSUAL = re.compile(r"\b(refus\w+|told|anew|beside|nobody|strangers?|labels a class|1 epochs)\b", re.IGNORECASE)
KEPT = "labels a class"  # in the name of a protocol, which is a part of its fingerprint


@pytest.mark.parametrize("folder", ["src", "docs", "research", "benchmarks"])
def test_no_page_message_or_comment_has_an_unusual_word(folder):
    files = [file for kind in ("py", "md", "html", "js", "toml") for file in (ROOT / folder).rglob(f"*.{kind}")]
    lines = [(file, line) for file in files for line in file.read_text("utf-8").splitlines()]
    found = [f"{file.relative_to(ROOT)}: {line.strip()}" for file, line in lines if UNUSUAL.search(line)]
    assert [line for line in found if KEPT not in line and "_REFUSED_STATES" not in line] == []


@pytest.mark.parametrize("page", sorted(page.name for page in ROOT.glob("*.md")))
def test_the_pages_of_the_project_have_none(page):
    assert UNUSUAL.findall((ROOT / page).read_text("utf-8")) == []


def test_the_readme_stays_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 250

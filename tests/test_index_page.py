"""The page of the package on an index: made of README.md, with no link that needs other files of the repository."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def index_page():
    spec = importlib.util.spec_from_file_location("scdh_setup", ROOT / "setup.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.index_page


def targets(text: str) -> list[str]:
    """What the links and pictures of a Markdown text, and of HTML in it, lead to."""
    return re.findall(r"\]\(([^)]*)\)", text) + re.findall(r"(?:href|src)=[\"']([^\"']*)", text)


def test_links_of_the_readme_lead_to_files() -> None:
    relative = [target for target in targets(README) if not target.startswith("https://")]
    assert len(relative) > 10
    assert [target for target in relative if not (ROOT / target.split("#")[0]).exists()] == []


def test_links_become_addresses(index_page) -> None:
    page = index_page(README, "https://example.org/owner/name/")
    assert all(target.startswith(("https://", "#")) for target in targets(page))
    assert "](https://example.org/owner/name/blob/HEAD/docs/data.md)" in page
    assert "](https://example.org/owner/name/raw/HEAD/docs/images/neighbours.jpg)" in page
    assert len(targets(page)) == len(targets(README))


def test_without_an_address_links_become_text(index_page) -> None:
    page = index_page("a [page](docs/a.md), [one](https://b.org), [part](#part)\n\n![x y](docs/x.png)\n\nend", None)
    assert page == "a page, [one](https://b.org), [part](#part)\n\nend"
    assert all(target.startswith(("https://", "#")) for target in targets(index_page(README, None)))


@pytest.mark.slow
def test_the_built_metadata_have_the_page(index_page, tmp_path: Path) -> None:
    for name in ("README.md", "LICENSE", "pyproject.toml", "setup.py", "src/scdh/_version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    build = "from setuptools.build_meta import prepare_metadata_for_build_wheel as make; make('out')"
    (tmp_path / "out").mkdir()
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, check=True, capture_output=True)
    (file,) = tmp_path.glob("out/*/METADATA")
    metadata = message_from_bytes(file.read_bytes())
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    body = metadata.get_payload(decode=True).decode("utf-8")
    assert body.strip() == index_page(README, urls.get("Source")).strip()
    assert metadata["Description-Content-Type"] == "text/markdown"

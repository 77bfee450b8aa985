"""The package as a whole: imports go only downward, documents run, plain words, the page of the package on an index."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
import tomllib
from email import message_from_bytes
from pathlib import Path

import pytest

from scdh import __version__
from scdh.training import defaults
from tests.cli.commands import must
from tests.training.settled import shorten_trials

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "scdh"


def test_public_names_are_there():
    names = (
        "Client Codes HammingIndex HashTransformer Hasher IndexWriter MilvusIndex SCDHTransformer ScdhError Scores "
        "evaluate load_config losses open_source train __version__"
    )
    import scdh

    for name in names.split():
        assert getattr(scdh, name) is not None
    assert set(names.split()) == set(dir(scdh))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = scdh.nothing


# The layers of the package, lowest first; a module imports only from its own layer and from those before it.
LAYERS = [
    ["_version", "errors", "extras", "label_arrays", "printable", "progress"],
    ["storage", "settings"],
    ["codes", "config"],
    ["losses", "index", "metrics"],
    ["evaluation", "data"],
    ["nets"],
    ["methods"],
    ["model"],
    ["runs"],
    ["training"],
    ["estimator"],
    ["experiments", "serve"],
    ["cli"],
    ["__init__", "__main__"],
]
# Late imports inside a function, where a lower layer offers a short way to a higher one.
ALLOWED_LATE = {("config", "methods"), ("model", "training")}


def imports_of(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scdh"):
            yield ([*node.module.split("."), "__init__"])[1]


def test_imports_go_only_downward():
    layer = {name: i for i, names in enumerate(LAYERS) for name in names}
    wrong = []
    for file in SOURCE.rglob("*.py"):
        own = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for other in imports_of(file):
            if other != "__init__" and layer[other] > layer[own] and (own, other) not in ALLOWED_LATE:
                wrong.append(f"{file.relative_to(SOURCE)} imports {other}")
    assert wrong == []


def test_files_stay_short():
    lines = {file.relative_to(SOURCE): len(file.read_text("utf-8").splitlines()) for file in SOURCE.rglob("*.py")}
    assert {str(file): count for file, count in lines.items() if count > 400} == {}


def folders(root):
    return {path.name for path in root.iterdir() if path.is_dir() and (path / "__init__.py").exists()}


def test_the_tests_of_a_folder_are_in_a_folder_of_its_name():
    others = {"attack", "benchmarks", "reference", "research"}  # not of one folder of the source
    assert folders(ROOT / "tests") - others == folders(SOURCE)


DOCUMENTS = {  # with the least number of blocks
    "README.md": 8,
    "docs/compare.md": 1,
    "docs/engines.md": 1,
    "docs/evaluation.md": 2,
    "docs/many_classes.md": 2,
    "docs/nested.md": 2,
    "docs/pairs.md": 2,
    "docs/report.md": 3,
    "docs/search.md": 3,
    "docs/semi_supervised.md": 2,
    "docs/training.md": 2,
    "docs/tutorial.md": 12,
}


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_code_of_a_document_runs(document, tmp_path, monkeypatch):
    """Its Python blocks and the `scdh …` lines of its console blocks, in order, in one folder; settings that are not
    given are found by few trials, and trained with for few epochs.
    """
    monkeypatch.chdir(tmp_path)
    shorten_trials(monkeypatch, 12)
    monkeypatch.setattr(defaults, "MOST_EPOCHS", 12)
    monkeypatch.setattr(defaults, "FEWEST_STEPS", 12)
    text, names = (ROOT / document).read_text("utf-8"), {"__name__": "__main__"}
    blocks = re.findall(r"```(python|console)\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= DOCUMENTS[document]
    for language, block in blocks:
        if language == "python":
            exec(compile(block, document, "exec"), names)
            continue
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ scdh "):
                must(shlex.split(line.removeprefix("$ "), comments=True)[1:])


def test_the_list_of_pages_has_every_page():
    listed = re.findall(r"^\| \[([\w.]+)\]", (ROOT / "docs/README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted([*listed, "README.md"]) == sorted(page.name for page in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize(
    "document", [path.relative_to(ROOT).as_posix() for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))]
)
def test_the_links_of_a_document_lead_somewhere(document):
    page = ROOT / document
    for target in re.findall(r"\]\((?!https?:)([^)\s]*)\)", page.read_text("utf-8")):
        name, _, part = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{document}: {target}"
        if part and file.suffix == ".md":
            headings = re.findall(r"^#+ (.*)", file.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert part in anchors, f"{document}: {target}"


def test_the_program_is_installed():
    script = os.path.join(os.path.dirname(sys.executable), "scdh")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"scdh {__version__}\n"


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

"""The package as a whole: a light import, imports that go only downward, and documents whose code runs."""

import ast
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from scdh import __version__
from tests.cli.commands import must

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "scdh"


def python(code, **kwargs):
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, **kwargs).stdout


def test_searching_and_scoring_never_wait_for_torch():
    code = "import scdh; scdh.Codes; scdh.HammingIndex; scdh.evaluate; scdh.IndexWriter; scdh.ScdhError"
    heavy = python(
        f"{code}\nimport scdh.cli.app, sys\n"
        "print([m for m in ('torch', 'timm', 'sklearn', 'pydantic') if m in sys.modules])"
    )
    assert heavy.strip() == "[]"


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


def test_importing_the_package_loads_nothing_but_its_version():
    code = "import scdh, sys; print(sorted(m for m in sys.modules if m.split('.')[0] in ('scdh', 'numpy', 'pyarrow')))"
    assert python(code).strip() == "['scdh', 'scdh._version']"


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
    "docs/report.md": 3,
    "docs/search.md": 3,
    "docs/semi_supervised.md": 2,
    "docs/training.md": 2,
    "docs/tutorial.md": 12,
}


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_code_of_a_document_runs(document, tmp_path, monkeypatch):
    """Its Python blocks and the `scdh …` lines of its console blocks, in order, in one folder."""
    monkeypatch.chdir(tmp_path)
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

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


@pytest.mark.parametrize(
    "code",
    [
        "import scdh",
        "import scdh; scdh.Codes; scdh.HammingIndex; scdh.evaluate",
        "import scdh; scdh.IndexWriter; scdh.ScdhError",
        "import scdh.cli.app",
    ],
)
def test_searching_and_scoring_never_wait_for_torch(code):
    heavy = python(
        f"{code}\nimport sys; print([m for m in ('torch', 'timm', 'sklearn', 'pydantic') if m in sys.modules])"
    )
    assert heavy.strip() == "[]"


def test_public_names_are_there():
    names = (
        "Client Codes HammingIndex HashTransformer Hasher IndexWriter MilvusIndex SCDHTransformer ScdhError Scores "
        "evaluate load_config losses open_source __version__"
    )
    import scdh

    for name in names.split():
        assert getattr(scdh, name) is not None
    assert set(names.split()) == set(dir(scdh))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = scdh.nothing


# The layers of the package, lowest first; a module imports only from its own layer and from those before it.
LAYERS = [
    ["_version", "checksums", "engine_names", "errors", "extras", "files", "label_arrays", "ranking_names"],
    ["printable", "private_folder", "progress", "versions"],
    ["tensor_files", "tensor_header", "hub", "code_advice", "code_arguments", "json_files", "settings"],
    ["quantisation"],
    ["codes", "code_checks", "config", "model_description"],
    ["losses", "index", "metrics"],
    ["evaluation", "data"],
    ["nets"],
    ["methods"],
    ["encode", "model_folder"],
    ["engine"],
    ["hasher"],
    ["runs"],
    ["training"],
    ["estimator"],
    ["experiments", "serve"],
    ["cli"],
    ["__init__", "__main__"],
]
# Late imports inside a function, where a lower layer offers a short way to a higher one.
ALLOWED_LATE = {("config", "methods"), ("hasher", "training")}


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
    assert {str(file): count for file, count in lines.items() if count > 300} == {}


def folders(root):
    return {path.name for path in root.iterdir() if path.is_dir() and (path / "__init__.py").exists()}


def test_the_tests_of_a_folder_are_in_a_folder_of_its_name():
    others = {"attack", "benchmarks", "legacy", "reference"}  # not of one folder of the source
    assert folders(ROOT / "tests") - others == folders(SOURCE)


def blocks(document, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / document).read_text("utf-8"), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("document", ["README.md", "docs/search.md"])
def test_the_python_of_a_document_runs(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(document, "python"))
    assert code
    exec(compile(code, document, "exec"), {"__name__": "__main__"})


DOCUMENTS = [("README.md", 5), ("docs/compare.md", 3), ("docs/semi_supervised.md", 3), ("docs/report.md", 9)]


@pytest.mark.slow
@pytest.mark.parametrize(("document", "least"), DOCUMENTS)
def test_the_commands_of_a_document_run(document, least, tmp_path, monkeypatch):
    """Every `scdh …` line of its console blocks, in order, in one folder; `make` is what runs this test."""
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks(document, "console") for line in block.replace("\\\n", " ").splitlines()]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ scdh ")]
    assert len(commands) >= least
    for command in commands:
        must(shlex.split(command, comments=True)[1:])


def test_the_program_is_installed():
    script = os.path.join(os.path.dirname(sys.executable), "scdh")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"scdh {__version__}\n"

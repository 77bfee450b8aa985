"""The page on adding a method: its files are written, installed and run as they are printed, as a package of their own
and as files of scdh itself; and errors of a method from another package are one sentence.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scdh.config import load_config
from scdh.errors import ConfigError, ModelError
from scdh.methods.registry import method_class, method_names
from scdh.methods.scdh import Scdh
from scdh.model.hasher import Hasher

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "add_a_method.md").read_text("utf-8")
FILES = dict(re.findall(r'```\w+ title="(.+?)"\n(.*?)```', PAGE, re.DOTALL))
COMMANDS = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
PYTHON = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
# All commands of scdh and then the page's Python in one new process: importing torch takes long.
ONE_PROCESS = """
import shlex, sys
from scdh.cli.app import main

for command in sys.argv[2:]:
    print(f"$ {command}", flush=True)
    try:
        main(shlex.split(command)[1:])
    except SystemExit as end:
        if end.code:
            sys.exit(f"{command} ended with {end.code}")
print("$ python", flush=True)
exec(sys.argv[1])
"""


def python(*arguments, folder, path):
    """Standard output of a Python process in ``folder``, whose modules are looked for in ``path`` first."""
    paths = [str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    """A folder with the page's files, installed, in which its commands were run; and the output of each command."""
    folder = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    (folder / "site").mkdir()
    # `pip install -e .`, but into a folder of its own, so that the environment of the tests stays as it is.
    offline = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    site = folder / "site"
    python("-m", "pip", "install", *offline, "--target", str(site), ".", folder=folder, path=site)
    commands = [command for command in COMMANDS if command.startswith("scdh ")]
    output = python("-c", ONE_PROCESS, PYTHON, *commands, folder=folder, path=site)
    return folder, dict(part.split("\n", 1) for part in output.split("$ ")[1:])


@pytest.mark.slow
def test_the_page_runs_as_it_is_printed(page_folder):
    folder, outputs = page_folder
    test_command = "python -m pytest -q test_linear_code.py"
    assert set(FILES) == {"linear_code.py", "pyproject.toml", "test_linear_code.py"}
    assert set(COMMANDS) == {"pip install -e .", test_command, *outputs} - {"python"}
    assert len(outputs) == 5
    assert "method.corner_weight" in outputs["scdh methods linear_code"]
    assert "Linear code" in next(text for command, text in outputs.items() if command.startswith("scdh compare"))
    assert "32 bits" in outputs["python"]
    assert "20 passed" in python(*shlex.split(test_command)[1:], folder=folder, path=folder / "site")


@pytest.mark.slow
def test_the_same_two_files_are_all_that_a_method_of_scdh_needs(tmp_path):
    """A copy of scdh and of its tests, with the page's method and the page's test and nothing else changed."""
    ignored = shutil.ignore_patterns("__pycache__", "test_*")
    shutil.copytree(ROOT / "src" / "scdh", tmp_path / "src" / "scdh", ignore=ignored)
    for name in ("methods", "reference"):
        shutil.copytree(ROOT / "tests" / name, tmp_path / "tests" / name, ignore=ignored)
    for name in ("pyproject.toml", "tests/__init__.py", "tests/conftest.py", "tests/methods/test_every_method.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "src" / "scdh" / "methods" / "linear_code.py").write_text(FILES["linear_code.py"], "utf-8")
    tests = ["tests/methods/test_every_method.py", "tests/methods/test_linear_code.py"]

    def run_tests(*options):
        chosen = ["-k", "linear_code", *(test for test in tests if (tmp_path / test).exists())]
        paths = os.pathsep.join([str(tmp_path / "src"), str(tmp_path)])
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *chosen]
        environment = {**os.environ, "PYTHONPATH": paths}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    (tmp_path / "tests" / "methods" / "test_linear_code.py").write_text(FILES["test_linear_code.py"], "utf-8")
    done = run_tests()
    assert done.returncode == 0, done.stdout
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) > 20 + 12


def test_the_example_follows_its_own_rules():
    assert len(FILES["linear_code.py"].splitlines()) <= 150
    assert max(map(len, FILES["linear_code.py"].splitlines())) <= 120


@pytest.mark.slow
def test_a_model_without_its_method_names_the_method(page_folder, monkeypatch):
    folder, _ = page_folder
    assert "linear_code" not in method_names()
    with pytest.raises(ModelError, match="was made by method 'linear_code', which is not installed"):
        Hasher.load(folder / "runs" / "linear")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert "linear_code" in method_names()
    assert method_class("linear_code").about.title == "Linear code"
    assert Hasher.load(folder / "runs" / "linear").bits == 32
    with pytest.raises(ConfigError, match="Unknown linear_code setting 'corner_wait'; did you mean 'corner_weight'"):
        load_config(overrides={"method.name": "linear_code", "method.corner_wait": 1})


def offer(folder, name, value, package="elsewhere"):
    """Write what pip installs of a package that offers a method."""
    metadata = folder / f"{package}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[scdh.methods]\n{name} = {value}\n")


@pytest.mark.parametrize(
    ("text", "value", "sentence"),
    [
        (None, "gone_file:Any", r"cannot be loaded: ModuleNotFoundError: No module named 'gone_file'\.$"),
        ("1 +", "broken_file:Any", "cannot be loaded: SyntaxError: "),
        ("", "empty_file:Any", "cannot be loaded: AttributeError: .*Any"),
        ("Any = int", "other_file:Any", "must be a class derived from Method .*'other_file:Any' is not"),
        ("from scdh.methods.base import Method as Any", "bare_file:Any", ".* derived from Method with an about"),
    ],
)
def test_a_broken_offer_is_one_sentence_that_names_its_package(tmp_path, monkeypatch, text, value, sentence):
    if text is not None:
        (tmp_path / f"{value.partition(':')[0]}.py").write_text(text)
    offer(tmp_path, "other", value)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=f"^Method 'other' of package 'elsewhere' {sentence}"):
        method_class("other")
    assert method_class("scdh") is Scdh  # the others are not touched by it


def test_a_name_is_offered_once(tmp_path, monkeypatch):
    offer(tmp_path, "scdh", "scdh.methods.dsh:Dsh")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match="'scdh' is offered by scdh itself and by package 'elsewhere'; rename"):
        method_class("scdh")
    shutil.rmtree(tmp_path / "elsewhere-1.0.dist-info")
    (tmp_path / "more").mkdir()
    offer(tmp_path / "more", "twice", "scdh.methods.dsh:Dsh")
    offer(tmp_path / "more", "twice", "scdh.methods.dsh:Dsh", "third")
    monkeypatch.syspath_prepend(str(tmp_path / "more"))
    with pytest.raises(ConfigError, match=r"'twice' is offered by package '.*' and by package '.*'; rename"):
        method_class("twice")

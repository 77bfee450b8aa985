"""The page on adding a method, word for word: its files are written, installed and run; and what can go wrong with a
method of another package is one sentence."""

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
from scdh.hasher import Hasher
from scdh.methods.registry import method_class, method_names
from scdh.methods.scdh import Scdh

PAGE = (Path(__file__).parents[2] / "docs" / "add_a_method.md").read_text("utf-8")
FILES = dict(re.findall(r'```\w+ title="(.+?)"\n(.*?)```', PAGE, re.DOTALL))


COMMANDS = re.findall(r"^\$ (.+)$", PAGE, re.MULTILINE)
PYTHON = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
# All commands of the program and then the page's Python in one new process: torch takes long to import.
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


def python(*words, folder):
    paths = [str(folder / "site"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    """A folder with the page's files, installed, in which its commands were run; and what they printed."""
    folder = tmp_path_factory.mktemp("page")
    for name, text in FILES.items():
        (folder / name).write_text(text, "utf-8")
    (folder / "site").mkdir()
    # `pip install -e .`, but into a folder of its own, so that the environment of the tests stays as it is.
    alone = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", "--no-build-isolation"]
    python("-m", "pip", "install", *alone, "--target", str(folder / "site"), ".", folder=folder)
    commands = [command for command in COMMANDS if command.startswith("scdh ")]
    said = python("-c", ONE_PROCESS, PYTHON, *commands, folder=folder).split("$ ")[1:]
    return folder, dict(part.split("\n", 1) for part in said)


@pytest.mark.slow
def test_the_page_runs_as_it_stands(page_folder):
    folder, said = page_folder
    tested = "python -m pytest -q test_linear_code.py"
    assert set(FILES) == {"linear_code.py", "pyproject.toml", "test_linear_code.py"}
    assert set(COMMANDS) == {"pip install -e .", tested, *said} - {"python"}
    assert len(said) == 5
    assert "method.corner_weight" in said["scdh methods linear_code"]
    assert "Linear code" in next(text for command, text in said.items() if command.startswith("scdh compare"))
    assert "32 bits" in said["python"]
    assert "20 passed" in python(*shlex.split(tested)[1:], folder=folder)


def test_the_example_keeps_to_the_rules_it_states():
    assert len(FILES["linear_code.py"].splitlines()) <= 150
    assert max(map(len, FILES["linear_code.py"].splitlines())) <= 120


@pytest.mark.slow
def test_a_model_without_its_method_says_what_is_missing(page_folder, monkeypatch):
    folder, _ = page_folder
    assert "linear_code" not in method_names()
    with pytest.raises(ModelError, match="was made by method 'linear_code', which is not installed"):
        Hasher.load(folder / "runs" / "mine")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert "linear_code" in method_names()
    assert method_class("linear_code").about.title == "Linear code"
    assert Hasher.load(folder / "runs" / "mine").bits == 32
    with pytest.raises(ConfigError, match="Unknown linear_code setting 'corner_wait'; did you mean 'corner_weight'"):
        load_config(overrides={"method.name": "linear_code", "method.corner_wait": 1})


def offer(folder, name, value, package="elsewhere"):
    """What pip leaves of a package that offers a method."""
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[scdh.methods]\n{name} = {value}\n")


@pytest.mark.parametrize(
    ("text", "value", "sentence"),
    [
        (None, "gone_file:Any", r"cannot be loaded: ModuleNotFoundError: No module named 'gone_file'\.$"),
        ("1 +", "broken_file:Any", "cannot be loaded: SyntaxError: "),
        ("", "empty_file:Any", "cannot be loaded: AttributeError: .*Any"),
        ("Any = int", "other_file:Any", "is to be 'other_file:Any', which is no class derived from Method"),
        ("from scdh.methods.base import Method as Any", "bare_file:Any", ".* derived from Method with an about"),
    ],
)
def test_a_broken_offer_is_one_sentence_that_names_its_package(tmp_path, monkeypatch, text, value, sentence):
    if text is not None:
        (tmp_path / f"{value.partition(':')[0]}.py").write_text(text)
    offer(tmp_path, "mine", value)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=f"^Method 'mine' of package 'elsewhere' {sentence}"):
        method_class("mine")
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

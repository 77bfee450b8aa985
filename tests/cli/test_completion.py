"""Shell completion: what the shell is offered, and the options that install it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scdh.config import preset_names
from scdh.data.named.benchmarks import DATASETS
from scdh.methods.registry import method_names
from tests.cli.commands import run


def offered(monkeypatch: pytest.MonkeyPatch, words: str) -> list[str]:
    """What bash is offered for the last of these words."""
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setenv("_SCDH_COMPLETE", "complete_bash")
    code, out, err = run([])
    assert (code, err) == (0, "")
    return out.split()


def test_names_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered(monkeypatch, "scdh eval") == ["evaluate"]
    for words in ("scdh train --method ", "scdh compare ", "scdh compare scdh ", "scdh methods "):
        assert offered(monkeypatch, words) == method_names()
    assert offered(monkeypatch, "scdh methods mt_") == ["mt_scdh"]
    for command in ("train", "compare"):
        assert offered(monkeypatch, f"scdh {command} --preset ") == preset_names()
    for words in ("scdh train --data ", "scdh compare --data ", "scdh datasets ", "scdh encode runs/one "):
        assert offered(monkeypatch, f"{words}dig") == [name for name in DATASETS if name.startswith("dig")]


def test_files_are_left_to_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    for words in ("scdh datasets ", "scdh train --data photos", "scdh search ", "scdh train --out "):
        assert offered(monkeypatch, words) == []


def test_mistakes_stay_one_sentence() -> None:
    assert run("train --show-completion")[2].startswith("Error: No such option: --show-completion")
    assert "--install-completion" in run("--help")[1]


@pytest.mark.slow
def test_installed_completion_works_in_bash(tmp_path: Path) -> None:
    """`--install-completion` writes into the home folder; bash then completes with the file that it wrote."""
    program = tmp_path / "bin" / "scdh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m scdh "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "HOME": str(tmp_path), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    # Of several commands the shell stays the parent, by which typer knows which shell it is.
    install = subprocess.run(
        ["bash", "-c", "scdh --install-completion; true"], env=environment, capture_output=True, text=True, check=True
    )
    assert "bash completion installed" in install.stdout, install.stdout + install.stderr
    script = (
        f"source '{tmp_path}/.bash_completions/scdh.sh'; COMP_WORDS=(scdh methods mt); COMP_CWORD=2; "
        '_scdh_completion scdh; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "mt_scdh\n", done.stderr

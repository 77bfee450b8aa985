"""What a command imports: those that only print answer at once."""

import subprocess
import sys

import pytest

SLOW_TO_IMPORT = ("torch", "numba", "pyarrow", "sklearn", "numpy", "PIL", "matplotlib", "timm", "accelerate")


@pytest.mark.parametrize(
    "command",
    [
        "",
        "--help",
        "--version",
        "train --help",
        "compare --help",
        "datasets",
    ],
)
def test_commands_that_print_import_nothing_slow(command: str) -> None:
    script = (
        "import sys\nfrom scdh.cli import main\n"
        f"try:\n    main({command.split()!r})\n"
        "except SystemExit as ending:\n    assert not ending.code\n"
        f"print([name for name in {SLOW_TO_IMPORT!r} if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", ["scdh train --method s", "scdh train --preset ", "scdh datasets dig"])
def test_completion_imports_nothing_slow(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    monkeypatch.setenv("_SCDH_COMPLETE", "complete_bash")
    test_commands_that_print_import_nothing_slow("")

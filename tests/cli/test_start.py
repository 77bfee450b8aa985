"""What a command imports: those that only print answer at once."""

import os
import subprocess
import sys

SLOW_TO_IMPORT = ("torch", "numba", "pyarrow", "sklearn", "numpy", "PIL", "matplotlib", "timm", "accelerate")
RUN_ALL = f"""
import os, sys
from scdh.cli import main
for words in sys.argv[1:]:
    if words.startswith("scdh "):
        os.environ.update(COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1), _SCDH_COMPLETE="complete_bash")
    try:
        main([] if words.startswith("scdh ") else words.split())
    except SystemExit as ending:
        assert not ending.code, words
    print(words, [name for name in {SLOW_TO_IMPORT!r} if name in sys.modules], file=sys.stderr)
"""


def imports_of(*commands: str) -> list[str]:
    """For each command its words, and what of the slow packages was imported after it, all in one process."""
    environment = {name: value for name, value in os.environ.items() if name != "_SCDH_COMPLETE"}
    script = [sys.executable, "-c", RUN_ALL, *commands]
    done = subprocess.run(script, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_commands_that_print_import_nothing_slow() -> None:
    commands = ("", "--help", "--version", "train --help", "compare --help", "datasets")
    assert imports_of(*commands) == [f"{command} []" for command in commands]


def test_completion_imports_nothing_slow() -> None:
    commands = ("scdh train --method s", "scdh train --preset ", "scdh datasets dig")
    assert imports_of(*commands) == [f"{command} []" for command in commands]

"""Commands run in this process, for tests."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from scdh.cli import main


def run(command: str | list[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(command.split() if isinstance(command, str) else command)
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 0
    return code, out.getvalue(), err.getvalue()


def must(command: str) -> str:
    """Standard output of a command that must succeed."""
    code, out, err = run(command)
    if code:
        raise RuntimeError(f"scdh {command} ended with {code}: {err}")
    return out


def run_json(command: str) -> Any:
    """The one JSON document that a command prints."""
    return json.loads(must(command))

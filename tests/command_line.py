"""The program ``scdh``, run in the process of the tests where nothing else is tested: torch takes long to import."""

import io
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

from scdh.cli import main


def run_scdh(command: str | Sequence[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command; a text is split as a shell does."""
    arguments = shlex.split(command) if isinstance(command, str) else list(command)
    code, out, err = 0, io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 0
    return code, out.getvalue(), err.getvalue()


def scdh_output(command: str | Sequence[str]) -> str:
    """Standard output of a command that must succeed."""
    code, out, err = run_scdh(command)
    if code:
        raise RuntimeError(f"scdh {command} ended with {code}: {err}")
    return out


def run_on_two_processes(arguments: Sequence[str]) -> None:
    """Run a command that must succeed as ``torchrun`` does, with two processes on this machine."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "scdh"]
    done = subprocess.run([*launcher, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"scdh {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")

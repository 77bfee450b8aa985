"""Commands run in this process, for all tests: a process of its own would import torch again, which takes seconds."""

import io
import json
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from scdh.cli import main


def run(command: str | Sequence[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main(command.split() if isinstance(command, str) else list(command))
        except SystemExit as ending:
            code = ending.code if isinstance(ending.code, int) else 0
    return code, out.getvalue(), err.getvalue()


def must(command: str | Sequence[str]) -> str:
    """Standard output of a command that must succeed."""
    code, out, err = run(command)
    if code:
        raise RuntimeError(f"scdh {command} ended with {code}: {err}")
    return out


def fails(command: str | Sequence[str]) -> str:
    """Standard error of a command that must end with the exit code of a user's mistake."""
    code, out, err = run(command)
    assert code == 2, (out, err)
    return err


def run_json(command: str | Sequence[str]) -> Any:
    """The one JSON document that a command prints."""
    return json.loads(must(command))


def run_on_two_nodes(arguments: Sequence[str]) -> list[str]:
    """Standard output of a command that must succeed, run as by ``torchrun`` on two machines, one process each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    nodes = ["--nnodes", "2", "--nproc_per_node", "1", "--master_addr", "127.0.0.1", "--master_port", str(port)]
    launcher = [sys.executable, "-m", "torch.distributed.run", *nodes, "--node_rank"]
    launched = [
        subprocess.Popen(
            [*launcher, rank, "-m", "scdh", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in ("0", "1")
    ]
    try:
        printed = [process.communicate() for process in launched]
    finally:
        for process in launched:
            process.kill()
    if any(process.returncode for process in launched):
        raise RuntimeError(f"scdh {' '.join(arguments)} failed on a node: {printed}")
    return [out for out, _ in printed]

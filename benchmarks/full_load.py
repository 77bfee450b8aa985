"""A first start of the service, and its full rate for long: ``python -m benchmarks.full_load [--seconds 600]``.

A million codes of 64 bits, searches by code, with each number of connections for a tenth of the time, ten times in
turn. The caches are empty at first, so the start compiles what a new machine compiles. It needs a quiet machine.
"""

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks.http_load import run_load
from benchmarks.serve import code_requests, row_of
from benchmarks.serve_processes import build, free_port, started
from benchmarks.timing import print_row

BITS = 64
TURNS = 10


def measure(items: int, backbone: str, connections: list[int], seconds: float) -> None:
    """Print the start, then a row for each turn and number of connections."""
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_CACHE_HOME"] = scratch
        model, index = build(Path(scratch), items, BITS, backbone)
        port = free_port()
        begun = time.perf_counter()
        with started(["scdh", "serve", str(model), "--index", str(index), "--port", str(port)], port) as process:
            print_row("start", {"seconds": time.perf_counter() - begun, "MB": resident_mb(process)})
            requests = code_requests(port, BITS)
            for turn in range(TURNS):
                for count in connections:
                    load = run_load(port, requests, connections=count, seconds=seconds / TURNS / len(connections))
                    row = {**row_of("scdh serve", load, count), "turn": turn, "MB": resident_mb(process)}
                    print_row("load", row)


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    """Memory that a process has now."""
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of load")
    parser.add_argument("--connections", type=int, nargs="+", default=[8, 64])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--backbone", default="efficientnet_lite0")
    chosen = parser.parse_args()
    measure(chosen.items, chosen.backbone, chosen.connections, chosen.seconds)


if __name__ == "__main__":
    main()

"""The service under load from another process, and its rivals: the bare index, torch, FastAPI with faiss.

``python -m benchmarks.run --only serve`` takes about a quarter of an hour: a million codes of 64 bits of an
efficientnet_lite0 with random head; searches by code and by picture, each rival in turn; then ten minutes at half of
the rate that was measured, with the memory of the service. The load shares the processor with what it measures.
"""

import io
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.http_load import Load, form_bytes, request_bytes, run_load
from benchmarks.report import MEMORY
from benchmarks.serve_processes import build, free_port, like_trained, resident_mb, started
from benchmarks.timing import Row, Table, print_row
from benchmarks.warm import load_kernels
from scdh.index import HammingIndex

CODES = "Searches by code"
PICTURES = "Searches by picture"
SOAK = "Half load for long"
OURS, RIVAL = "scdh serve", "FastAPI and faiss"
EAGER = "eager torch, one at a time"
K = 10
PHOTOS, QUERIES = 32, 512
SOAK_CONNECTIONS = 16


@dataclass(frozen=True)
class Plan:
    items: int = 1_000_000
    bits: int = 64
    backbone: str = "efficientnet_lite0"
    side: int = 320  # pixels of a photo
    connections: tuple[int, ...] = (1, 8, 32)
    seconds: float = 15.0  # of each load
    soak: float = 600.0  # seconds at half load


QUICK = Plan(items=200_000, backbone="small_conv", connections=(8,), seconds=2.0, soak=6.0)


def measure(plan: Plan, threads: int) -> list[Table]:
    """Tables of searches by code, by picture, and of a long time at half load."""
    with tempfile.TemporaryDirectory() as scratch:
        model, index = build(Path(scratch), plan.items, plan.bits, plan.backbone)
        photos = [photo(plan.side, seed) for seed in range(PHOTOS)]
        bare, in_batches = bare_index(index, plan)
        eager, codes = eager_torch(model, photos, plan, threads)
        ours, theirs = free_port(), free_port()
        serve = ["scdh", "serve", str(model), "--index", str(index), "--port", str(ours)]
        rival = ["benchmarks.serve_rival", str(model), str(index), str(theirs), str(threads)]
        with started(serve, ours) as process, started(rival, theirs):
            differing = {who: differing_bits(port, photos, codes) for who, port in ((OURS, ours), (RIVAL, theirs))}
            rivals = ((OURS, ours), (RIVAL, theirs))
            by_code = [bare, *loads(plan, rivals, lambda port: code_requests(port, plan.bits))]
            by_picture = [eager, *loads(plan, rivals, lambda port: image_requests(port, photos))]
            rate = max(float(row["requests/s"]) for row in by_code if row["who"] == OURS) / 2
            row, memory = soak(process, ours, plan, rate)
    for rows in (by_code, by_picture):
        for own in rows:
            own["times the first row"] = float(own["requests/s"]) / float(rows[0]["requests/s"])
    return [
        Table(
            CODES,
            f"{plan.items:,} codes of {plan.bits} bits, the {K} nearest of one query a request. The first row is the "
            f"index in a process without HTTP, one query after the other (in batches of 32 it does {in_batches:,.0f} "
            f"queries/s), so that the last column is the share of it that is left.",
            by_code,
        ),
        Table(
            PICTURES,
            f"{plan.backbone}, photos of {plan.side}² pixels. The first row is torch as people call it, one photo "
            f"after the other without HTTP: decoded and encoded, not searched for. Bits that differ from its codes: "
            f"{100 * differing[OURS]:.2g} % of those of {OURS}, {100 * differing[RIVAL]:.2g} % of those of {RIVAL}.",
            by_picture,
        ),
        Table(SOAK, f"Searches by code at half of the highest rate above, over {SOAK_CONNECTIONS} connections.", [row]),
        Table(MEMORY, "Of the service in that time.", memory),
    ]


def photo(side: int, seed: int) -> bytes:
    """A JPEG; smooth, so that the file has the size that photos have."""
    small = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def code_requests(port: int, bits: int) -> list[bytes]:
    queries = like_trained(QUERIES, bits, seed=1)
    bodies = [json.dumps({"codes": [row.tobytes().hex()], "k": K}).encode() for row in queries.packed]
    return [request_bytes(port, "/v1/search/code", body, "application/json") for body in bodies]


def image_requests(port: int, photos: list[bytes]) -> list[bytes]:
    return [request_bytes(port, f"/v1/search/image?k={K}", *form_bytes(content)) for content in photos]


def timed(work: Callable[[int], object], seconds: float, who: str) -> Row:
    """One call after the other for so long, as a row of loads."""
    work(0)
    load, begun = Load(), time.perf_counter()
    while (start := time.perf_counter()) - begun < seconds:
        work(len(load.latencies))
        load.latencies.append(time.perf_counter() - start)
    load.seconds = time.perf_counter() - begun
    return row_of(who, load, 1)


def bare_index(index_file: Path, plan: Plan) -> tuple[Row, float]:
    """The index itself, one query at a time; and its queries per second in batches of 32."""
    index, queries = HammingIndex.load(index_file), like_trained(QUERIES, plan.bits, seed=1)
    load_kernels(plan.bits)
    row = timed(lambda n: index.search(queries[n % QUERIES : n % QUERIES + 1], K), plan.seconds / 2, "the index itself")
    batches = timed(lambda n: index.search(queries[32 * (n % 16) : 32 * (n % 16) + 32], K), plan.seconds / 2, "")
    print_row("serve", row)
    return row, 32 * float(batches["requests/s"])


def eager_torch(model: Path, photos: list[bytes], plan: Plan, threads: int) -> tuple[Row, list[bytes]]:
    """One photo after the other through the network as it was trained, with one thread or all of them, whichever is
    faster (next to other programs all of them wait for each other); and the codes that it gives."""
    reported: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, content in enumerate(photos):
            (Path(folder) / f"{number:03d}.jpg").write_bytes(content)
        for count in {1, threads}:
            command = [
                sys.executable,
                "-m",
                "benchmarks.serve_eager",
                str(model),
                folder,
                str(plan.seconds),
                str(count),
            ]
            reported[count] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    best = max(reported, key=lambda count: len(reported[count]["latencies"]) / reported[count]["seconds"])
    row = row_of(
        f"{EAGER}, {best} thread{'s' * (best > 1)}", Load(reported[best]["seconds"], reported[best]["latencies"]), 1
    )
    print_row("serve", row)
    return row, [bytes.fromhex(code) for code in reported[best]["codes"]]


def loads(plan: Plan, rivals: tuple[tuple[str, int], ...], make: Callable[[int], list[bytes]]) -> list[Row]:
    """Each number of connections, the rivals in turn."""
    rows = []
    for connections in plan.connections:
        for who, port in rivals:
            requests = make(port)
            run_load(port, requests, connections=connections, seconds=min(2.0, plan.seconds))  # to warm up
            load = run_load(port, requests, connections=connections, seconds=plan.seconds)
            rows.append(row_of(who, load, connections))
            print_row("serve", rows[-1])
    return rows


def row_of(who: str, load: Load, connections: int) -> Row:
    return {
        "who": who,
        "connections": connections,
        "requests/s": load.rate,
        "p50, ms": load.percentile(0.5),
        "p99, ms": load.percentile(0.99),
        "errors": sum(load.errors.values()),
    }


def differing_bits(port: int, photos: list[bytes], codes: list[bytes]) -> float:
    """Share of the bits that differ between the codes of a service and these, for the same photos."""
    differing = 0
    for content, code in zip(photos, codes, strict=True):
        body, kind = form_bytes(content)
        sent = urllib.request.Request(f"http://127.0.0.1:{port}/v1/search/image?k={K}", body, method="POST")
        sent.add_header("content-type", kind)
        with urllib.request.urlopen(sent) as answer:
            other = bytes.fromhex(json.load(answer)["results"][0]["code"])
        differing += sum(int(a ^ b).bit_count() for a, b in zip(code, other, strict=True))
    return differing / (8 * len(codes) * len(codes[0]))


def soak(process: subprocess.Popen[bytes], port: int, plan: Plan, rate: float) -> tuple[Row, list[Row]]:
    """Searches by code at this rate for long, with the memory of the service."""
    memory: list[Row] = []
    stop, begun = threading.Event(), time.monotonic()

    def watch() -> None:
        while not stop.wait(plan.soak / 20):
            minutes = (time.monotonic() - begun) / 60
            memory.append({"minutes": minutes, "memory of the service, MB": resident_mb(process)})

    watching = threading.Thread(target=watch)
    watching.start()
    requests = code_requests(port, plan.bits)
    load = run_load(port, requests, connections=SOAK_CONNECTIONS, seconds=plan.soak, rate=rate)
    stop.set()
    watching.join()
    sizes = [float(row["memory of the service, MB"]) for row in memory]
    row: dict[str, Any] = {
        "seconds": plan.soak,
        "requests asked for, 1/s": rate,
        **row_of(OURS, load, SOAK_CONNECTIONS),
    }
    row |= {"memory at first, MB": sizes[0], "at last, MB": sizes[-1]}
    print_row("serve", row)
    return row, memory

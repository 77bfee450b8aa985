"""The service under load from another process, and its rivals: the bare index, and FastAPI with torch and faiss.

A million codes of 64 bits of an efficientnet_lite0 with random head; searches by code and by picture, rivals in turn.
The load shares the processor with what it measures.
"""

import io
import json
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.http_load import Load, form_bytes, request_bytes, run_load
from benchmarks.serve_processes import build, free_port, like_trained, started
from benchmarks.timing import Row, Table, print_row
from benchmarks.warm import load_kernels
from scdh.index import HammingIndex

CODES = "Searches by code"
PICTURES = "Searches by picture"
OURS, RIVAL = "scdh serve", "FastAPI and faiss"
K = 10
PHOTOS, QUERIES = 32, 512


@dataclass(frozen=True)
class Plan:
    items: int = 1_000_000
    bits: int = 64
    backbone: str = "efficientnet_lite0"
    side: int = 320  # pixels of a photo
    connections: tuple[int, ...] = (1, 8, 32)
    seconds: float = 15.0  # of each load


QUICK = Plan(items=200_000, backbone="small_conv", connections=(8,), seconds=2.0)


def measure(plan: Plan, threads: int) -> list[Table]:
    """Tables of searches by code and by picture."""
    with tempfile.TemporaryDirectory() as scratch:
        model, index = build(Path(scratch), plan.items, plan.bits, plan.backbone)
        photos = [photo(plan.side, seed) for seed in range(PHOTOS)]
        bare, in_batches = bare_index(index, plan)
        ours, theirs = free_port(), free_port()
        serve = ["scdh", "serve", str(model), "--index", str(index), "--port", str(ours)]
        rival = ["benchmarks.serve_rival", str(model), str(index), str(theirs), str(threads)]
        with started(serve, ours), started(rival, theirs):
            differing = differing_bits(codes_of(ours, photos), codes_of(theirs, photos))
            rivals = ((RIVAL, theirs), (OURS, ours))
            by_code = [bare, *loads(plan, rivals, lambda port: code_requests(port, plan.bits))]
            by_picture = loads(plan, rivals, lambda port: image_requests(port, photos))
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
            f"{plan.backbone}, photos of {plan.side}² pixels. {100 * differing:.2g} % of the bits differ between the "
            "codes of both.",
            by_picture,
        ),
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


def codes_of(port: int, photos: list[bytes]) -> list[bytes]:
    """The code that a service computes for each photo."""
    codes = []
    for content in photos:
        body, kind = form_bytes(content)
        sent = urllib.request.Request(f"http://127.0.0.1:{port}/v1/search/image?k={K}", body, method="POST")
        sent.add_header("content-type", kind)
        with urllib.request.urlopen(sent) as answer:
            codes.append(bytes.fromhex(json.load(answer)["results"][0]["code"]))
    return codes


def differing_bits(codes: list[bytes], others: list[bytes]) -> float:
    """Share of the bits that differ between codes of the same photos."""
    pairs = zip(b"".join(codes), b"".join(others), strict=True)
    return sum((a ^ b).bit_count() for a, b in pairs) / (8 * len(b"".join(codes)))

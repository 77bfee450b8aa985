"""The service under load from another process, beside the bare index and a plain FastAPI handler with faiss.

``python -m benchmarks.serve`` takes about five minutes: a million codes of 64 bits of an efficientnet_lite0 with random
head, then searches by code and by picture, each rival in turn. ``--soak 600`` adds ten minutes at half of the measured
rate, with the memory of the service every few seconds. Results go to serve.json and, of a soak, serve_memory.png.
"""

import argparse
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from benchmarks.http_load import Load, form_bytes, request_bytes, run_load
from benchmarks.made_up import class_labels, clustered, uniform
from benchmarks.timing import Row, print_row
from benchmarks.warm import load_kernels
from scdh.codes import Codes
from scdh.index import HammingIndex

K = 10
JSON = "application/json"


def like_trained(count: int, bits: int, seed: int) -> Codes:
    """Codes of 100 classes, as a trained model gives them."""
    return clustered(class_labels(count, 100, seed), uniform(100, bits, seed=8), 3, seed)


def build(folder: Path, items: int, bits: int, backbone: str) -> tuple[Path, Path]:
    """A model that was not trained, and an index that names it."""
    from scdh.config import load_config
    from scdh.hasher import Hasher

    hasher = Hasher.build(
        load_config(overrides={"net.backbone": backbone, "method.bits": bits}), ["a", "b"], False, None
    )
    hasher.network.eval()
    hasher.save(folder / "model")
    codes = like_trained(items, bits, seed=0)
    HammingIndex(Codes(codes.packed, bits, None, {"model": hasher.fingerprint()})).save(folder / "codes.index")
    return folder / "model", folder / "codes.index"


@contextmanager
def started(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that answers at ``/ready``."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-m", *command], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + 300
            while not _is_ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"{command} does not answer: {log.read().decode()[-2000:]}")
                time.sleep(0.2)
            yield process
        finally:
            process.terminate()
            process.wait(60)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def code_requests(port: int, bits: int, count: int = 512) -> list[bytes]:
    queries = like_trained(count, bits, seed=1)
    bodies = [json.dumps({"codes": [row.tobytes().hex()], "k": K}).encode() for row in queries.packed]
    return [request_bytes(port, "/v1/search/code", body, JSON) for body in bodies]


def image_requests(port: int, side: int, count: int = 32) -> list[bytes]:
    """Photos of this side; smooth, so that their files have the size that photos have."""
    requests = []
    for seed in range(count):
        small = np.random.default_rng(seed).integers(0, 256, (12, 12, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(small).resize((side, side), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
        requests.append(request_bytes(port, f"/v1/search/image?k={K}", *form_bytes(buffer.getvalue())))
    return requests


def bare_index(index_file: Path, bits: int, seconds: float) -> Row:
    """Queries a second of the index itself, one at a time and in batches of 32."""
    index, queries = HammingIndex.load(index_file), like_trained(512, bits, seed=1)
    load_kernels(bits)
    rates = {}
    for size in (1, 32):
        done, begun = 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            start = done % (512 - size + 1)
            index.search(queries[start : start + size], K)
            done += size
        rates[size] = done / (time.perf_counter() - begun)
    return {"who": "the index itself", "one at a time, queries/s": rates[1], "in batches of 32, queries/s": rates[32]}


def row_of(who: str, what: str, load: Load, connections: int) -> Row:
    return {
        "who": who,
        "what": what,
        "connections": connections,
        "requests/s": load.rate,
        "p50, ms": load.percentile(0.5),
        "p99, ms": load.percentile(0.99),
        "errors": sum(load.errors.values()),
    }


def check_equal_codes(ours: int, theirs: int, side: int) -> float:
    """Share of bits that differ between the codes of both for the same photos."""
    differing, total = 0, 0
    for request in image_requests(0, side, 8):
        _, _, body = request.partition(b"\r\n\r\n")
        codes = []
        for port in (ours, theirs):
            sent = urllib.request.Request(f"http://127.0.0.1:{port}/v1/search/image?k={K}", body, method="POST")
            sent.add_header("content-type", "multipart/form-data; boundary=x")
            with urllib.request.urlopen(sent) as answer:
                codes.append(bytes.fromhex(json.load(answer)["results"][0]["code"]))
        differing += sum(int(a ^ b).bit_count() for a, b in zip(*codes, strict=True))
        total += 8 * len(codes[0])
    return differing / total


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def soak(process: subprocess.Popen[bytes], port: int, bits: int, rate: float, seconds: float) -> dict[str, Any]:
    """Half load, with the memory of the service."""
    memory: list[tuple[float, float]] = []
    stop, begun = threading.Event(), time.monotonic()

    def watch() -> None:
        while not stop.wait(min(5.0, seconds / 20)):
            memory.append((time.monotonic() - begun, resident_mb(process)))

    watching = threading.Thread(target=watch)
    watching.start()
    load = run_load(port, code_requests(port, bits), connections=16, seconds=seconds, rate=rate)
    stop.set()
    watching.join()
    first, last = memory[len(memory) // 10][1], memory[-1][1]
    row = {**row_of("scdh serve", f"codes at {rate:.0f}/s for {seconds:.0f} s", load, 16)}
    row |= {"memory at first, MB": first, "at last, MB": last}
    print_row("serve", row)
    return {"row": row, "memory": memory}


def draw_memory(memory: list[tuple[float, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3))
    axes.plot([second / 60 for second, _ in memory], [size for _, size in memory])
    axes.set(xlabel="minutes at half load", ylabel="memory of the service, MB", ylim=(0, None))
    figure.savefig(path, bbox_inches="tight", dpi=150)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--backbone", default="efficientnet_lite0")
    parser.add_argument("--seconds", type=float, default=20, help="of each load")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--side", type=int, default=320, help="pixels of the photos")
    parser.add_argument("--soak", type=float, default=0, help="seconds at half load")
    parser.add_argument("--out", type=Path, default=Path("."))
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    soaked: dict[str, Any] | None = None

    def keep(row: Row) -> None:
        rows.append(row)
        print_row("serve", row)

    with tempfile.TemporaryDirectory() as scratch:
        model, index = build(Path(scratch), options.items, options.bits, options.backbone)
        keep(bare_index(index, options.bits, options.seconds / 2))
        ours, theirs = free_port(), free_port()
        serve = ["scdh", "serve", str(model), "--index", str(index), "--port", str(ours)]
        rival = ["benchmarks.serve_rival", str(model), str(index), str(theirs)]
        rate = 0.0
        with started(serve, ours) as process, started(rival, theirs):
            differing = check_equal_codes(ours, theirs, options.side)
            for what, make in (("codes", code_requests), ("images", image_requests)):
                size = options.bits if what == "codes" else options.side
                for connections in options.connections:
                    for who, port in (("scdh serve", ours), ("FastAPI and faiss", theirs)):
                        requests = make(port, size)
                        run_load(port, requests, connections=connections, seconds=min(2, options.seconds))
                        load = run_load(port, requests, connections=connections, seconds=options.seconds)
                        keep(row_of(who, what, load, connections))
                        if (who, what) == ("scdh serve", "codes"):
                            rate = max(rate, load.rate)
            if options.soak:
                soaked = soak(process, ours, options.bits, rate / 2, options.soak)
    result = {
        "cores": os.cpu_count(),
        "items": options.items,
        "bits differing": differing,
        "rows": rows,
        "soak": soaked,
    }
    (options.out / "serve.json").write_text(json.dumps(result, indent=1))
    if soaked is not None:
        draw_memory(soaked["memory"], options.out / "serve_memory.png")


if __name__ == "__main__":
    main()

"""Malformed requests over real sockets against a real ``scdh serve``: no 500, no crash, no growth.

``python -m tests.serve.uploads --count 10000`` prints how many of each kind got which status, and ends with 1 if
anything is wrong: an answer that is not an error in the usual form, a connection that hangs, ``/health`` silent, the
process gone, memory, threads or open files that grew, an error in the log, a damaged index, or another answer to an
honest search.
"""

import argparse
import json
import queue
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from scdh.codes import Codes
from scdh.data.name_files import for_new_index, save_named_index
from scdh.data.row_names import RowNames
from scdh.index import HammingIndex
from scdh.serve.encoder import DECODERS
from scdh.serve.pictures import PAINTERS
from tests.serve.conftest import picture, save_model
from tests.serve.malformed import ERRORS, LARGEST, TOKEN, Malformed, some_request, upload

FIRST_ID, ITEMS = 1000, 50  # no made-up request names these ids
SENDERS, SLOW_SENDERS = 6, 30
REQUEST_SECONDS = 5  # that the service gives a request; a silent head gets 10
HANGING_SECONDS = 60.0
HEALTH_SECONDS = 10.0
GROWTH_MB = 32  # of memory between the warm-up and the end
CLOSED = "closed"


@dataclass
class Outcome:
    """What became of all requests: counts by kind and status, and what is wrong."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, sent: Malformed, status: str, problem: str) -> None:
        with self.lock:
            self.counts[sent.kind, status] += 1
            if problem:
                self.wrong.append(f"{sent.kind}: {problem}, after {b''.join(sent.parts)[:300]!r}")


@dataclass
class Service:
    """A process of ``scdh serve``."""

    process: subprocess.Popen[str]
    port: int
    folder: Path

    def status_field(self, name: str) -> int:
        """A number of /proc/PID/status."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[1])

    def sizes(self) -> dict[str, int]:
        files = len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))
        memory, peak = (self.status_field(name) // 1024 for name in ("VmRSS", "VmHWM"))
        return {"memory_mb": memory, "peak_mb": peak, "threads": self.status_field("Threads"), "files": files}


@contextmanager
def served(folder: Path) -> Iterator[Service]:
    """A model of pictures that was not trained, an index, and a service on both that takes changes with a token."""
    hasher = save_model(folder / "model")
    codes = hasher.encode([picture(seed) for seed in range(ITEMS)])
    for seed in range(ITEMS):
        (folder / "photos").mkdir(exist_ok=True)
        (folder / "photos" / f"{seed}.png").write_bytes(picture(seed))
    ids = FIRST_ID + np.arange(ITEMS)
    names = RowNames(ids, [str(folder / "photos" / f"{n}.png") for n in range(ITEMS)], ids % 2, ["a", "b"])
    metadata = {"model": hasher.fingerprint()}
    named = HammingIndex(for_new_index(Codes(codes.packed, codes.bits, ids, metadata)))
    save_named_index(folder / "own.index", named, names)
    (folder / "token").write_text(TOKEN)
    (folder / "token").chmod(0o600)  # otherwise the log has a warning
    command = [sys.executable, "-m", "scdh", "serve", "model", "--index", "own.index", "--images", "photos"]
    command += ["--port", "0", "--token-file", "token", "--timeout", str(REQUEST_SECONDS)]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        line = process.stdout.readline()
        found = re.search(r"Ready: http://127\.0\.0\.1:([0-9]+)/ ", line)
        if not found:
            raise RuntimeError(line + (folder / "log").read_text())
        yield Service(process, int(found[1]), folder)
    finally:
        process.kill()
        process.wait()


def send(port: int, sent: Malformed) -> tuple[str, str]:
    """The status that came back, and what is wrong about it (empty: nothing)."""
    received = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=HANGING_SECONDS) as connection:
            try:
                for part in sent.parts:
                    connection.sendall(part)
                    if sent.pause:
                        time.sleep(sent.pause)
                if sent.hangs_up:
                    return CLOSED, ""
                if sent.half_closes:
                    connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # rejected before all was sent; an answer may have come all the same
            while not is_whole(received, sent) and (block := connection.recv(1 << 16)):
                received += block
    except TimeoutError:
        return "hangs", f"no end within {HANGING_SECONDS:.0f} s"
    except ConnectionResetError:
        pass
    except OSError as error:
        return "no connection", str(error)
    if not received:
        return CLOSED, "" if sent.may_close else "closed without an answer"
    return judge(received)


def is_whole(received: bytes, sent: Malformed) -> bool:
    """Whether all of the first answer is there."""
    top, end, content = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", top)
    has_content = length is not None and not sent.parts[0].startswith(b"HEAD ")
    return bool(end) and (not has_content or len(content) >= int(length[1]))


def judge(received: bytes) -> tuple[str, str]:
    """The status of the first answer; wrong unless it is a success or an error of the usual form."""
    match = re.match(rb"HTTP/1\.1 (\d{3}) ", received)
    if not match:
        return "no HTTP", f"an answer that is none: {received[:200]!r}"
    status = int(match[1])
    top, _, content = received.partition(b"\r\n\r\n")
    if status in (200, 201, 304):
        return str(status), ""
    if status not in ERRORS:
        return str(status), f"status {status}: {content[:300]!r}"
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", top)
    if length and content:  # not after HEAD
        try:
            error = json.loads(content[: int(length[1])])["error"]
            if set(error) != {"code", "message"} or b"Traceback" in content:
                return str(status), f"an error of another form: {content[:300]!r}"
        except (ValueError, KeyError, TypeError):
            return str(status), f"an error that is not JSON: {content[:300]!r}"
    return str(status), ""


def bombard(port: int, requests: Iterable[Malformed], outcome: Outcome) -> None:
    """Send requests from several threads; those that take long by intention from threads of their own."""
    lanes: dict[bool, queue.Queue[Malformed | None]] = {False: queue.Queue(200), True: queue.Queue()}

    def work(lane: "queue.Queue[Malformed | None]") -> None:
        while (sent := lane.get()) is not None:
            outcome.add(sent, *send(port, sent))

    crews = [(lanes[False], SENDERS), (lanes[True], SLOW_SENDERS)]
    threads = [threading.Thread(target=work, args=(lane,)) for lane, size in crews for _ in range(size)]
    for thread in threads:
        thread.start()
    for sent in requests:
        lanes[sent.is_slow].put(sent)
    for lane, size in crews:
        for _ in range(size):
            lane.put(None)
    for thread in threads:
        thread.join()


def warm_up(port: int, count: int, seed: int, outcome: Outcome) -> None:
    """Some of everything; and first as many of the largest pictures at once as there are decoders: freed memory is kept
    for the next picture (``scdh.nets.build``), so that a process is as large as it ever had to be."""
    rng = random.Random(seed)
    largest = [Malformed("largest", upload(rng, LARGEST)) for _ in range(4 * DECODERS)]
    with ThreadPoolExecutor(2 * DECODERS) as pool:
        for sent, answer in zip(largest, pool.map(partial(send, port), largest), strict=True):
            outcome.add(sent, *answer)
    for number in range(PAINTERS):  # starts the processes of thumbnails
        httpx.get(f"http://127.0.0.1:{port}/v1/items/{FIRST_ID + number}/thumbnail", timeout=60)
    bombard(port, (sent for sent in (some_request(rng) for _ in range(count)) if not sent.is_slow), outcome)


@contextmanager
def health_watched(port: int, outcome: Outcome) -> Iterator[None]:
    """Asks whether the service is alive, several times a second, over a new connection each."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.2):
            begun = time.monotonic()
            try:
                answer = httpx.get(f"http://127.0.0.1:{port}/health", timeout=HEALTH_SECONDS)
                problem = "" if answer.json() == {"status": "ok"} else answer.text
            except (httpx.HTTPError, ValueError) as error:
                problem = repr(error)
            outcome.health.append(time.monotonic() - begun)
            if problem:
                outcome.wrong.append(f"/health: {problem}")

    watching = threading.Thread(target=work)
    watching.start()
    try:
        yield
    finally:
        stop.set()
        watching.join()


def honest_answer(port: int) -> dict[str, Any]:
    """What a picture of the collection finds among the items that were there from the start."""
    answer = httpx.post(
        f"http://127.0.0.1:{port}/v1/search/image?k=1000", files={"image": picture(3)}, timeout=60
    ).json()
    (result,) = answer["results"]
    return {"code": result["code"], "hits": [hit for hit in result["hits"] if FIRST_ID <= hit["id"] < FIRST_ID + ITEMS]}


def errors_of_log(text: str) -> list[str]:
    """What the log has in addition to lines of requests: the end of each trace, and lines that are not JSON."""
    wrong = []
    for line in text.splitlines():
        if not line.startswith("{"):
            wrong += [] if line.endswith("…") else [f"in the log: {line[:300]}"]
        elif (event := json.loads(line))["level"] not in ("info", "debug"):
            wrong.append(f"in the log: {event['event']} … {event.get('trace', event.get('reason', ''))[-400:]}")
    return wrong


def run(count: int, seed: int) -> dict[str, Any]:
    """Warm up with a tenth of the requests (at least 100), send all of them, and compare before with after."""
    outcome, rng = Outcome(), random.Random(seed)
    folder = Path(tempfile.mkdtemp())
    try:
        with served(folder) as service:
            port, begun = service.port, time.monotonic()
            with health_watched(port, outcome):
                honest = honest_answer(port)
                warm_up(port, max(100, count // 10), seed + 1, outcome)
                outcome.counts.clear()
                before = service.sizes()
                bombard(port, (some_request(rng) for _ in range(count)), outcome)
            seconds = time.monotonic() - begun
            time.sleep(1.0)  # connections that were closed are let go
            after = service.sizes()
            if service.process.poll() is not None:
                outcome.wrong.append(f"the process ended with {service.process.returncode}")
            if honest_answer(port) != honest:
                outcome.wrong.append("an honest search has another answer than before")
            service.process.terminate()
            if service.process.wait(60) != 0:
                outcome.wrong.append(f"SIGTERM ended it with {service.process.returncode}")
        check = subprocess.run([sys.executable, "-m", "scdh", "check", "own.index"], cwd=folder, capture_output=True)
        if check.returncode:
            outcome.wrong.append(f"scdh check: {check.stdout.decode()} {check.stderr.decode()}")
        outcome.wrong += errors_of_log((folder / "log").read_text())
    finally:
        shutil.rmtree(folder)
    if after["memory_mb"] - before["memory_mb"] > GROWTH_MB:
        outcome.wrong.append(f"memory grew from {before['memory_mb']} to {after['memory_mb']} MB")
    for name in ("threads", "files"):
        if after[name] > before[name] + 4:
            outcome.wrong.append(f"{name} grew from {before[name]} to {after[name]}")
    table: dict[str, dict[str, int]] = {}
    for (kind, status), number in sorted(outcome.counts.items()):
        table.setdefault(kind, {})[status] = number
    return {
        "requests": sum(outcome.counts.values()),
        "seconds": round(seconds),
        "by_kind": table,
        "by_status": dict(sorted(Counter(status for _, status in outcome.counts.elements()).items())),
        "after_warm_up": before,
        "at_the_end": after,
        "health": {"asked": len(outcome.health), "slowest_seconds": round(max(outcome.health), 2)},
        "wrong": outcome.wrong,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    result = run(options.count, options.seed)
    print(json.dumps(result, indent=1))
    sys.exit(1 if result["wrong"] else 0)


if __name__ == "__main__":
    main()

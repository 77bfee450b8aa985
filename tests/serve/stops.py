"""Stop a service with SIGTERM while clients load it, again and again: it ends within the time that it promises.

``python -m tests.serve.stops --times 50`` prints one line of JSON. The clients search by code and by picture, send
images that take long to decode, pipeline, do not read their answers, and leave requests unfinished; all stay connected.
"""

import argparse
import json
import os
import random
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from scdh.serve import service as service_module
from scdh.serve.server import END_SECONDS, STOP_SECONDS
from scdh.serve.settings import Settings
from tests.serve.conftest import picture, save_index, save_model
from tests.serve.hosted import wait_until
from tests.serve.kills import start
from tests.serve.malformed import SEARCH, form, head

ITEMS = 20
MOST_SECONDS = 2.0  # of load before the signal
MORE_SECONDS = 2.0  # for the system, which ends the process
QUERY = b'{"codes": ["0000"]}'
SEARCH_CODE = head("/v1/search/code", "application/json", len(QUERY)) + QUERY
SEARCH_IMAGE = head(SEARCH, "multipart/form-data; boundary=x", len(form(picture(0)))) + form(picture(0))
SLOW_FORM = form(b"P3 7000 7000 255\n" + b"1 " * 9_000_000)
SLOW_IMAGE = head(SEARCH, "multipart/form-data; boundary=x", len(SLOW_FORM)) + SLOW_FORM
INFO = head("/v1/info", "text/plain", 0, method="GET")
# What a client sends again and again, and whether it reads the answers.
CLIENTS = {
    "codes": (SEARCH_CODE, True),
    "pictures": (SEARCH_IMAGE, True),
    "slow pictures": (SLOW_IMAGE, True),
    "unread": (SEARCH_CODE * 20, False),
    "pipelines": (INFO * 1000, False),
    "half a head": (INFO[:30], False),
    "half a body": (SEARCH_IMAGE[:-20], False),
}
# What a service waits for, up to half a minute, comes in one of five rounds.
RARE = {"slow pictures": 0, "half a body": 1}


def load(port: int, sent: bytes, reads: bool, is_over: Callable[[], bool]) -> None:
    """Send requests until the service is gone; a client that does not read stays connected."""
    while not is_over():
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(sent)
            while not is_over() and (not reads or connection.recv(1 << 16)):
                if reads:
                    connection.sendall(sent)
                else:
                    time.sleep(0.1)


def children_of(process: int) -> list[str]:
    """The processes that a process started; each of its threads lists its own."""
    children = []
    for task in Path(f"/proc/{process}/task").iterdir():
        with suppress(OSError):  # the thread has ended; another one has its processes
            children += (task / "children").read_text().split()
    return children


def stop_under_load(settings: Settings, rng: random.Random, kinds: list[str]) -> tuple[float, int]:
    """Seconds from the signal to the end of a service, and its exit code."""
    process, address = start(settings)
    port, is_over = int(address.rsplit(":", 1)[1].strip("/")), threading.Event()
    clients = [threading.Thread(target=load, args=(port, *CLIENTS[kind], is_over.is_set)) for kind in kinds]
    for client in clients:
        client.start()
    time.sleep(rng.uniform(0, MOST_SECONDS))
    if any("pictures" in kind for kind in kinds):
        wait_until(lambda: bool(children_of(process)))
    children = children_of(process)
    begun = time.monotonic()
    os.kill(process, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    seconds = time.monotonic() - begun
    is_over.set()
    for client in clients:
        client.join()
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children))
    return seconds, code


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    service_module.warm_search = lambda snapshot: None  # type: ignore[assignment]
    service_module.compile_search = lambda bits, kinds: []  # type: ignore[assignment]
    rng = random.Random(options.seed)
    taken, codes = [], Counter[int]()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        hasher = save_model(folder / "model")
        indexed = hasher.encode([picture(seed) for seed in range(ITEMS)])
        save_index(folder / "own.index", indexed, hasher.fingerprint(), indexed.ids * 0, ["a"])
        settings = Settings(str(folder / "model"), str(folder / "own.index"))
        for number in range(options.times):
            kinds = [kind for kind in CLIENTS if kind not in RARE or RARE[kind] == number % 5]
            seconds, code = stop_under_load(settings, rng, kinds * 2)
            taken.append(seconds)
            codes[code] += 1
    late = sum(seconds > STOP_SECONDS + END_SECONDS + MORE_SECONDS for seconds in taken)
    about = {"stops": options.times, "late": late, "slowest_seconds": round(max(taken), 2), "exit_codes": dict(codes)}
    print(json.dumps({**about, "median_seconds": round(sorted(taken)[len(taken) // 2], 2)}))


if __name__ == "__main__":
    main()

"""Kill a service with SIGKILL while clients add and remove items, again and again, and look at what is left.

``python -m tests.serve.kill_writes --times 50`` prints one line of JSON. Everything that was acknowledged must be in
the index with its code and name; a request that was not answered may be there or not. The process that loads torch
forks the services, so that each of them starts at once.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from pathlib import Path

from scdh.data.name_files import load_names
from scdh.errors import ServiceError
from scdh.index import HammingIndex
from scdh.serve import server
from scdh.serve import service as service_module
from scdh.serve.client import Client
from scdh.serve.settings import Settings
from tests.serve.conftest import TOKEN, save_index, save_model, some_vectors

LOAD = 2  # clients that write at once
MOST_CHANGES = 12  # acknowledged before a kill
MOST_SECONDS = 0.03


def start(settings: Settings) -> tuple[int, str]:
    """The process of a service that is ready, and its address."""
    listener = server.bind("127.0.0.1", 0)
    address = server.address_of(listener)
    process = os.fork()
    if process == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            server.run(settings, listener, drain_seconds=0)
        finally:
            os._exit(0)
    listener.close()
    with Client(address, tries=1) as client:
        deadline = time.monotonic() + 120
        while not client.is_ready():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return process, address


def write_until_killed(address: str, told: int, seed: int) -> None:
    """Add and remove, and tell of each change after it was acknowledged; runs in a process of its own."""
    rng = random.Random(seed)
    own: list[int] = []
    with Client(address, token=TOKEN) as client:
        while True:
            try:
                if own and rng.random() < 0.3:
                    gone = own.pop(rng.randrange(len(own)))
                    os.write(told, f"try {gone}\n".encode())
                    client.remove(gone)
                    os.write(told, f"removed {gone}\n".encode())
                else:
                    item_id, code = rng.randrange(1 << 40), f"{rng.randrange(1 << 13) << 3:04x}"
                    client.add_codes([code], ids=[item_id], names=[f"n{item_id}"])
                    os.write(told, f"added {item_id} {code}\n".encode())
                    own.append(item_id)
            except ServiceError:
                os._exit(0)


def run_once(settings: Settings, rng: random.Random, expected: dict[int, str], unsure: set[int]) -> int:
    """Serve, write, kill; ``expected`` and ``unsure`` grow by what was told. The number of acknowledged changes."""
    process, address = start(settings)
    reader, told = os.pipe()
    writers = []
    for _ in range(LOAD):
        writer = os.fork()
        if writer == 0:
            os.close(reader)
            write_until_killed(address, told, rng.randrange(1 << 30))
        writers.append(writer)
        rng.random()
    os.close(told)
    # At a random moment after some changes were acknowledged, however fast the machine is.
    text, wanted = b"", rng.randrange(1, MOST_CHANGES)
    while sum(not line.startswith(b"try") for line in text.splitlines()) < wanted:
        block = os.read(reader, 1 << 16)
        assert block, "the writers ended before the service was killed"
        text += block
    time.sleep(rng.uniform(0, MOST_SECONDS))
    os.kill(process, signal.SIGKILL)
    for child in (process, *writers):
        os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as handle:
        lines = (text + handle.read()).decode().splitlines()
    for line in lines:
        kind, number, *code = line.split()
        if kind == "added":
            expected[int(number)] = code[0]
        elif kind == "try":
            unsure.add(int(number))
        else:
            expected.pop(int(number))
            unsure.discard(int(number))
    return sum(not line.startswith("try") for line in lines)


def check(path: Path, expected: dict[int, str], unsure: set[int], started_with: int) -> None:
    index = HammingIndex.load(path, verify=True)
    names = load_names(path)
    assert names is not None
    held = {int(i): row.tobytes().hex() for i, row in zip(index.ids, index.codes.packed, strict=True)}
    for item_id, code in list(expected.items()):
        if item_id in unsure and item_id not in held:
            del expected[item_id]  # its removal was done, but not acknowledged
            continue
        assert held[item_id] == code, f"the acknowledged item {item_id} is lost"
        assert names.names_of([item_id]).tolist() == [f"n{item_id}"]
    assert len(held) >= started_with + len(expected)
    assert (names.positions_of(index.ids) >= 0).all(), "an item without a name"
    unsure.clear()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    service_module.warm_search = lambda snapshot: None  # type: ignore[assignment]
    rng, expected, unsure, acknowledged = random.Random(options.seed), {}, set(), 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        hasher = save_model(folder / "model", width=5)
        codes = hasher.encode(some_vectors(20))
        save_index(folder / "own.index", codes, hasher.fingerprint(), codes.ids * 0, ["a"])
        settings = Settings(str(folder / "model"), str(folder / "own.index"), token=TOKEN)
        for _ in range(options.times):
            acknowledged += run_once(settings, rng, expected, unsure)
            check(folder / "own.index", expected, unsure, 20)
    print(json.dumps({"kills": options.times, "acknowledged": acknowledged, "lost": 0}))


if __name__ == "__main__":
    main()

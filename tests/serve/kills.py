"""Kill a service with SIGKILL while clients add and remove items, again and again, and look at what is left.

``python -m tests.serve.kills --times 50`` prints one line of JSON. After each kill ``scdh check`` must pass, and the
next service must answer as was acknowledged: items that were added are found with their code and name, items that were
removed are not there. A request that was not answered was done wholly or not at all. The process that loads torch forks
the services, so that each of them starts at once.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from scdh.data.name_files import load_names
from scdh.errors import ServiceError
from scdh.index import HammingIndex
from scdh.serve import server
from scdh.serve import service as service_module
from scdh.serve.client import Client
from scdh.serve.settings import Settings
from tests.cli.commands import must
from tests.serve.conftest import TOKEN, save_index, save_model, some_vectors

WRITERS = 4  # clients that write at once
STARTED_WITH = 20
MOST_CHANGES = 30  # acknowledged before a kill
MOST_SECONDS = 0.03
ASKED = 20  # items of each kind that are asked for after a restart; the file has all of them checked


@dataclass
class Reported:
    """What clients reported about their changes.

    Args:
        added: id → code of the items whose addition was acknowledged.
        removed: ids whose removal was acknowledged.
        adding: the items of each addition that was not answered.
        removing: ids whose removal was not answered.
        changes: that were acknowledged, by kind.
    """

    added: dict[int, str] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)
    adding: list[dict[int, str]] = field(default_factory=list)
    removing: set[int] = field(default_factory=set)
    changes: Counter[str] = field(default_factory=Counter)

    def read(self, lines: list[str]) -> None:
        for line in lines:
            kind, text = line.split(maxsplit=1)
            items = {int(number): code for number, code in json.loads(text).items()}
            if kind == "adding":
                self.adding.append(items)
                continue
            if kind == "removing":
                self.removing |= items.keys()
                continue
            if kind == "added":
                self.adding.remove(items)
                self.added |= items
            else:
                self.removing -= items.keys()
                self.removed |= items.keys()
                for item_id in items:
                    del self.added[item_id]
            self.changes[kind] += 1


def start(settings: Settings) -> tuple[int, str]:
    """The process of a service that is ready, and its address."""
    listener = server.bind("127.0.0.1", 0)
    address = server.address_of(listener)
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            server.run(settings, listener, drain_seconds=0)
            code = 0
        finally:
            os._exit(code)
    listener.close()
    with Client(address, tries=1) as client:
        deadline = time.monotonic() + 120
        while not client.is_ready():
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return process, address


def write_until_killed(address: str, pipe: int, own: dict[int, str], seed: int) -> None:
    """Add and remove, and tell of each change before it is sent and after it was acknowledged; runs in a process of its
    own, which alone removes the items ``own``."""
    rng = random.Random(seed)

    def tell(kind: str, items: dict[int, str]) -> None:
        os.write(pipe, f"{kind} {json.dumps(items)}\n".encode())  # short enough to be written in one piece

    with Client(address, token=TOKEN) as client:
        while True:
            try:
                if own and rng.random() < 0.4:
                    item_id = rng.choice(sorted(own))
                    gone = {item_id: own.pop(item_id)}
                    tell("removing", gone)
                    client.remove(item_id)
                    tell("removed", gone)
                else:
                    new = {
                        rng.randrange(1 << 40): f"{rng.randrange(1 << 13) << 3:04x}" for _ in range(rng.randint(1, 4))
                    }
                    tell("adding", new)
                    client.add_codes(list(new.values()), ids=list(new), names=[f"n{item_id}" for item_id in new])
                    tell("added", new)
                    own |= new
            except ServiceError:
                os._exit(0)


def write_and_kill(address: str, process: int, rng: random.Random, reported: Reported) -> None:
    """Clients write until the service is killed at a random moment, after some changes were acknowledged however fast
    the machine is."""
    reader, writer_end = os.pipe()
    writers: list[int] = []
    known = sorted(reported.added.items())
    for number in range(WRITERS):
        seed = rng.randrange(1 << 30)
        writer = os.fork()
        if writer == 0:
            os.close(reader)
            write_until_killed(address, writer_end, dict(known[number::WRITERS]), seed)
        writers.append(writer)
    os.close(writer_end)
    text, wanted = b"", rng.randrange(1, MOST_CHANGES)
    while text.count(b"added") + text.count(b"removed") < wanted:
        block = os.read(reader, 1 << 16)
        assert block, "the writers ended before the service was killed"
        text += block
    time.sleep(rng.uniform(0, MOST_SECONDS))
    os.kill(process, signal.SIGKILL)
    for child in (process, *writers):
        os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as handle:
        reported.read((text + handle.read()).decode().splitlines())


def check_file(path: Path, reported: Reported) -> None:
    """Compare the file with what was acknowledged; what was not answered is then known."""
    must(["check", str(path)])
    index = HammingIndex.load(path, verify=True)
    names = load_names(path)
    assert names is not None
    held = {int(i): row.tobytes().hex() for i, row in zip(index.ids, index.codes.packed, strict=True)}
    for items in reported.adding:
        is_there = [item_id in held for item_id in items]
        assert all(is_there) or not any(is_there), f"an addition was done in part: {items}"
        reported.added |= items if any(is_there) else {}
    for item_id in reported.removing - held.keys():
        del reported.added[item_id]
        reported.removed.add(item_id)
    reported.adding.clear()
    reported.removing.clear()
    for item_id, code in reported.added.items():
        assert held.get(item_id) == code, f"the acknowledged item {item_id} is lost"
        assert names.names_of([item_id]).tolist() == [f"n{item_id}"]
    assert not reported.removed & held.keys(), "a removed item is there again"
    assert set(range(STARTED_WITH)) <= held.keys()
    assert (names.positions_of(index.ids) >= 0).all(), "an item without a name"


def check_service(address: str, rng: random.Random, reported: Reported) -> None:
    """Ask the new service for some of the items, and search for them."""
    with Client(address) as client:
        for item_id in rng.sample(sorted(reported.added), min(ASKED, len(reported.added))):
            item = client.item(item_id)
            assert (item["code"], item["name"]) == (reported.added[item_id], f"n{item_id}")
            found = client.search_codes(item["code"], radius=0)[0]
            assert item_id in [hit.id for hit in found.hits]
        for item_id in rng.sample(sorted(reported.removed), min(ASKED, len(reported.removed))):
            with pytest.raises(ServiceError, match="does not contain the id"):
                client.item(item_id)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    service_module.warm_search = lambda snapshot: None  # type: ignore[assignment]
    service_module.compile_search = lambda bits, kinds: []  # type: ignore[assignment]
    rng, reported = random.Random(options.seed), Reported()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        hasher = save_model(folder / "model", width=5)
        codes = hasher.encode(some_vectors(STARTED_WITH))
        save_index(folder / "own.index", codes, hasher.fingerprint(), codes.ids * 0, ["a"])
        settings = Settings(str(folder / "model"), str(folder / "own.index"), token=TOKEN)
        for _ in range(options.times):
            process, address = start(settings)
            check_service(address, rng, reported)
            write_and_kill(address, process, rng, reported)
            check_file(folder / "own.index", reported)
        process, address = start(settings)
        check_service(address, rng, reported)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    result = {"kills": options.times, "acknowledged": reported.changes.total(), "lost": 0, **reported.changes}
    print(json.dumps({**result, "items": len(reported.added) + STARTED_WITH}))


if __name__ == "__main__":
    main()

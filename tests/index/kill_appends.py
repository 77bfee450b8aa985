"""Kill a writer with SIGKILL at random moments, again and again on the same file, and look at what is left.

``python -m tests.index.kill_appends --times 200`` prints one line of JSON. A child adds and removes codes and
tells of each commit after it has returned; the parent reads the file all the while, kills the child, opens the
file with all checksums, and compares it with a plain dict: all reported commits must be
there, at most one more, and every code as it was. What the child does in step i follows from (seed, i) and
the ids there are, so the parent can redo it.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.kernels.distances import packed_rows
from scdh.index.store import IndexWriter, read_index
from scdh.index.store import writer as store_writer

BITS = 65
MOST_ITEMS = 4000


def operation(seed, step, ids):
    """("add", new ids, packed rows) or ("remove", ids): from single codes to thousands, never beyond a few thousand."""
    rng = np.random.default_rng([seed, step])
    if len(ids) > MOST_ITEMS or (len(ids) > 10 and rng.random() < 0.3):
        count = len(ids) * 3 // 4 if len(ids) > MOST_ITEMS else rng.integers(1, len(ids) // 2 + 1)
        return "remove", rng.choice(ids, size=count, replace=False), None
    count = int(rng.choice([1, 1, 3, 40, 700, 2500]))
    # Steps have ids of their own, so none is taken; some leave gaps, some come in descending order.
    new = step * 10_000 + np.arange(count) * rng.integers(1, 4)
    packed = Codes.from_signs(rng.random((count, BITS)) < 0.5).packed
    return "add", new[:: int(rng.choice([1, -1]))], packed


def apply(model, kind, ids, packed):
    if kind == "add":
        model.update(zip(ids.tolist(), (row.tobytes() for row in packed), strict=True))
    else:
        for gone in ids.tolist():
            del model[gone]


def content(stored):
    """{id: packed bytes} of a stored index or a writer."""
    items = {}
    for segment in stored.segments:
        rows = segment.alive_rows()
        packed = packed_rows(segment.words[:, rows], stored.bits)
        items.update(zip(segment.ids_of(rows).tolist(), (row.tobytes() for row in packed), strict=True))
    assert len(items) == len(stored), "an id is there twice"
    return items


def write_until_killed(path, seed, step, reported):
    store_writer.UNUSED_BYTES = 100_000  # so that the file is rewritten every few dozen commits
    with IndexWriter(path, bits=BITS) as writer:
        ids = sorted(content(writer))
        while True:
            kind, chosen, packed = operation(seed, step, np.array(ids, dtype=np.int64))
            if kind == "add":
                writer.add(Codes(packed, BITS), chosen)
            else:
                writer.remove(chosen)
            os.write(reported, b".")
            ids = sorted(set(ids) ^ set(chosen.tolist()))
            step += 1


def start(path, seed, step):
    """A child that writes from this step on, and the end of a pipe in which there is one byte for each commit."""
    reported, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reported)
            write_until_killed(path, seed, step, tell)
        except BaseException as error:
            print(f"the writer failed: {error!r}", file=sys.stderr, flush=True)
        finally:
            os._exit(1)
    os.close(tell)
    return child, reported


def read_meanwhile(path, until):
    """What a reader saw: digests of whole states."""
    seen = set()
    while time.monotonic() < until:
        if path.exists():
            seen.add(digest(content(read_index(path, verify=True))))
        time.sleep(0.002)
    return seen


def digest(model):
    return hash(frozenset(model.items()))


def run(folder, times, seed):
    path = Path(folder) / "killed.index"
    moments = random.Random(seed)
    model, step = {}, 0
    states = {digest(model)}
    result = {"kills": 0, "commits": 0, "corrupt": 0, "lost": 0, "in_flight_kept": 0, "reads": 0}
    inodes = set()
    for _ in range(times):
        child, reported = start(path, seed, step)
        try:
            seen = read_meanwhile(path, time.monotonic() + moments.uniform(0, 0.12))
        finally:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            raise SystemExit("The writer ended by itself before it was killed.")
        with open(reported, "rb") as pipe:
            acknowledged = len(pipe.read())
        result["kills"] += 1
        for _ in range(acknowledged):
            apply(model, *operation(seed, step, np.array(sorted(model), dtype=np.int64)))
            states.add(digest(model))
            step += 1
        after = dict(model)
        apply(after, *operation(seed, step, np.array(sorted(model), dtype=np.int64)))
        states.add(digest(after))
        if not path.exists() and step == 0:
            continue
        try:
            found = content(read_index(path, verify=True))
        except (CodesError, AssertionError) as error:
            print(error, file=sys.stderr)
            result["corrupt"] += 1
            break
        inodes.add(os.stat(path).st_ino)
        result["reads"] += len(seen)
        if found == after:
            model, step = after, step + 1
            result["in_flight_kept"] += 1
        elif found != model:
            result["lost" if digest(found) in states else "corrupt"] += 1
            break
        result["corrupt"] += not seen <= states
        states = {digest(model)}
        result["commits"] = step
    # One that was just killed may be there; every writer removes those of the ones before.
    result["leftovers"] = len(list(Path(folder).iterdir())) - 1
    result["files"] = len(inodes)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", help="where to write; by default a temporary folder")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(dir=options.folder, prefix="kill-appends-")
    try:
        result = run(folder, options.times, options.seed)
    finally:
        shutil.rmtree(folder)
    print(json.dumps(result))
    sys.exit(bool(result["corrupt"] or result["lost"]))


if __name__ == "__main__":
    main()

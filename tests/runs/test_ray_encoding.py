"""`scdh encode --engine ray` on a cluster of two nodes, with an actor killed and a node removed half-way."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scdh import open_source
from scdh.data.source import Source
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.runs.shards import Shards
from tests.cli.commands import fails, must, run_json
from tests.runs.test_shards import COUNT, OPTIONS, place

os.environ.setdefault("RAY_raylet_start_wait_time_s", "600")  # a busy machine needs more than Ray's 30 s
ray = pytest.importorskip(
    "ray", reason="ray takes 245 MB and is not installed for development: pip install 'scdh[ray]'"
)
pytestmark = pytest.mark.slow
OPEN = 20  # shards whose images can be read before the gate is open
__all__ = ["place"]


class GatedSource(Source):
    """Photos of which some can only be read once a file is there, so that an actor can be killed at its work."""

    def __init__(self, photos: Path, gate: Path, rows: int) -> None:
        self.inner, self.gate, self.rows = open_source(photos), gate, rows
        vars(self).update({name: value for name, value in vars(self.inner).items() if name not in vars(self)})
        self.kind = self.inner.kind

    def fingerprint(self) -> str:
        return self.inner.fingerprint()

    def item_name(self, row: int) -> str:
        return self.inner.item_name(row)

    def image(self, row: int, needed_side: int | None = None) -> Image.Image:
        while row >= self.rows and not self.gate.exists():
            time.sleep(0.01)
        return self.inner.image(row, needed_side)


def gated(photos: Path, gate: Path, rows: int) -> Source:
    return GatedSource(photos, gate, rows)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes with one core each."""
    from ray.cluster_utils import Cluster

    # A process that has ended is found soon; one that only answers slowly is not taken for dead.
    patient = {"health_check_timeout_ms": 120_000, "health_check_period_ms": 1_000, "worker_niceness": 0}
    node = {"num_cpus": 1, "object_store_memory": 100 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "_system_config": patient})
    cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    yield cluster
    cluster.shutdown()


def actors_of(node: Any) -> list[int]:
    """The processes of a node that hold a shard encoder."""
    (raylet,) = (info.process.pid for info in node.all_processes["raylet"])
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == raylet and b"ShardEncoder" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


def wait_until(condition: Any, thread: threading.Thread) -> Any:
    while not (value := condition()):
        assert thread.is_alive(), "encoding ended too early"
        time.sleep(0.05)
    return value


def test_the_codes_are_those_of_one_process_after_kills(place: Path, cluster: Any, tmp_path: Path) -> None:
    from scdh.runs.ray_encoding import Work, encode_on_ray

    gate, folder = tmp_path / "gate", tmp_path / "s"
    folder.mkdir()
    rows, load = np.arange(COUNT), partial(RunFolder(place / "model").load_model, None)
    shards = Shards.of(folder, 22, Hasher.load(place / "model").fingerprint(), open_source(place / "photos"), rows, 2)
    work = Work(partial(gated, place / "photos", gate, 2 * OPEN), load, shards, {"workers": 0}, os.getcwd())
    done: list[int] = []
    failed: list[BaseException] = []

    def encode() -> None:
        try:
            done.extend(encode_on_ray(work, list(range(22)), address=cluster.address, cores=1))
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=encode, daemon=True)
    thread.start()
    second = next(node for node in cluster.worker_nodes)
    wait_until(lambda: len(list(folder.iterdir())) >= OPEN, thread)  # now two shards wait for the gate
    killed = wait_until(lambda: actors_of(cluster.head_node), thread)[0]
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: [pid for pid in actors_of(cluster.head_node) if pid != killed] or None, thread)
    cluster.remove_node(second, allow_graceful=False)
    gate.touch()
    thread.join()
    assert not failed
    assert sorted(set(done)) == list(range(22))
    must(f"encode --merge {folder} --out {tmp_path}/all.codes")
    assert (tmp_path / "all.codes").read_bytes() == (place / "whole.codes").read_bytes()


def test_the_command_encodes_on_a_running_cluster(place: Path, cluster: Any, tmp_path: Path) -> None:
    address = f"--engine ray --address {cluster.address}"
    command = f"encode {place}/model {place}/photos {OPTIONS} {address} --out {tmp_path}/s"
    result = run_json(f"{command} --shards 3 --json")
    assert (result["shards"], result["encoded"], result["skipped"]) == (3, 3, 0)
    assert run_json(f"{command} --json")["skipped"] == 3  # the number of shards is that of the folder
    must(f"encode --merge {tmp_path}/s --out {tmp_path}/all.codes")
    assert (tmp_path / "all.codes").read_bytes() == (place / "whole.codes").read_bytes()
    (tmp_path / "photos" / "a").mkdir(parents=True)
    (tmp_path / "photos" / "a" / "1.png").write_bytes(b"broken")
    assert "1.png" in fails(f"encode {place}/model {tmp_path}/photos {OPTIONS} {address} --out {tmp_path}/t --cores 1")

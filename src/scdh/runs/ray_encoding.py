"""Shards encoded by Ray Data: a pool of actors on any number of machines, each with its own copy of the model.

An item of Ray's data set is the number of a shard. Ray restarts actors that died and gives their shard to another one;
the file of a shard appears whole or not at all and is skipped if it is there, so files are the checkpoint, and nothing
is encoded twice or lost. Data and model are opened by each actor, so all machines need the same paths.
"""

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.data.source import Source
from scdh.errors import ConfigError, ScdhError
from scdh.extras import check_installed
from scdh.model.hasher import Hasher
from scdh.runs.encoding import encode_rows, hash_outputs_of_rows
from scdh.runs.shards import Shards

CORES = 4  # of an actor, if no node has fewer


@dataclass(frozen=True)
class Work:
    """What an actor needs to encode shards."""

    open_source: Callable[[], Source]
    load_model: Callable[[], Hasher]
    shards: Shards
    options: dict[str, Any]
    folder: str


class ShardEncoder:
    """The actor: opens data and model once, then encodes the shards that it is given."""

    def __init__(self, work: Work, cores: int) -> None:
        os.chdir(work.folder)
        torch.set_num_threads(cores)
        self._problem = ""
        try:
            source, hasher, own = work.open_source(), work.load_model(), work.shards
            there = Shards.of(own.folder, own.count, hasher.fingerprint(), source, own.rows, own.batch_size)
            if (there.data, there.model) != (own.data, own.model):
                self._problem = f"{os.uname().nodename} finds other data or another model than the first machine."
        except ScdhError as error:
            self._problem = str(error)
            return
        self._shards = own
        self._encode = partial(
            encode_rows,
            hasher,
            source,
            hash_outputs=partial(hash_outputs_of_rows, images=len(own.rows)),
            batch_size=own.batch_size,
            **work.options,
        )

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        done, problems = [], []
        for shard in batch["shard"].tolist():
            problem = self._problem
            try:
                if not problem and not self._shards.is_done(shard):
                    self._shards.encode(shard, partial(self._encode, title=f"shard {shard}"))
            except ScdhError as error:
                problem = str(error)
            done.append(shard)
            problems.append(problem)
        return {"shard": done, "problem": problems}


def encode_on_ray(work: Work, todo: list[int], *, address: str | None, cores: int | None) -> Iterator[int]:
    """Encode the shards ``todo`` and yield the number of each that is done.

    Raises:
        ConfigError: if Ray is not installed, cannot be reached, or has no room for an actor; or if an actor failed.
    """
    check_installed("--engine ray", "ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # otherwise Ray sends usage data to its developers
    import ray

    ray.init(
        address=address,
        include_dashboard=None if address else False,
        logging_level=logging.WARNING,
        log_to_driver=False,
    )
    try:
        yield from _encode(ray, work, todo, cores)
    except ray.exceptions.RayError as error:
        raise ConfigError(f"Ray could not go on: {str(error).strip().splitlines()[-1]}") from error
    finally:
        ray.shutdown()


def _encode(ray: Any, work: Work, todo: list[int], cores: int | None) -> Iterator[int]:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = cores or int(min(CORES, *(node.get("CPU", 0) or CORES for node in nodes), CORES))
    gpus = 1 if any(node.get("GPU") for node in nodes) else 0
    room = int(sum(node.get("GPU", 0) if gpus else node.get("CPU", 0) // cores for node in nodes))
    if room < 1:
        raise ConfigError(f"No node of the cluster has the {cores} cores of an actor; --cores sets a smaller number.")
    ray.data.DataContext.get_current().enable_progress_bars = False
    shards = ray.data.from_items([{"shard": shard} for shard in todo], override_num_blocks=len(todo))
    logging.getLogger("ray.data").setLevel(logging.WARNING)  # after Ray has set it to INFO
    encoded = shards.map_batches(
        ShardEncoder,
        fn_constructor_args=(work, cores),
        batch_size=1,
        num_cpus=cores,
        num_gpus=gpus,
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(room, len(todo))),
    )
    for row in encoded.iter_rows():
        if row["problem"]:
            raise ConfigError(row["problem"])
        yield int(row["shard"])


def shard_count(rows: int, batch_size: int, folder: Path) -> int:
    """The number of shards of a new folder; that of the shards which are there already."""
    found = sorted(folder.glob("shard-*-of-*.codes"))
    if found:
        return int(found[0].name.split("-of-")[1][:5])
    return max(1, min(-(-rows // batch_size), -(-rows // 4096)))

"""One small file of every kind that scdh stores, with a function that reads all of it."""

import hashlib
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.cli.app import USER_ERROR
from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.errors import ScdhError
from scdh.experiments.compare.results import ComparisonResults
from scdh.index import HammingIndex
from scdh.model.hasher import Hasher
from scdh.runs.choices import Choices
from scdh.runs.features import cached_trunk_features
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.storage.checksums import CHECKSUM
from scdh.training.checkpoint import Progress, load_checkpoint
from scdh.training.optim import build_optimiser, build_schedule
from tests.cli.commands import must
from tests.cli.commands import run as run_command
from tests.data.data_files import write_pictures

COMPARE = "compare itq lsh --data digits --bits 8 --seeds 0"
QUERIES = Codes.from_signs(np.random.default_rng(5).normal(size=(3, 32)))


@dataclass(frozen=True)
class Stored:
    """A file of some kind; ``read`` gives a digest of all that a user gets from it. ``seldom``: that takes long."""

    kind: str
    file: Path
    read: Callable[[], str]
    seldom: bool = False


def digest(*parts: Any) -> str:
    """The same text for the same contents."""
    state = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            state.update(f"{part.dtype} {part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        else:
            state.update(json.dumps(part, sort_keys=True, default=str).encode())
    return state.hexdigest()


def read_codes(path: Path) -> str:
    codes = Codes.load(path)
    names = RowNames.load(path, codes.ids, len(codes))
    return digest(codes.packed, codes.ids, codes.bits, codes.metadata, *_parts(names))


def read_index(path: Path) -> str:
    index = HammingIndex.load(path)
    hits = index.search(QUERIES, k=20)
    # As a search does: names of rows that a killed --append did not add count for nothing.
    names = RowNames.load(path, index.ids, len(index), may_have_more=True)
    return digest(hits.ids, hits.distances, index.ids, *_parts(names))


def _parts(names: RowNames | None) -> list[Any]:
    return [None] if names is None else [names.ids, list(names.names), names.labels, names.label_names]


def read_model(folder: Path) -> str:
    model = Hasher.load(folder, device="cpu")
    vectors = np.random.default_rng(1).normal(size=(5, 64)).astype(np.float32)
    settings = model.config.model_dump(mode="json")
    return digest(model.fingerprint(), model.hash_outputs(vectors), model.label_names, model.multi_label, settings)


def read_run(folder: Path) -> str:
    run = RunFolder(folder)
    config = run.config()
    protocol = run.protocol(source_of(config))
    parts = [protocol.train, protocol.query, protocol.database, protocol.validation]
    about = [protocol.name, protocol.about, protocol.fingerprint]
    return digest(config.model_dump(mode="json"), about, *parts)


def read_choices(path: Path) -> str:
    choices = Choices.load(path)
    made = [[vars(part) for part in parts] for parts in (choices.made, choices.trials)]
    return digest(choices.resolved().model_dump(mode="json"), choices.to_try, choices.refit, choices.protocol, made)


@dataclass
class Training:
    """Everything that a checkpoint of a run holds, as it is while the run trains."""

    modules: dict[str, torch.nn.Module]
    optimiser: torch.optim.Optimizer
    schedule: torch.optim.lr_scheduler.LRScheduler
    progress: Progress
    counters: dict[str, int]

    @classmethod
    def restored(cls, run: RunFolder) -> "Training":
        """As ``scdh train --resume`` restores it."""
        hasher = Hasher.load(run.path, device="cpu")
        optimiser = build_optimiser(hasher.network, hasher.method, hasher.config.train)
        schedule = build_schedule(optimiser, hasher.config.train, 10)
        modules: dict[str, torch.nn.Module] = {"net": hasher.network, "method": hasher.method}
        return cls(modules, optimiser, schedule, *load_checkpoint(run.checkpoint, modules, optimiser, schedule))

    def digest(self) -> str:
        state = {**self.optimiser.state_dict(), "schedule": self.schedule.state_dict(), "progress": vars(self.progress)}
        momenta = [tensor for entry in state.pop("state").values() for tensor in entry.values()]
        weights = [tensor for module in self.modules.values() for tensor in module.state_dict().values()]
        tensors = [torch.get_rng_state(), *weights, *momenta]
        return digest(state, self.counters, *(tensor.detach().numpy() for tensor in tensors))


def read_checkpoint(run: RunFolder) -> str:
    return Training.restored(run).digest()


def read_features(run: RunFolder, augmentation: str = "none", *, stores: bool = False) -> str:
    """Features of all rows of a run: those that are kept, and others computed."""
    source, key = source_of(run.config()), None if augmentation == "none" else (0, 1)
    settings: dict[str, Any] = {"workers": 0, "augmentation": augmentation, "random_key": key, "stores": stores}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a damaged file is computed again
        every_row = np.arange(len(source))
        return digest(*cached_trunk_features(run.load_model(), source, every_row, folder=run.features, **settings))


def prepare(d: Path) -> None:
    """A run with codes, an index and scores in the folder ``d``; a second model and other codes to replace them by."""
    train = "train --preset demo-digits --epochs 1 --bits 32 --set data.validation_per_class=2"
    must(f"{train} --out {d}/run")
    must(f"{train} --seed 1 --out {d}/other")
    must(f"evaluate {d}/run")
    for name in ("run", "other"):
        must(f"encode {d}/{name} digits --part query --out {d}/{name}.codes")
        must(f"index {d}/{name}.codes --out {d}/{name}.index")
    must(f"encode {d}/run digits --part validation --out {d}/more.codes")
    must(f"encode {d}/other digits --part query --batch-size 64 --shards 2 --out {d}/shards")
    must(f"export {d}/run.codes --to elasticsearch --out {d}/run.ndjson")
    HammingIndex(Codes.load(d / "run.codes")).save(d / "plain.index")


def prepare_more(d: Path) -> None:
    """A run with choices, a comparison, and a run on photos that keeps features, in the folder ``d``."""
    must(f"train --data digits --bits 16 --epochs 1 --no-trials --out {d}/chosen")
    must(f"{COMPARE} --out {d}/compared")
    write_pictures(d / "photos", [f"{kind}/{i:02}.png" for kind in ("cat", "dog") for i in range(8)])
    settings = "net.backbone=small_conv net.image_size=16 net.freeze=true train.workers=0 train.augmentation=none"
    options = " ".join(f"--set {setting}" for setting in [*settings.split(), "data.query_per_class=2"])
    must(f"train --data {d}/photos --bits 8 --epochs 1 {options} --out {d}/pictures/run")
    must(f"evaluate {d}/pictures/run")
    shards = sorted((d / "pictures/run/features").glob("*/*.safetensors"))
    assert len(shards) > 1  # one that is damaged leaves others


def stored(d: Path, more: Path) -> list[Stored]:
    """Every kind of file below ``d``, which :func:`prepare` filled, and ``more``, which :func:`prepare_more` did."""
    run, pictures, compared = RunFolder(d / "run"), RunFolder(more / "pictures/run"), more / "compared"
    (names,) = d.glob("run.index.items-*")
    shard = max((more / "pictures/run/features").glob("*/*.safetensors"), key=lambda path: path.stat().st_size)
    cell = RunFolder(compared / "cells/itq-8-0")

    def compare() -> str:
        """The results that the same command gives again: from what is kept, or recomputed."""
        results = command_json(f"{COMPARE} --out {compared} --json")
        return digest({key: value for key, value in results.items() if key not in ("versions", "configs")})

    return [
        Stored("codes", d / "run.codes", lambda: read_codes(d / "run.codes")),
        Stored("index", d / "run.index", lambda: read_index(d / "run.index")),
        Stored("names of an index", names, lambda: read_index(d / "run.index")),
        Stored("weights", run.model / "model.safetensors", lambda: read_model(run.model)),
        Stored("model's config.json", run.model / "config.json", lambda: read_model(run.model)),
        Stored("run's config.json", run.config_file, lambda: read_run(run.path)),
        Stored("split", run.protocol_file, lambda: read_run(run.path)),
        Stored("checkpoint", run.checkpoint, lambda: read_checkpoint(run)),
        Stored("scores.json", run.scores(), lambda: digest(without_checksum(run.saved_scores()))),
        Stored("choices.json", more / "chosen/choices.json", lambda: read_choices(more / "chosen/choices.json")),
        Stored("kept features", shard, lambda: read_features(pictures)),
        Stored(
            "compare.json", compared / "compare.json", lambda: digest(ComparisonResults.read(compared).model_dump())
        ),
        Stored("comparison: scores of a run", cell.scores(), compare, seldom=True),
        Stored("comparison: model of a run", cell.model / "model.safetensors", compare, seldom=True),
        Stored("comparison: scores of floats", compared / "floats/0.json", compare, seldom=True),
    ]


def without_checksum(content: dict[str, Any]) -> dict[str, Any]:
    """What a file says, without the entry that only guards it."""
    return {key: value for key, value in content.items() if key != CHECKSUM}


def command_json(text: str) -> Any:
    """What a command prints; its own error is an error of scdh, as in Python."""
    return json.loads(command(text))


def command(text: str) -> str:
    """What a command prints; its own error is an error of scdh, as in Python."""
    code, out, err = run_command(text)
    if code == USER_ERROR:
        raise ScdhError(err.strip().splitlines()[-1])
    if code:
        raise RuntimeError(f"scdh {text} ended with {code}: {err}")
    return out

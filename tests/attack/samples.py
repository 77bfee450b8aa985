"""One small file of every kind that scdh stores, with a function that reads all of it; and the work that writes it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scdh.cli.app import USER_ERROR
from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.errors import ScdhError
from scdh.hasher import Hasher
from scdh.index import HammingIndex
from scdh.runs.choices import Choices
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from tests.cli.commands import must, run

QUERIES = Codes.from_signs(np.random.default_rng(5).normal(size=(3, 32)))


@dataclass(frozen=True)
class Stored:
    """A file of some kind; ``read`` gives a digest of all that a user gets from it."""

    kind: str
    file: Path
    read: Callable[[], str]


@dataclass(frozen=True)
class Work:
    """Work that changes files: ``do`` does it in a copy of ``folder``, ``read`` gives a digest of what is there."""

    kind: str
    folder: Path
    do: Callable[[Path], object]
    read: Callable[[Path], str]


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
    return digest(codes.packed, codes.ids, codes.bits, codes.metadata, *_names(path, codes.ids, len(codes)))


def read_index(path: Path) -> str:
    index = HammingIndex.load(path)
    hits = index.search(QUERIES, k=20)
    return digest(hits.ids, hits.distances, index.ids, *_names(path, index.ids, len(index)))


def _names(path: Path, ids: np.ndarray | None, count: int) -> list[Any]:
    names = RowNames.load(path, ids, count)
    return [None] if names is None else [names.ids, names.names, names.labels, names.label_names]


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
    return digest(config.model_dump(mode="json"), protocol.fingerprint, *parts)


def read_choices(path: Path) -> str:
    choices = Choices.load(path)
    assert choices is not None
    return digest(choices.resolved().model_dump(mode="json"), [vars(trial) for trial in choices.trials])


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


def stored(d: Path) -> list[Stored]:
    """Every kind of file below ``d``."""
    folder = RunFolder(d / "run")
    names = next((d.glob("run.index.items*")), None)
    files = [
        Stored("codes", d / "run.codes", lambda: read_codes(d / "run.codes")),
        Stored("index", d / "run.index", lambda: read_index(d / "run.index")),
        Stored("weights", folder.model / "model.safetensors", lambda: read_model(folder.model)),
        Stored("model's config.json", folder.model / "config.json", lambda: read_model(folder.model)),
        Stored("run's config.json", folder.config_file, lambda: read_run(folder.path)),
        Stored("split", folder.protocol_file, lambda: read_run(folder.path)),
    ]
    return files + ([Stored("names of an index", names, lambda: read_index(d / "run.index"))] if names else [])


def _command(text: str) -> None:
    """A command; its own refusal is an error of scdh, as in Python."""
    code, _, err = run(text)
    if code == USER_ERROR:
        raise ScdhError(err.strip().splitlines()[-1])
    if code:
        raise RuntimeError(f"scdh {text} ended with {code}: {err}")


def works(d: Path) -> list[Work]:
    """Every kind of work that writes over what is there."""
    new_model = Hasher.load(d / "other", device="cpu")
    return [
        Work(
            "encode --replace",
            d,
            lambda place: _command(f"encode {d}/other digits --part query --out {place}/run.codes --replace"),
            lambda place: read_codes(place / "run.codes"),
        ),
        Work(
            "index --replace",
            d,
            lambda place: _command(f"index {d}/other.codes --out {place}/run.index --replace"),
            lambda place: read_index(place / "run.index"),
        ),
        Work(
            "Hasher.save",
            d,
            lambda place: new_model.save(place / "run/model"),
            lambda place: read_model(place / "run/model"),
        ),
        Work(
            "Codes.save",
            d,
            lambda place: Codes.load(d / "other.codes").save(place / "run.codes"),
            lambda place: digest(Codes.load(place / "run.codes").packed),
        ),
    ]

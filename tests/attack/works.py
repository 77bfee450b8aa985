"""Work that writes over stored files, to be interrupted."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.store import IndexWriter
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.training.checkpoint import save_checkpoint
from tests.attack.samples import (
    Training,
    command,
    digest,
    read_checkpoint,
    read_codes,
    read_features,
    read_index,
    read_model,
)


@dataclass(frozen=True)
class Work:
    """Work that changes files: ``do`` does it in a copy of ``folder``, ``read`` gives a digest of what is there."""

    kind: str
    folder: Path
    do: Callable[[Path], object]
    read: Callable[[Path], str]


def works(d: Path, more: Path) -> list[Work]:
    """Every kind of work that writes over what is there; the folders are those of :mod:`tests.attack.samples`."""
    added, other = Codes.load(d / "more.codes"), RunFolder(d / "other")
    new_model = Hasher.load(d / "other", device="cpu")
    return [
        Work(
            "encode --replace",
            d,
            lambda place: command(f"encode {d}/other digits --part query --out {place}/run.codes --replace"),
            lambda place: read_codes(place / "run.codes"),
        ),
        Work(
            "index --replace",
            d,
            lambda place: command(f"index {d}/other.codes --out {place}/run.index --replace"),
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
        Work(
            "index --append",
            d,
            lambda place: command(f"index {d}/more.codes --out {place}/run.index --append --renumber"),
            lambda place: read_index(place / "run.index"),
        ),
        Work(
            "index --append --on-duplicate replace",
            d,
            lambda place: command(f"index {d}/more.codes --out {place}/run.index --append --on-duplicate replace"),
            lambda place: read_index(place / "run.index"),
        ),
        Work(
            "index --remove",
            d,
            lambda place: command(f"index --out {place}/run.index --remove {_first_id(place / 'run.index')}"),
            lambda place: read_index(place / "run.index"),
        ),
        Work(
            "encode --merge",
            d,
            lambda place: command(f"encode --merge {d}/shards --out {place}/run.codes --replace"),
            lambda place: read_codes(place / "run.codes"),
        ),
        Work(
            "export --replace",
            d,
            lambda place: command(f"export {d}/other.codes --to elasticsearch --out {place}/run.ndjson --replace"),
            lambda place: digest((place / "run.ndjson").read_text()),
        ),
        Work(
            "IndexWriter.add",
            d,
            lambda place: _append(place / "plain.index", added),
            lambda place: read_index(place / "plain.index"),
        ),
        Work(
            "HammingIndex.add and save",
            d,
            lambda place: _add_and_save(place / "plain.index", added),
            lambda place: read_index(place / "plain.index"),
        ),
        Work(
            "save_checkpoint",
            d,
            lambda place: _save_checkpoint(Training.restored(other), place / "run/last.safetensors"),
            lambda place: read_checkpoint(RunFolder(place / "run")),
        ),
        Work(
            "train --resume",
            d,
            lambda place: command(f"train --resume --epochs 2 --out {place}/run"),
            lambda place: read_model(place / "run/model"),
        ),
        Work(
            "keep features",
            more / "pictures",
            # Of random crops, which the folder does not have yet; whatever is kept, their features stay the same.
            lambda place: read_features(RunFolder(place / "run"), "crop", stores=True),
            lambda place: read_features(RunFolder(place / "run"), "crop"),
        ),
    ]


def _first_id(path: Path) -> int:
    return int(HammingIndex.load(path).ids[0])


def _append(path: Path, codes: Codes) -> None:
    with IndexWriter(path) as writer:
        writer.add(Codes(codes.packed, codes.bits))  # without ids: those after the largest


def _add_and_save(path: Path, codes: Codes) -> None:
    index = HammingIndex.load(path)
    index.add(Codes(codes.packed, codes.bits))
    index.save(path)


def _save_checkpoint(training: Training, path: Path) -> None:
    save_checkpoint(path, *vars(training).values())

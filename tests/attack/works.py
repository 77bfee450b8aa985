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

    def by_command(kind: str, text: str, read: Callable[[Path], str]) -> Work:
        return Work(kind, d, lambda place: command(text.format(d=d, place=place)), read)

    def first_id(place: Path) -> int:
        return int(HammingIndex.load(place / "run.index").ids[0])

    def codes(place: Path) -> str:
        return read_codes(place / "run.codes")

    def index(place: Path) -> str:
        return read_index(place / "run.index")

    def plain_index(place: Path) -> str:
        return read_index(place / "plain.index")

    query, append = "digits --part query", "index {d}/more.codes --out {place}/run.index --append"
    return [
        by_command("encode --replace", f"encode {{d}}/other {query} --out {{place}}/run.codes --replace", codes),
        by_command("index --replace", "index {d}/other.codes --out {place}/run.index --replace", index),
        Work(
            "Hasher.save",
            d,
            lambda place: new_model.save(place / "run/model"),
            lambda place: read_model(place / "run/model"),
        ),
        Work(
            "Hasher.save into a new folder",
            d,
            lambda place: new_model.save(place / "new"),
            lambda place: read_model(place / "new") if (place / "new/model.safetensors").exists() else "none",
        ),
        Work(
            "Codes.save",
            d,
            lambda place: Codes.load(d / "other.codes").save(place / "run.codes"),
            lambda place: digest(Codes.load(place / "run.codes").packed),
        ),
        by_command("index --append", f"{append} --renumber", index),
        by_command("index --append --on-duplicate replace", f"{append} --on-duplicate replace", index),
        Work(
            "index --remove",
            d,
            lambda place: command(f"index --out {place}/run.index --remove {first_id(place)}"),
            index,
        ),
        by_command("encode --merge", "encode --merge {d}/shards --out {place}/run.codes --replace", codes),
        by_command(
            "export --replace",
            "export {d}/other.codes --to elasticsearch --out {place}/run.ndjson --replace",
            lambda place: digest((place / "run.ndjson").read_text()),
        ),
        Work("IndexWriter.add", d, lambda place: _append(place / "plain.index", added), plain_index),
        Work("HammingIndex.add and save", d, lambda place: _add_and_save(place / "plain.index", added), plain_index),
        Work(
            "save_checkpoint",
            d,
            lambda place: _save_checkpoint(Training.restored(other), place / "run/last.safetensors"),
            lambda place: read_checkpoint(RunFolder(place / "run")),
        ),
        by_command(
            "train --resume",
            "train --resume --epochs 2 --out {place}/run",
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


def _append(path: Path, codes: Codes) -> None:
    with IndexWriter(path) as writer:
        writer.add(Codes(codes.packed, codes.bits))  # without ids: those after the largest


def _add_and_save(path: Path, codes: Codes) -> None:
    index = HammingIndex.load(path)
    index.add(Codes(codes.packed, codes.bits))
    index.save(path)


def _save_checkpoint(training: Training, path: Path) -> None:
    save_checkpoint(path, *vars(training).values())

"""Reading run folders and encoding parts of data: what ``encode``, ``search`` and ``evaluate`` share. Needs torch."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from scdh.codes import Codes
from scdh.config import RunConfig, parse_config
from scdh.data.batches.loaders import OnBadImage, evaluation_batches
from scdh.data.protocol import Protocol
from scdh.data.row_names import RowNames
from scdh.data.source import Source
from scdh.encode import run_network
from scdh.errors import ConfigError, DataError, ModelError
from scdh.hasher import Hasher
from scdh.losses import quantization_loss
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.runs.folder import STUDENT

Taught = Literal["teacher", "student"]


def load_model(where: str | Path, taught: Taught | None = None) -> Hasher:
    """A model; a run that has none yet is told apart from a folder that is none.

    A run that was taught holds two: the teacher is its model, ``taught="student"`` takes the other.
    """
    folder = Path(where)
    if (folder / "protocol.json").exists() and not (folder / "model").exists():
        raise ModelError(
            f"The run in {str(where)!r} holds no model yet; finish it with `scdh train --resume --out {where}`."
        )
    if folder.is_file():
        raise ModelError(f"{str(where)!r} is a file, but a model is a folder.")
    if taught is not None and not has_student(folder):
        raise ModelError(
            f"{str(where)!r} holds one network only; `--from` is for the folder of a run with a teacher, as of mt_scdh."
        )
    return Hasher.load(folder / STUDENT if taught == "student" else where)


def has_student(folder: Path) -> bool:
    return (folder / STUDENT).is_dir() and (folder / "model").is_dir()


def run_config(folder: Path) -> RunConfig:
    """The settings that a run folder was made with."""
    if not folder.exists():
        raise DataError(f"There is no run folder {str(folder)!r}.")
    try:
        return parse_config(json.loads((folder / "config.json").read_text("utf-8"))["config"])
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{str(folder)!r} is not a run folder: it holds no config.json.") from None
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise DataError(f"{str(folder / 'config.json')!r} does not hold the settings of a run: {error}.") from None


def run_protocol(folder: Path, source: Source) -> Protocol:
    """The split that a run was trained with, if ``source`` still is the data that it divides."""
    protocol = Protocol.load(folder / "protocol.json")
    now = source.fingerprint()
    if now != protocol.source_fingerprint:
        raise DataError(
            f"The data of the run in {str(folder)!r} have changed: the fingerprint of {source.name} is {now}, "
            f"but the run's split was made for {protocol.source_fingerprint}."
        )
    return protocol.check(len(source))


def part_rows(model: str, source: Source, part: str) -> np.ndarray:
    """Row numbers of a part; parts other than "all" are those of the split in the run's folder."""
    if part == "all":
        return np.arange(len(source))
    folder = Path(model)
    if folder.name in ("model", "best", "last", STUDENT) and not (folder / "protocol.json").exists():
        folder = folder.parent
    if not (folder / "protocol.json").exists():
        raise ConfigError(f"--part {part} needs a run folder with a protocol.json, and {model!r} has none.")
    rows: np.ndarray = getattr(run_protocol(folder, source), part)
    if not len(rows):
        raise DataError(f"The {part} part of the run in {str(folder)!r} is empty.")
    return rows


def encode_part(
    hasher: Hasher,
    source: Source,
    rows: np.ndarray,
    *,
    title: str,
    batch_size: int = 128,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
) -> tuple[Codes, RowNames]:
    """Codes of some rows and what they stand for.

    The codes' metadata name the model, and l_q of the real outputs: how far these are from the corners of the cube.
    """
    if workers is not None and workers < 0:
        raise ConfigError(f"--workers must be 0 or more, not {workers}.")
    hasher.check_fits(source)
    batches = evaluation_batches(
        source,
        rows,
        preprocess=hasher.preprocess,
        batch_size=batch_size,
        workers=workers,
        on_bad_image=on_bad_image,
    )
    shown = track(batches, len(rows), title, "items", lambda batch: len(batch.rows))
    method = method_class(hasher.config.method.name)
    return described_codes(hasher, source, run_network(hasher.encoder(), shown, method.real_codes))


def described_codes(
    hasher: Hasher, source: Source, outputs: Iterable[tuple[np.ndarray, np.ndarray]]
) -> tuple[Codes, RowNames]:
    """Codes of (rows, real outputs u), with what they stand for."""
    p = float(hasher.config.method.own.get("p", 3.0))
    pieces, loss = [], 0.0
    for found, u in outputs:
        pieces.append(Codes.from_signs(u, ids=found))
        loss += float(quantization_loss(torch.from_numpy(u), p)) * len(found)
    if not pieces:
        raise DataError(f"None of the items of {source.name} could be encoded.")
    together = Codes.concatenate(pieces)
    words = {"model": hasher.fingerprint(), "l_q": f"{loss / len(together):.6f}"}
    ids = np.concatenate([piece.ids for piece in pieces if piece.ids is not None])
    return Codes(together.packed, together.bits, ids, words), RowNames.from_source(source, ids)

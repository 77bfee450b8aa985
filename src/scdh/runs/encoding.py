"""Codes and names of the rows of a source, as ``scdh encode``, ``search`` and scoring need them."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch

from scdh.codes import HAMMING, Codes
from scdh.data.batches.batch import Batch
from scdh.data.batches.loaders import OnBadImage, evaluation_batches
from scdh.data.row_names import RowNames
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.losses import quantization_loss
from scdh.methods.base import Method
from scdh.model import Engine
from scdh.model.hasher import Hasher
from scdh.nets.network import Network
from scdh.progress import track

HashOutputs = Callable[..., Iterable[tuple[np.ndarray, np.ndarray]]]


class KeptOutputs:
    """Passes (rows [B], u [B, r]) batches on and, where they are needed to rank, keeps u."""

    def __init__(self, hasher: Hasher, batches: Iterable[tuple[np.ndarray, np.ndarray]], always: bool = False) -> None:
        self.batches, self.keeps = batches, always or hasher.method.ranking != HAMMING
        self._pieces: list[np.ndarray] = []

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, u in self.batches:
            if self.keeps:
                self._pieces.append(u)
            yield rows, u

    @property
    def u(self) -> np.ndarray | None:
        """[q, r] of all batches; None where the codes alone rank."""
        return np.concatenate(self._pieces) if self._pieces else None


class MeasuredOutputs:
    """Passes (rows, u) batches on, and adds up l_q: how far real outputs are from the corners of the cube."""

    def __init__(self, batches: Iterable[tuple[np.ndarray, np.ndarray]], p: float) -> None:
        self.batches, self.p = batches, p
        self.total, self.count = 0.0, 0

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for rows, u in self.batches:
            self.total += float(quantization_loss(torch.from_numpy(u), self.p)) * len(rows)
            self.count += len(rows)
            yield rows, u

    @property
    def l_q(self) -> float:
        return self.total / self.count


def encode_rows(
    hasher: Hasher,
    source: Source,
    rows: np.ndarray,
    *,
    title: str = "encoding",
    batch_size: int = 128,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
    hash_outputs: HashOutputs | None = None,
    engine: Engine = "torch",
    vectors: bool = False,
) -> tuple[Codes, RowNames]:
    """Codes of some rows, with the model in their metadata, and the names and labels of these rows.

    Arguments as for :func:`hash_outputs_of_rows`, which ``hash_outputs`` replaces, for example by features that were
    kept. With ``vectors`` the codes carry their real outputs, as float16.
    """
    outputs = (hash_outputs or hash_outputs_of_rows)(
        hasher,
        source,
        rows,
        batch_size=batch_size,
        workers=workers,
        on_bad_image=on_bad_image,
        progress=title,
        engine=engine,
    )
    kept = KeptOutputs(hasher, outputs, always=vectors)
    codes, names = named_codes(hasher, source, kept)
    return codes.with_vectors(kept.u, "float16") if vectors else codes, names


def hash_outputs_of_rows(
    hasher: Hasher,
    source: Source,
    rows: np.ndarray,
    *,
    batch_size: int = 128,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
    progress: str | None = None,
    engine: Engine = "torch",
    images: int | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows [B], u [B, r]) of some rows of a source, batch by batch.

    Args:
        hasher: the model.
        source: data that fit the model.
        rows: row numbers, int64 [n].
        batch_size: rows that are read at once; a GPU takes them in one pass, a CPU in pieces.
        workers: processes that decode images; None: chosen by the machine.
        on_bad_image: "fail", or "skip" to leave unreadable images out.
        progress: title of a progress bar; None: no bar.
        engine: what computes, as for :meth:`scdh.Hasher.encode`.
        images: how many rows there are in all, which decides between engines; None: as many as ``rows``.
    """
    hasher.check_fits(source)
    batches: Iterable[Batch] = evaluation_batches(
        source,
        rows,
        preprocess=hasher.preprocess,
        batch_size=batch_size,
        workers=workers,
        on_bad_image=on_bad_image,
    )
    if progress is not None:
        batches = track(batches, len(rows), progress, "items", lambda batch: len(batch.rows))
    return hasher.run(batches, engine=engine, images=len(rows) if images is None else images)


def hash_outputs_of_features(method: Method, net: Network, features: np.ndarray, batch_size: int = 1024) -> np.ndarray:
    """u float32 [n, r] of features that the frozen part of a model gave before."""
    net.eval()
    with torch.inference_mode():
        batches = (part.to(net.device) for part in torch.from_numpy(features).split(batch_size))
        outputs = [method.hash_outputs(net(batch)) for batch in batches]
        return torch.cat([u.float().cpu() for u in outputs]).numpy()


def named_codes(
    hasher: Hasher, source: Source, outputs: Iterable[tuple[np.ndarray, np.ndarray]]
) -> tuple[Codes, RowNames]:
    """Codes of (rows [B], u [B, r]) pairs, and the names and labels of these rows."""
    codes = hasher.encode_outputs(outputs)
    if not len(codes):
        raise DataError(f"None of the items of {source.name} could be encoded.")
    assert codes.ids is not None  # encode_outputs gives row numbers
    named = codes.with_metadata({**codes.metadata, "model": hasher.fingerprint()})
    return named, RowNames.from_source(source, codes.ids)

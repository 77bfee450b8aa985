"""Rows in the right order as batches, the same on one process or many, from the start or after a resume.

Measured on two cores, JPEG 32² → 128² and 348² → 224²: one thread decodes 4,500 and 560 images a second, two
threads the same (Pillow holds the interpreter's lock while it decodes), two processes 5,900 and 1,120
including their start of 0.1 s. So ``workers`` are processes, and 0 decodes in the caller's own thread.

With the network on the same two cores workers do harm: its threads meet at a barrier after every layer, and a decoding
process that holds one core makes the other wait each time (encoding at 128²: 290 images a second bare, 258 with 0
workers, 40 to 120 with 1 or 2). ``workers=None`` therefore decodes inline unless there is a GPU, or cores to spare.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from scdh.data.batches.batch import BadImages, Batch
from scdh.data.batches.sampling import epoch_batches
from scdh.data.images.augment import augmentation as find_augmentation
from scdh.data.images.transforms import Preprocess
from scdh.data.source import BadImage, Source
from scdh.errors import DataError
from scdh.label_arrays import hide_labels

OnBadImage = Literal["fail", "skip"]
Decoded = tuple[list[torch.Tensor], np.ndarray, list[tuple[int, str, str]]]


def training_batches(
    source: Source,
    rows: np.ndarray,
    *,
    preprocess: Preprocess | None = None,
    augmentation: str = "none",
    batch_size: int,
    seed: int,
    epoch: int,
    rank: int = 0,
    world: int = 1,
    balanced: bool = False,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
    bad_images: BadImages | None = None,
    views: int = 1,
    first_step: int = 0,
    unlabelled: np.ndarray | None = None,
    labelled_share: float = 0.5,
    steps: int | None = None,
) -> Iterator[Batch]:
    """One epoch in random order. ``batch_size`` counts the rows of all processes together.

    With ``unlabelled`` rows each batch holds ``labelled_share`` of ``rows`` first and then unlabelled ones; whatever
    the source knows of these, they arrive without label (−1, or zeros). ``steps`` sets the length of the epoch, else
    it is one pass (see :mod:`scdh.data.batches.sampling`).

    The order depends only on (seed, epoch). Process ``rank`` of ``world`` takes every world-th row of each
    batch. What chance does to a picture depends only on (seed, epoch, row, view, how often the row came
    before in this epoch). So neither the number of processes, nor of workers, nor a resume at ``first_step``
    changes anything.
    """
    _check(source, preprocess, augmentation, batch_size, on_bad_image)
    if batch_size % world or not 0 <= rank < world:
        raise DataError(f"batch_size {batch_size} must divide by the {world} processes (this is number {rank}).")
    if seed < 0 or epoch < 0 or views < 1 or first_step < 0:
        raise DataError(
            f"seed {seed}, epoch {epoch}, first_step {first_step} must be 0 or more, views {views} 1 or more."
        )
    if steps is not None and steps < 1:
        raise DataError(f"steps must be 1 or more, not {steps}.")
    rows = _checked_rows(source, rows)
    hidden = None
    if unlabelled is not None:
        unlabelled = _checked_rows(source, unlabelled)
        hidden = np.zeros(len(source), bool)
        hidden[unlabelled] = True
        if hidden[rows].any():
            raise DataError(f"{int(hidden[rows].sum())} rows of {source.name} are both labelled and unlabelled.")
    if len(rows) < world:
        raise DataError(f"{source.name} gives {len(rows)} rows to train on, too few for {world} processes.")
    order, times = epoch_batches(
        source.labels,
        rows,
        batch_size=batch_size,
        seed=seed,
        epoch=epoch,
        world=world,
        balanced=balanced,
        unlabelled=unlabelled,
        labelled_share=labelled_share,
        steps=steps,
    )
    own = list(zip(order[first_step:, rank::world], times[first_step:, rank::world], strict=True))
    work = _Work(source, preprocess, augmentation, own, (seed, epoch), views)
    return _batches(work, workers, on_bad_image, bad_images, keep_step=True, hidden=hidden)


def evaluation_batches(
    source: Source,
    rows: np.ndarray,
    *,
    preprocess: Preprocess | None = None,
    batch_size: int,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
    bad_images: BadImages | None = None,
    augmentation: str = "none",
    chance: tuple[int, int] | None = None,
) -> Iterator[Batch]:
    """The rows in the order given, the last batch smaller where it does not come out even.

    Pictures are unchanged by chance unless ``chance`` (two numbers, such as seed and epoch) is given with an
    augmentation: a frozen trunk's features are cached for a few such versions of every row.
    """
    _check(source, preprocess, augmentation, batch_size, on_bad_image)
    if (chance is None) != (augmentation == "none"):
        raise DataError(f"augmentation {augmentation!r} and chance {chance} must be given together or not at all.")
    rows = _checked_rows(source, rows)
    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    work = _Work(source, preprocess, augmentation, [(part, np.zeros_like(part)) for part in parts], chance, 1)
    return _batches(work, workers, on_bad_image, bad_images, keep_step=False)


@dataclass(frozen=True)
class _Work(Dataset):
    """Item i is the decoded batch i. Bad images come back as words, since an error loses its parts on the way
    from a worker process.
    """

    source: Source
    preprocess: Preprocess | None
    augmentation: str
    batches: list[tuple[np.ndarray, np.ndarray]]
    chance: tuple[int, int] | None
    views: int

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> Decoded:
        rows, times = self.batches[i]
        preprocess = self.preprocess
        if preprocess is None:
            return [self._vectors(rows, times, view) for view in range(self.views)], rows, []
        side = preprocess.needed_side(self.augmentation)
        out = np.empty((self.views, len(rows), preprocess.size, preprocess.size, 3), np.uint8)
        good: list[int] = []
        bad: list[tuple[int, str, str]] = []
        for place, (row, before) in enumerate(zip(rows.tolist(), times.tolist(), strict=True)):
            try:
                image = self.source.image(row, side)
            except BadImage as error:
                bad.append((row, error.where, error.reason))
                continue
            for view in range(self.views):
                if self.chance is None:
                    pixels = preprocess.evaluation_image(image)
                else:
                    rng = np.random.default_rng([*self.chance, row, view, before])
                    pixels = preprocess.training_image(image, rng, self.augmentation)
                out[view, len(good)] = pixels.transpose(1, 2, 0)
            good.append(place)
        # Written with the colours last and only turned as a view: the layout convolutions want, for nothing.
        kept = torch.from_numpy(out[:, : len(good)]).permute(0, 1, 4, 2, 3)
        return list(kept.unbind(0)), rows[good], bad

    def _vectors(self, rows: np.ndarray, times: np.ndarray, view: int) -> torch.Tensor:
        if self.chance is None:
            found = self.source.features[rows]
        else:
            found = self.source.feature_view(rows, times, self.chance, view)
        return torch.from_numpy(np.array(found, dtype=np.float32))


def _batches(
    work: _Work,
    workers: int | None,
    on_bad_image: OnBadImage,
    report: BadImages | None,
    *,
    keep_step: bool,
    hidden: np.ndarray | None = None,
) -> Iterator[Batch]:
    """``hidden``, bool [n], tells the rows whose labels nobody may see: the one place where labels enter a batch."""
    report = BadImages() if report is None else report
    known = len(report)
    for inputs, rows, bad in _decoded(work, workers):
        if bad and on_bad_image == "fail":
            raise BadImage(*bad[0][1:])
        report.found.update({row: BadImage(where, reason) for row, where, reason in bad if row not in report.found})
        if len(rows):
            # Copies: whoever changes a batch must not change the source or the caller's rows.
            labels = work.source.labels[rows]
            if hidden is not None:
                hide_labels(labels, hidden[rows])
            yield Batch(inputs[0], torch.tensor(labels), torch.tensor(rows), tuple(inputs[1:]))
        elif keep_step:  # leaving the whole step out would put this process out of step with the others
            raise DataError(f"None of the {len(bad)} images of a batch can be read, the first is {bad[0][1]}.")
    if len(report) > known:
        report.warn()


def chosen_workers() -> int:
    """Decoding processes for this machine: beside a GPU nearly every core, beside a CPU network a few of many."""
    cores = os.cpu_count() or 1
    return min(8, max(cores - 1, 1)) if torch.cuda.is_available() else min(8, cores // 8)


def _decoded(work: _Work, workers: int | None) -> Iterator[Decoded]:
    workers = chosen_workers() if workers is None else workers
    if workers == 0 or work.preprocess is None or len(work) < 2:
        for i in range(len(work)):
            yield work[i]
        return
    loader: DataLoader = DataLoader(
        work,
        batch_size=None,
        num_workers=min(workers, len(work)),
        prefetch_factor=2,
        # Fork shares the source's memory and starts in a tenth of a second; elsewhere the system's own way.
        multiprocessing_context="fork" if sys.platform == "linux" else None,
        # Its own generator, for else each epoch with workers would move torch's global one.
        generator=torch.Generator(),
        collate_fn=_as_is,
    )
    yield from loader


def _as_is(item: Any) -> Any:
    return item


def _check(
    source: Source, preprocess: Preprocess | None, augmentation: str, batch_size: int, on_bad_image: str
) -> None:
    find_augmentation(augmentation)
    if batch_size < 1:
        raise DataError(f"batch_size must be 1 or more, not {batch_size}.")
    if on_bad_image not in ("fail", "skip"):
        raise DataError(f"on_bad_image must be 'fail' or 'skip', not {on_bad_image!r}.")
    if source.kind == "images" and preprocess is None:
        raise DataError(f"{source.name} holds images, so a Preprocess is needed to bring them to one size.")
    if source.kind == "features" and (preprocess is not None or augmentation != "none"):
        raise DataError(f"{source.name} holds embeddings, which take no Preprocess and no augmentation.")


def _checked_rows(source: Source, rows: np.ndarray) -> np.ndarray:
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(source)):
        raise DataError(f"Rows {rows.min()} to {rows.max()} are outside {source.name}, which has {len(source)} rows.")
    return rows

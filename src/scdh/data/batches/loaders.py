"""Training and evaluation batches of a source: the same with one process or many, from the start or after a resume."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch

from scdh.data.batches.batch import BadImages, Batch
from scdh.data.batches.decoding import BatchDecoder, decode_batches
from scdh.data.batches.sampling import epoch_batches
from scdh.data.images.augment import augmentation as find_augmentation
from scdh.data.images.transforms import Preprocess
from scdh.data.pairs import Pairs
from scdh.data.source import BadImage, Source
from scdh.errors import DataError
from scdh.label_arrays import hide_labels

OnBadImage = Literal["fail", "skip"]


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
    pairs: Pairs | None = None,
) -> Iterator[Batch]:
    """The batches of one epoch in random order.

    The order depends on (seed, epoch) only; the augmentation of an image on (seed, epoch, row, view, how often the row
    was used before in this epoch). So the number of processes or workers and a resume at ``first_step`` change nothing.

    Args:
        source: images or embeddings.
        rows: int64 [m], the labelled rows to train on.
        preprocess: how images become inputs; required for images, rejected for embeddings.
        augmentation: a name of :data:`scdh.data.AUGMENTATIONS`; "none" for embeddings.
        batch_size: labelled rows of a batch, of all processes together.
        seed, epoch: 0 or more.
        rank, world: this process's number, and the number of processes. Each takes every world-th row of a batch.
        balanced: draw ``rows`` so that classes come equally often.
        workers: decoding processes; 0 decodes in this thread, None decides by machine.
        on_bad_image: "fail" raises :class:`BadImage`; "skip" leaves the image out and warns once at the end.
        bad_images: a list to add skipped images to.
        views: independent random versions of each input; those after the first are ``Batch.other_views``.
        first_step: batches to leave out at the start, for a resume.
        unlabelled: int64, rows to use without label: each batch has ``batch_size`` labelled rows first, then unlabelled
            ones, whose labels are replaced by "no label" whatever the source knows of them.
        labelled_share: share of labelled rows in a batch, where there are unlabelled ones.
        pairs: make batches of both rows of random pairs, instead of single rows.
        steps: length of the epoch; None for one pass over ``unlabelled`` if given, else over ``rows``.

    Yields:
        :class:`Batch` of batch_size / world labelled rows, and unlabelled ones.

    Raises:
        DataError: an argument is wrong (at once), or no image of a batch can be read.
        BadImage: an image cannot be read and ``on_bad_image`` is "fail".
    """
    check_loading(batch_size, workers, on_bad_image)
    _check(source, preprocess, augmentation)
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
    order, earlier_uses = epoch_batches(
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
        pairs=pairs,
    )
    rank_order, rank_uses = (table[first_step:, rank::world] for table in (order, earlier_uses))
    batches = list(zip(rank_order, rank_uses, strict=True))
    decoder = BatchDecoder(source, preprocess, augmentation, batches, (seed, epoch), views)
    return _make_batches(decoder, workers, on_bad_image, bad_images, allow_empty=False, hidden=hidden)


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
    random_key: tuple[int, int] | None = None,
) -> Iterator[Batch]:
    """The rows in the given order, without randomness; the last batch may be smaller.

    Arguments as for :func:`training_batches`. ``random_key``, two numbers such as seed and epoch, goes with an
    ``augmentation``: features of random versions of images are cached for a frozen trunk.

    Yields:
        :class:`Batch`. Batches of which no image can be read are left out.
    """
    check_loading(batch_size, workers, on_bad_image)
    _check(source, preprocess, augmentation)
    if (random_key is None) != (augmentation == "none"):
        raise DataError(
            f"augmentation {augmentation!r} and random_key {random_key} must be given together or not at all."
        )
    rows = _checked_rows(source, rows)
    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    batches = [(part, np.zeros_like(part)) for part in parts]
    decoder = BatchDecoder(source, preprocess, augmentation, batches, random_key, 1)
    return _make_batches(decoder, workers, on_bad_image, bad_images, allow_empty=True)


def _make_batches(
    decoder: BatchDecoder,
    workers: int | None,
    on_bad_image: OnBadImage,
    bad_images: BadImages | None,
    *,
    allow_empty: bool,
    hidden: np.ndarray | None = None,
) -> Iterator[Batch]:
    """Add labels to decoded batches, which is done only here; ``hidden``, bool [n]: rows whose labels are hidden."""
    bad_images = BadImages() if bad_images is None else bad_images
    count_before = len(bad_images)
    for views, rows, bad in decode_batches(decoder, workers):
        if bad and on_bad_image == "fail":
            raise BadImage(bad[0][1], bad[0][2] + _advice_on_bad_images(len(decoder.source), len(bad)))
        for row, where, reason in bad:
            bad_images.by_row.setdefault(row, BadImage(where, reason))
        if len(rows):
            # torch.tensor copies: a change to a batch must not change the source or the caller's rows.
            labels = decoder.source.labels[rows]
            if hidden is not None:
                hide_labels(labels, hidden[rows])
            yield Batch(views[0], torch.tensor(labels), torch.tensor(rows), tuple(views[1:]))
        elif not allow_empty:  # without this batch, this process would be one step ahead of the others
            raise DataError(f"None of the {len(bad)} images of a batch can be read, the first is {bad[0][1]}.")
    if len(bad_images) > count_before:
        bad_images.warn()


def _advice_on_bad_images(rows: int, bad: int) -> str:
    if rows == 1:
        return ""
    more = f", and {bad - 1} more of this batch" if bad > 1 else ""
    return f"{more}; --on-bad-image skip (in Python on_bad_image='skip') leaves all such images out"


def check_loading(batch_size: int, workers: int | None, on_bad_image: str) -> None:
    """Reject wrong values of the arguments that all functions here share."""
    if not isinstance(batch_size, int | np.integer) or batch_size < 1:
        raise DataError(f"batch_size must be a whole number, 1 or more, not {batch_size}.")
    if workers is not None and (not isinstance(workers, int | np.integer) or workers < 0):
        raise DataError(f"workers must be a whole number, 0 or more, not {workers}.")
    if on_bad_image not in ("fail", "skip"):
        raise DataError(f"on_bad_image must be 'fail' or 'skip', not {on_bad_image!r}.")


def _check(source: Source, preprocess: Preprocess | None, augmentation: str) -> None:
    find_augmentation(augmentation)
    if source.kind == "images" and preprocess is None:
        raise DataError(f"{source.name} holds images, so a Preprocess is needed to bring them to one size.")
    if source.kind == "features" and (preprocess is not None or augmentation != "none"):
        raise DataError(f"{source.name} holds embeddings, which take no Preprocess and no augmentation.")


def _checked_rows(source: Source, rows: np.ndarray) -> np.ndarray:
    rows = np.ascontiguousarray(rows, dtype=np.int64)
    count = len(source.labels)
    if len(rows) and not (rows.min() >= 0 and rows.max() < count):
        raise DataError(f"Rows {rows.min()} to {rows.max()} are outside {source.name}, which has {count} rows.")
    return rows

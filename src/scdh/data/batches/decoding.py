"""From row numbers to decoded images or vectors, in the caller's thread or in worker processes.

Measured on two cores, JPEG 32² → 128² and 348² → 224²: one thread decodes 4,500 and 560 images per second, two threads
the same (Pillow holds the interpreter's lock while it decodes), two processes 5,900 and 1,120 including their start of
0.1 s. So ``workers`` are processes, and 0 decodes in the caller's thread.

With a network on the same two cores, workers slow it down: its threads wait for each other after every layer, and a
decoding process on one core makes the other wait each time (encoding at 128²: 290 images per second without decoding,
258 with 0 workers, 40 to 120 with 1 or 2). So ``workers=None`` uses workers only with a GPU or with many cores, and for
the encoding of photos that take longer to decode than to encode: of 12 megapixels, one thread decodes 35 per second.
"""

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from scdh.data.images.transforms import Preprocess
from scdh.data.source import BadImage, Source
from scdh.index.kernels.threads import usable_cores

CORES = usable_cores()
SLOW_SECONDS = 0.01  # an image; on one core, a network of images takes about as long
TRIED_IMAGES, SLOW_BATCH = 3, 8


class DecodedBatch(NamedTuple):
    """``views``: the inputs of each view, with bad images left out; ``rows``: int64, theirs; ``bad``: (row, where,
    reason) of bad images, as plain values because an exception loses its attributes on the way from a worker process.
    """

    views: list[torch.Tensor]
    rows: np.ndarray
    bad: list[tuple[int, str, str]]


@dataclass(frozen=True)
class BatchDecoder(Dataset):
    """A torch data set whose item i is the decoded batch i.

    ``batches`` holds (rows, earlier uses) of each batch, both int64 [B]. ``random_key``, seed and epoch, makes images
    and vectors random; None: as in evaluation.
    """

    source: Source
    preprocess: Preprocess | None
    augmentation: str
    batches: list[tuple[np.ndarray, np.ndarray]]
    random_key: tuple[int, int] | None
    views: int

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, i: int) -> DecodedBatch:
        rows, earlier_uses = self.batches[i]
        if self.preprocess is None:
            return DecodedBatch([self._vectors(rows, earlier_uses, view) for view in range(self.views)], rows, [])
        return self._images(self.preprocess, rows, earlier_uses)

    def _images(self, preprocess: Preprocess, rows: np.ndarray, earlier_uses: np.ndarray) -> DecodedBatch:
        needed_side = preprocess.needed_side(self.augmentation)
        pixels = np.empty((self.views, len(rows), preprocess.size, preprocess.size, 3), np.uint8)
        good: list[int] = []
        bad: list[tuple[int, str, str]] = []
        for position, (row, uses) in enumerate(zip(rows.tolist(), earlier_uses.tolist(), strict=True)):
            try:
                image = self.source.image(row, needed_side)
            except BadImage as error:
                bad.append((row, error.where, error.reason))
                continue
            for view in range(self.views):
                if self.random_key is None:
                    values = preprocess.evaluation_image(image)
                else:
                    rng = np.random.default_rng([*self.random_key, row, view, uses])
                    values = preprocess.training_image(image, rng, self.augmentation)
                pixels[view, len(good)] = values.transpose(1, 2, 0)
            good.append(position)
        # Channels are last in memory, which convolutions prefer; the permutation copies nothing.
        images = torch.from_numpy(pixels[:, : len(good)]).permute(0, 1, 4, 2, 3)
        return DecodedBatch(list(images.unbind(0)), rows[good], bad)

    def _vectors(self, rows: np.ndarray, earlier_uses: np.ndarray, view: int) -> torch.Tensor:
        if self.random_key is None:
            vectors = self.source.features[rows]
        else:
            vectors = self.source.feature_view(rows, earlier_uses, self.random_key, view)
        return torch.from_numpy(np.array(vectors, dtype=np.float32))


def default_workers() -> int:
    """Worker processes for this machine: nearly one per core with a GPU, otherwise one per eight cores."""
    return min(8, max(CORES - 1, 1)) if torch.cuda.is_available() else min(8, CORES // 8)


def is_slow(decoder: BatchDecoder) -> bool:
    """Whether images that are to be encoded take longer to decode than to encode; some of them are tried."""
    rows = sum(len(rows) for rows, _ in decoder.batches)
    if decoder.preprocess is None or decoder.random_key is not None or rows < 2 * SLOW_BATCH:
        return False
    first, uses = next(batch for batch in decoder.batches if len(batch[0]))
    tried = replace(decoder, batches=[(first[:TRIED_IMAGES], uses[:TRIED_IMAGES])])
    begun = time.perf_counter()
    tried[0]
    return (time.perf_counter() - begun) / len(tried.batches[0][0]) > SLOW_SECONDS


def by_machine(decoder: BatchDecoder) -> tuple[BatchDecoder, int]:
    """The decoder and its number of workers: one per core for slow images, in small batches so all end together."""
    default = default_workers()
    if default >= CORES or sys.platform != "linux" or not is_slow(decoder):
        return decoder, default
    parts = [
        (rows[start : start + SLOW_BATCH], uses[start : start + SLOW_BATCH])
        for rows, uses in decoder.batches
        for start in range(0, len(rows), SLOW_BATCH)
    ]
    return replace(decoder, batches=parts), CORES


def decode_batches(decoder: BatchDecoder, workers: int | None) -> Iterator[DecodedBatch]:
    """The batches of ``decoder`` in order, decoded by ``workers`` processes (0: in this thread, None: by machine)."""
    if workers is None:
        decoder, workers = by_machine(decoder)
    if workers == 0 or decoder.preprocess is None or len(decoder) < 2:
        for i in range(len(decoder)):
            yield decoder[i]
        return
    loader: DataLoader = DataLoader(
        decoder,
        batch_size=None,
        num_workers=min(workers, len(decoder)),
        prefetch_factor=2,
        # Fork shares the source's memory and starts in a tenth of a second; other systems use their default.
        multiprocessing_context="fork" if sys.platform == "linux" else None,
        # A generator of its own, so that an epoch with workers does not advance torch's global one.
        generator=torch.Generator(),
        collate_fn=_unchanged,
    )
    yield from loader


def _unchanged(item: Any) -> Any:
    return item

"""Run a network over batches and return its outputs as numpy arrays.

On a CPU, images go through in small pieces, one per thread, while the caller's thread decodes the next batch. A pass of
efficientnet_lite0 takes 20 MB per image of 224²: a batch of 128 at once took 2.8 GB, and pieces of 8 on two cores take
0.8 GB. Threads with a piece each do not wait for each other after every layer, as threads within a layer do. So small
pieces cost no speed, and are much faster if other programs use the same cores. The values are the same, up to the last
digits: these depend on how many images go through together.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from scdh.data.batches.batch import Batch
from scdh.data.batches.loaders import OnBadImage, evaluation_batches
from scdh.data.images.transforms import Preprocess
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.nets.export.graph import ExportedNetwork
from scdh.nets.network import Network, Outputs

_KINDS = {"images": "images", "features": "embeddings"}  # names in messages
PIECE = 8 * 224 * 224  # pixels per piece of a thread
MOST_IN_PIECE = 64  # images
Read = Callable[[Outputs], Tensor]
Work = Callable[[], np.ndarray]  # the values of a piece of a batch


def run_network(
    net: Network, batches: Iterable[Batch], read: Read, *, filled: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows [B], values [B, …]) of every batch, where ``read`` selects the values from the network's outputs.

    Batches are processed one at a time, so memory holds real values of one batch at most.

    Args:
        net: the network.
        batches: its inputs.
        read: selects the values.
        filled: on a CPU, pad pieces of images to a full piece, but to at most this many images. The values of an image
            then do not depend on the images that come with it, to the last digit. None: pieces stay as they are.
    """
    net.eval()
    threads = torch.get_num_threads() if net.device.type == "cpu" else 0

    def work(inputs: Tensor) -> list[Work]:
        size = len(inputs) if not threads or inputs.ndim != 4 else _piece_size(inputs, filled)
        at_least = size if filled else 0
        return [partial(_values, net, read, piece, at_least) for piece in inputs.split(max(1, size))]

    return _run(work, batches) if threads < 2 else _run_on_threads(work, batches, threads)


def run_exported(net: ExportedNetwork, batches: Iterable[Batch]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """As :func:`run_network`, for images and an exported network, which includes ``read``."""

    def work(inputs: Tensor) -> list[Work]:
        if len(inputs) < net.threads:
            return [partial(net.alone, inputs)]
        return [partial(net, piece) for piece in inputs.split(min(net.piece, -(-len(inputs) // net.threads)))]

    return _run(work, batches) if net.threads < 2 else _run_on_threads(work, batches, net.threads)


def check_source(source: Source, feature_width: int | None) -> None:
    """Raise if data do not fit a model of embeddings [n, feature_width], or of images if None."""
    wanted = "images" if feature_width is None else "features"
    if source.kind != wanted:
        raise DataError(f"This model encodes {_KINDS[wanted]}, but got {_KINDS[source.kind]} ({source.name}).")
    if feature_width is not None and (found := source.features.shape[1]) != feature_width:
        raise DataError(
            f"This model encodes embeddings of width {feature_width}, but got width {found} ({source.name})."
        )


def item_batches(
    check_fits: Callable[[Source], None],
    sources: Iterable[tuple[int, Source]],
    preprocess: Preprocess | None,
    batch_size: int,
    workers: int | None,
    on_bad_image: OnBadImage,
) -> Iterator[Batch]:
    """Batches of (position of its first item, source) pairs, whose ``rows`` are positions; each source is checked."""
    for start, source in sources:
        check_fits(source)
        options: dict[str, Any] = {"batch_size": batch_size, "workers": workers, "on_bad_image": on_bad_image}
        for batch in evaluation_batches(source, np.arange(len(source)), preprocess=preprocess, **options):
            batch.rows.add_(start)
            yield batch


def _run(work: Callable[[Tensor], list[Work]], batches: Iterable[Batch]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for batch in batches:
        yield batch.rows.numpy(), np.concatenate([compute() for compute in work(batch.inputs)])


def _run_on_threads(
    work: Callable[[Tensor], list[Work]], batches: Iterable[Batch], threads: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The pieces of a batch at once; a batch is computed while the next one is decoded."""
    pool: ThreadPoolExecutor | None = None
    waiting: tuple[np.ndarray, list[Future[np.ndarray]]] | None = None
    threads_of_torch = torch.get_num_threads()
    try:
        for batch in batches:
            if batch.inputs.ndim != 4:  # vectors: a batch is little work
                yield from _run(work, [batch])
                continue
            if pool is None:  # after the first batch: worker processes that decode must not inherit its threads
                pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
            started = [pool.submit(compute) for compute in work(batch.inputs)]
            if waiting is not None:
                yield waiting[0], np.concatenate([future.result() for future in waiting[1]])
            waiting = batch.rows.numpy(), started
        if waiting is not None:
            yield waiting[0], np.concatenate([future.result() for future in waiting[1]])
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads_of_torch)  # otherwise threads that start later would inherit a single thread


def _piece_size(images: Tensor, most: int | None) -> int:
    """Images per piece: a power of two, so that usual batches have no smaller piece at their end."""
    pixels = images.shape[2] * images.shape[3]
    size = min(MOST_IN_PIECE, 1 << max(0, (PIECE // pixels).bit_length() - 1))
    return size if most is None else min(size, most)


def _values(net: Network, read: Read, inputs: Tensor, at_least: int) -> np.ndarray:
    count = len(inputs)
    if count < at_least:
        inputs = torch.cat([inputs, inputs[-1:].expand(at_least - count, *inputs.shape[1:])])
    with torch.inference_mode():
        return read(net(inputs.to(net.device)))[:count].float().cpu().numpy()


def read_network(net: Network, batches: Iterable[Batch], read: Read) -> np.ndarray:
    """The values of all batches as one array [n, …]; the network's mode (training or not) is as before."""
    was_training = net.training
    values = [values for _, values in run_network(net, batches, read)]
    net.train(was_training)
    return np.concatenate(values) if values else np.empty((0, 0), np.float32)

"""Weights from data: gradient training of a network, or the closed form of a method that has one."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from scdh.data.batches.batch import BadImages
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.methods.base import Method
from scdh.model.hasher import Hasher
from scdh.nets.known_pairs import KnownPairs
from scdh.nets.network import Network
from scdh.runs.features import cached_trunk_features
from scdh.runs.folder import RunFolder
from scdh.training.data import TrainingData
from scdh.training.loop import Trained, train_epochs

ONE_THREAD_BELOW = 1e9  # multiplications of a step's forward pass: about 10 ms of one core


def train_network(
    data: TrainingData,
    net: Network,
    method: Method,
    *,
    run: RunFolder | None = None,
    resume: bool = False,
    validate: Callable[[Network], float] | None = None,
    keep_best: Callable[[Network, Network | None], None] | None = None,
    each_epoch: Callable[[dict[str, float]], None] | None = None,
    quiet: bool = False,
) -> Trained:
    """Train ``net`` with ``method`` on the training rows of ``data``."""
    with suited_threads(data, net):
        method_data = data.for_method()
        net.channels_last(data.accelerator.device)
        method.to(data.accelerator.device)
        started = time.perf_counter()
        if method_data.pairs is not None:
            method.pairs = KnownPairs(method_data.rows, method_data.pairs).to(data.accelerator.device)
        method.prepare(net, method_data)
        prepare_seconds = time.perf_counter() - started
        return train_epochs(
            net,
            method,
            method_data,
            data.batches,
            data.steps_per_epoch,
            data.config.train,
            accelerator=data.accelerator,
            run=run,
            resume=resume,
            validate=validate,
            keep_best=keep_best,
            each_epoch=each_epoch,
            prepare_seconds=prepare_seconds,
            quiet=quiet,
        )


@contextmanager
def suited_threads(data: TrainingData, net: Network) -> Iterator[None]:
    """Use one thread for small layers on vectors, and torch's default otherwise.

    Threads wait for each other after every layer. If a step takes a millisecond, more threads gain little on an idle
    machine, and on a busy one they wait many times as long as they work. The rule depends on the work only, so it gives
    the same number, and the same weights, on every machine.
    """
    by_rows = {f"head.{name}" for name in net.head.row_parameters}  # few of whose rows are part of a step
    weights = sum(parameter.numel() for name, parameter in net.named_parameters() if name not in by_rows)
    step = data.config.train.batch_size * weights
    before = torch.get_num_threads()
    if data.batch_source.kind == "features" and step < ONE_THREAD_BELOW:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def fit_head(
    hasher: Hasher, source: Source, protocol: Protocol, cache: Path | None, bad_images: BadImages, quiet: bool
) -> Hasher:
    """For a method without gradient training, which writes its head from the features of all training rows at once."""
    if source.kind == "features":
        rows, features = protocol.train, source.features[protocol.train]
    else:
        config = hasher.config
        rows, features = cached_trunk_features(
            hasher,
            source,
            protocol.train,
            folder=cache,
            batch_size=config.train.batch_size,
            workers=config.train.workers,
            on_bad_image=config.data.on_bad_image,
            bad_images=bad_images,
            progress=None if quiet else "features of the trunk",
        )
    if not len(rows):
        raise DataError(f"None of the {len(protocol.train)} training images of {source.name} can be read.")
    started = time.perf_counter()
    hasher.method.fit(hasher.network, features, source.labels[rows], hasher.config.seed)
    hasher.info["seconds"] = time.perf_counter() - started
    return hasher

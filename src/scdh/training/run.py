"""From a configuration to a model: data, split, network, training or fitting, run folder."""

import shutil
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch

from scdh.config import RunConfig
from scdh.data.batches.batch import BadImages
from scdh.data.images.augment import augmentation
from scdh.data.learned_labels import learned_source
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.hasher import Hasher
from scdh.hub import has_model
from scdh.model_folder import open_model
from scdh.nets.network import Network
from scdh.runs.features import cached_trunk_features
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.batch_norm import recalibrate_batch_norm
from scdh.training.data import TrainingData
from scdh.training.device import make_accelerator
from scdh.training.loop import Trained, train_epochs
from scdh.training.optim import count_learned


def train(
    config: RunConfig,
    folder: Path | None = None,
    *,
    resume: bool = False,
    feature_cache: Path | None = None,
    quiet: bool = False,
    shows_epochs: bool = True,
    source: Source | None = None,
    keep_last: bool = True,
    each_epoch: Callable[[dict[str, float]], None] | None = None,
) -> Hasher:
    """Train (or fit, where the method has no gradient training) and return the model to take codes from: the best on
    validation where there is one, else the last.

    Args:
        config: settings of the run.
        folder: run folder that receives settings, split, logs, checkpoints and model; None: nothing is written.
        resume: go on with the run in ``folder``.
        feature_cache: folder that keeps a frozen trunk's features for other runs (default: the run's own folder).
        quiet: no progress bars.
        shows_epochs: a bar and a line for every epoch; else only the features of a frozen trunk have a bar.
        source: the data that ``config.data`` describes, where they are open already.
        keep_last: where another epoch's model is taken, also leave the last one's in the folder.
        each_epoch: is called with the figures of every epoch, as in the log.
    """
    augmentation(config.train.augmentation)  # refuses a wrong name before anything is downloaded or computed
    accelerator = make_accelerator(config.train.precision)
    run = None if folder is None else RunFolder(folder)
    if run is not None:
        run.claim(config, resume=resume, write=accelerator.is_main_process, may_be_longer=True)
        accelerator.wait_for_everyone()
    source = source_of(config) if source is None else source
    protocol = protocol_of(config, source)
    if run is not None:
        run.keep_protocol(protocol, resume=resume, write=accelerator.is_main_process)
    source = learned_source(source, protocol)
    torch.manual_seed(config.seed)
    width = source.features.shape[1] if source.kind == "features" else None
    hasher = Hasher.build(config, source.label_names, source.multi_label, width)
    if hasher.method.needs_labels and source.num_classes < 2:
        warnings.warn("All rows share one label, so every code will be alike; give at least two classes.", stacklevel=2)
    hasher.info = {
        "protocol": {"name": protocol.name, "fingerprint": protocol.fingerprint},
        "source": {"name": source.name, "fingerprint": protocol.source_fingerprint},
    }
    bad_images = BadImages()
    cache = feature_cache if run is None or source.kind == "features" else run.feature_folder(feature_cache)
    if hasher.method.learns_by_gradient:
        data = TrainingData(config, hasher, source, protocol, accelerator, bad_images, cache, quiet)
        is_quiet = quiet or not shows_epochs
        result = _train(hasher, data, run, each_epoch, resume=resume, quiet=is_quiet, keep_last=keep_last)
    else:
        hasher.network.channels_last(accelerator.device)
        result = _fit(hasher, source, protocol, cache, bad_images, quiet or not accelerator.is_main_process)
    if run is not None and accelerator.is_main_process:
        result.save(run.model)
        shutil.rmtree(run.best, ignore_errors=True)  # the model is the same
    accelerator.wait_for_everyone()
    if bad_images.paths:
        warnings.warn(
            f"{len(bad_images)} broken images were skipped in training, the first is {bad_images.paths[0]}.",
            stacklevel=2,
        )
    return result


def _fit(
    hasher: Hasher, source: Source, protocol: Protocol, cache: Path | None, bad_images: BadImages, quiet: bool
) -> Hasher:
    """A method without gradient training: it writes its head from the features of all training rows at once."""
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


def _train(
    hasher: Hasher,
    data: TrainingData,
    run: RunFolder | None,
    each_epoch: Callable[[dict[str, float]], None] | None,
    *,
    resume: bool,
    quiet: bool,
    keep_last: bool,
) -> Hasher:
    config, accelerator, method = hasher.config, data.accelerator, hasher.method
    net, method_data = data.network(), data.for_method()
    net.channels_last(accelerator.device)
    method.to(accelerator.device)
    started = time.perf_counter()
    method.prepare(net, method_data)
    prepare_seconds = time.perf_counter() - started
    learned = count_learned(net, method)
    best_weights: dict[str, torch.Tensor] = {}

    def keep_best(best: Network, student: Network | None) -> None:
        if run is None:
            best_weights.update({name: tensor.detach().clone() for name, tensor in best.state_dict().items()})
            return
        hasher.with_network(best).save(run.best)
        if student is not None:  # the student of the teacher that was best
            hasher.with_network(student).save(run.student)

    trained = train_epochs(
        net,
        method,
        method_data,
        data.batches,
        data.steps_per_epoch,
        config.train,
        accelerator=accelerator,
        run=run,
        resume=resume,
        validate=data.validate if len(data.validation_rows) else None,
        keep_best=keep_best if config.train.keep == "best" else None,
        each_epoch=each_epoch,
        prepare_seconds=prepare_seconds,
        quiet=quiet,
    )
    takes_best = config.train.keep == "best" and trained.progress.best_epoch is not None
    progress, best_info = trained.progress, {}
    result = hasher.with_network(trained.net)
    result.info |= {"epochs": progress.epochs_done, "history": progress.history[-1], "learned_weights": learned}
    if takes_best:
        best_info = {"best_epoch": progress.best_epoch, "validation_map": progress.best_score}
    written = run if accelerator.is_main_process else None
    if takes_best and run is None:
        trained.net.load_state_dict(best_weights)
        result.info |= best_info
    elif takes_best and written is not None:
        if keep_last and progress.best_epoch != progress.epochs_done:
            if config.train.recalibrate:  # as the best epoch's below, else the two could not be compared
                recalibrate_batch_norm(result.network, data.plain_batches(data.seen_rows))
            result.save(written.last)
        # Of a run that was finished before, the best epoch's model is the model itself.
        best = written.best if has_model(written.best) else written.model
        with open_model(best) as stored:
            stored.load_into(result.network)
        result.info |= best_info
    elif trained.student is not None and written is not None:
        hasher.with_network(trained.student).save(written.student)
    if config.train.recalibrate:
        _recalibrate(result, trained, data, written)
    return result


def _recalibrate(result: Hasher, trained: Trained, data: TrainingData, run: RunFolder | None) -> None:
    """Batch-norm statistics of the final weights, of the model and of the student beside it."""
    recalibrate_batch_norm(result.network, data.plain_batches(data.seen_rows))
    if run is not None and trained.student is not None:
        student = Hasher.load(run.student)
        recalibrate_batch_norm(student.network, data.plain_batches(data.seen_rows))
        student.save(run.student)

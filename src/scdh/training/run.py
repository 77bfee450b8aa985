"""Carry out a plan: trials, network, training or fitting, run folder."""

import shutil
import warnings
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path

import torch

from scdh.config import RunConfig
from scdh.data.arrays.loose import IN_MEMORY
from scdh.data.batches.batch import BadImages, Batch
from scdh.data.images.augment import augmentation
from scdh.data.protocol import learned_source
from scdh.model.folder import open_model
from scdh.model.hasher import Hasher
from scdh.model.hub import has_model
from scdh.nets.network import Network
from scdh.runs.choices import Choices
from scdh.runs.folder import RunFolder
from scdh.runs.shared_features import shared_folder
from scdh.training.data import TrainingData
from scdh.training.fitting import fit_head, train_network
from scdh.training.loop import Trained
from scdh.training.optim import count_learned
from scdh.training.plan import Plan
from scdh.training.processes import is_first_process, make_accelerator


def run_plan(
    plan: Plan,
    folder: Path | None = None,
    *,
    resume: bool = False,
    feature_cache: Path | None = None,
    quiet: bool = False,
    shows_epochs: bool = True,
    is_held: bool = False,
    after_trials: Callable[[Plan], None] | None = None,
) -> Hasher:
    """Run the trials that are left, then train (or fit, where the method has no gradient training).

    Args:
        plan: settings, data and split; its choices are complete afterwards.
        folder: run folder that receives settings, split, logs, checkpoints and model; None: nothing is written.
        resume: continue the run in ``folder``.
        feature_cache: folder that keeps a frozen trunk's features for other runs (default: the user's cache).
        quiet: no progress bars.
        shows_epochs: show a bar and a line for every epoch; otherwise only the features of a frozen trunk have a bar.
        is_held: whether the caller holds the lock of ``folder`` (:meth:`RunFolder.held`).
        after_trials: called once the settings are final.

    Returns:
        The model of the epoch that is best on the validation rows if there are any, else of the last epoch. The
        caller's random state of torch does not change.
    """
    augmentation(plan.config.train.augmentation)  # rejects a wrong name before anything is downloaded or computed
    run = None if folder is None else RunFolder(folder)
    takes_lock = run is not None and not is_held and is_first_process()
    with torch.random.fork_rng(devices=[]), run.held() if run is not None and takes_lock else nullcontext():
        if run is not None and not plan.is_settled:
            run.reject_earlier_run(resume=resume)
        plan.finish(folder, feature_cache or _default_cache(plan.config, run), quiet=quiet)
        if after_trials is not None:
            after_trials(plan)
        if run is not None and not resume and plan.choices is None:
            _remove_other_choices(run, plan.config)
        return _train(plan, run, resume, feature_cache, quiet, shows_epochs)


def _remove_other_choices(run: RunFolder, config: RunConfig) -> None:
    """Remove the choices of another run that was stopped in its trials."""
    choices = Choices.load(run.choices_file)
    if choices is not None and choices.final() != config:
        run.choices_file.unlink()


def _train(
    plan: Plan,
    run: RunFolder | None,
    resume: bool,
    feature_cache: Path | None,
    quiet: bool,
    shows_epochs: bool,
) -> Hasher:
    config, protocol = plan.config, plan.protocol
    accelerator = make_accelerator(config.train.precision)
    if run is not None:
        run.claim(config, resume=resume, write=accelerator.is_main_process, may_be_longer=True)
        accelerator.wait_for_everyone()
        run.keep_protocol(protocol, plan.source, resume=resume, write=accelerator.is_main_process)
    source = learned_source(plan.source, protocol)
    torch.manual_seed(config.seed)
    width = source.features.shape[1] if source.kind == "features" else None
    hasher = Hasher.build(config, source.label_names, source.multi_label, width)
    if hasher.method.needs_labels and source.num_classes < 2 and source.pairs is None:
        warnings.warn("All rows share one label, so every code will be alike; give at least two classes.", stacklevel=2)
    hasher.info = {
        "protocol": {"name": protocol.name, "fingerprint": protocol.fingerprint},
        "source": {"name": source.name, "fingerprint": protocol.source_fingerprint},
    }
    if run is not None:
        hasher.info["run_id"] = run.id
    bad_images = BadImages()
    cache = feature_cache or _default_cache(config, run)
    if run is not None and feature_cache is not None and source.kind == "images":
        run.feature_folder(feature_cache)  # which remembers it
    if hasher.method.learns_by_gradient:
        data = TrainingData(config, hasher, source, protocol, accelerator, bad_images, cache, quiet)
        is_quiet = quiet or not shows_epochs
        result = _learn(hasher, data, run, resume=resume, quiet=is_quiet)
    else:
        hasher.network.channels_last(accelerator.device)
        result = fit_head(hasher, source, protocol, cache, bad_images, quiet or not accelerator.is_main_process)
    if run is not None and accelerator.is_main_process:
        result.save(run.model)
        shutil.rmtree(run.best, ignore_errors=True)  # the model is the same
    accelerator.wait_for_everyone()
    if bad_images.paths:
        warnings.warn(
            f"{len(bad_images)} broken images were skipped in training, the first is {bad_images.first}.",
            stacklevel=2,
        )
    return result


def _default_cache(config: RunConfig, run: RunFolder | None) -> Path | None:
    """Where features are kept if no folder was given."""
    if config.data.source == IN_MEMORY:  # images whose content is not fully part of the cache's key
        return None if run is None else run.features
    return shared_folder() if run is None else run.feature_folder()


def _learn(
    hasher: Hasher,
    data: TrainingData,
    run: RunFolder | None,
    *,
    resume: bool,
    quiet: bool,
) -> Hasher:
    config = hasher.config
    accelerator = data.accelerator
    method = hasher.method
    net = data.network()
    best_weights: dict[str, torch.Tensor] = {}

    def keep_best(best: Network, student: Network | None) -> None:
        if run is None:
            best_weights.update({name: tensor.detach().clone() for name, tensor in best.state_dict().items()})
            return
        hasher.with_network(best).save(run.best)
        if student is not None:  # the student of the teacher that was best
            hasher.with_network(student).save(run.student)

    trained = train_network(
        data,
        net,
        method,
        run=run,
        resume=resume,
        validate=data.validate if len(data.validation_rows) else None,
        keep_best=keep_best if config.train.keep == "best" else None,
        quiet=quiet,
    )
    learned = count_learned(net, method)  # some methods add parameters when they are prepared
    takes_best = config.train.keep == "best" and trained.progress.best_epoch is not None
    progress, best_info = trained.progress, {}
    if takes_best and run is None:
        trained.net.load_state_dict(best_weights)
    result = hasher.with_network(trained.net)
    result.info |= {"epochs": progress.epochs_done, "history": progress.history[-1], "learned_weights": learned}
    if takes_best:
        best_info = {"best_epoch": progress.best_epoch, "validation_map": progress.best_score}
    written = run if accelerator.is_main_process else None
    if takes_best and run is None:
        result.info |= best_info
    elif takes_best and written is not None:
        if progress.best_epoch != progress.epochs_done:
            if config.train.recalibrate:  # as for the best epoch's below, so that the two can be compared
                recalibrate_batch_norm(result.network, data.plain_batches(data.rows_to_measure))
            result.save(written.last)
        # In a run that was finished before, the best epoch's model is the model itself.
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
    """Batch-norm statistics of the final weights, of the model and of its student."""
    recalibrate_batch_norm(result.network, data.plain_batches(data.rows_to_measure))
    if run is not None and trained.student is not None:
        student = Hasher.load(run.student)
        recalibrate_batch_norm(student.network, data.plain_batches(data.rows_to_measure))
        student.save(run.student)


@torch.no_grad()
def recalibrate_batch_norm(net: Network, batches: Iterable[Batch]) -> int:
    """Replace running means and variances by those of ``batches``; returns how many layers there were.

    The running statistics were measured on random crops of the training size and, with averaged weights, with other
    weights. When it encodes, the network sees whole images of the evaluation size.
    """
    layers = net.learning_batch_norms(net.trunk)
    momenta = [layer.momentum for layer in layers]
    net.eval()  # dropout stays off; only the layers below are in training mode
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over all batches
        layer.train()
    if layers:
        for batch in batches:
            net.features(batch.inputs.to(net.device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    net.eval()
    return len(layers)

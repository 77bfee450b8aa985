"""From a configuration to a trained model: data, split, network, loop, folder."""

import warnings
from pathlib import Path

import numpy as np
import torch

from scdh.config import RunConfig
from scdh.data.batches.batch import BadImages
from scdh.data.images.augment import augmentation
from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.hasher import Hasher
from scdh.methods.registry import method_class
from scdh.nets.network import Network
from scdh.runs.folder import STUDENT, claim_folder, keep_protocol
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.batch_norm import recalibrate_batch_norm
from scdh.training.data import TrainingData
from scdh.training.device import make_accelerator
from scdh.training.loop import fit


def train(
    config: RunConfig,
    folder: Path | None,
    *,
    resume: bool = False,
    feature_cache: Path | None = None,
    quiet: bool = False,
    source: Source | None = None,
) -> Hasher:
    """Train and return the model to take codes from: the best on validation where there is one, else the last.

    ``feature_cache`` is where a frozen trunk's features are kept for other runs (default: the run's own folder).
    ``source`` is the data that ``config.data`` describes, where it is open already.
    """
    kind = method_class(config.method.name)
    if not kind.learns_by_gradient:
        raise ConfigError(
            f"{kind.about.title} is fitted to features at once, not trained; `scdh demo` compares with it."
        )
    augmentation(config.train.augmentation)  # a wrong word must not wait for a download or cached features
    accelerator = make_accelerator(config.train.precision)
    if folder is not None:
        claim_folder(folder, config, resume, accelerator.is_main_process)
        accelerator.wait_for_everyone()
    source = source_of(config) if source is None else source
    protocol = protocol_of(config, source)
    if folder is not None:
        keep_protocol(folder / "protocol.json", protocol, resume, accelerator.is_main_process)

    if source.num_classes < 2:
        warnings.warn("All rows share one label, so every code will be alike; give at least two classes.", stacklevel=2)
    torch.manual_seed(config.seed)
    width = source.features.shape[1] if source.kind == "features" else None
    hasher, method = Hasher.build(config, source.label_names, source.multi_label, width)
    hasher.info = {
        "protocol": {"name": protocol.name, "fingerprint": protocol.fingerprint},
        "source": {"name": source.name, "fingerprint": protocol.source_fingerprint},
    }
    bad = BadImages()
    cache = feature_cache or (None if folder is None else folder / "features")
    data = TrainingData(
        config, hasher, source, protocol, accelerator, bad, cache, quiet, unlabelled=method.learns_from_unlabelled
    )
    method.prepare(data.train_labels, data.train_rows)

    best: dict[str, torch.Tensor] = {}

    def keep_best(net: Network, student: Network | None) -> None:
        if folder is None:
            best.update({name: tensor.detach().clone() for name, tensor in net.state_dict().items()})
            return
        data.whole(net).save(folder / "best")
        if student is not None:  # the student of the teacher that was best
            data.whole(student).save(folder / STUDENT)

    fitted = fit(
        data.net,
        method,
        data.batches,
        data.steps_per_epoch,
        config.train,
        accelerator=accelerator,
        folder=folder,
        resume=resume,
        validate=data.validate if len(protocol.validation) else None,
        keep_best=keep_best if config.train.keep == "best" else None,
        quiet=quiet,
    )
    progress = fitted.progress
    if best:
        fitted.net.load_state_dict(best)
    result = data.whole(fitted.net)
    result.info["epochs"] = progress.epochs_done
    result.info["history"] = progress.history[-1]
    chosen = {"best_epoch": progress.best_epoch, "validation_map": progress.best_score}
    choosing = config.train.keep == "best" and progress.best_epoch is not None
    if best:
        result.info |= chosen
    if folder is not None and accelerator.is_main_process:
        result.save(folder / "last")
        if fitted.student is not None and not choosing:
            data.whole(fitted.student).save(folder / STUDENT)
        # Not whether there is a folder: a run that was killed before its first checkpoint may have left one.
        if choosing:
            # A comparison removes it once the model, which is the same, was written.
            result = Hasher.load(folder / ("best" if (folder / "best").exists() else "model"))
            result.info |= chosen
    if config.train.recalibrate:
        seen = np.concatenate([data.train_rows, *([] if data.unlabelled_rows is None else [data.unlabelled_rows])])
        recalibrate_batch_norm(result.network, data.plain_batches(seen))
        if folder is not None and fitted.student is not None and accelerator.is_main_process:
            student = Hasher.load(folder / STUDENT)
            recalibrate_batch_norm(student.network, data.plain_batches(seen))
            student.save(folder / STUDENT)
    if folder is not None and accelerator.is_main_process:
        result.save(folder / "model")
    accelerator.wait_for_everyone()
    if bad.paths:
        warnings.warn(f"{len(bad)} broken images were skipped in training, the first is {bad.paths[0]}.", stacklevel=2)
    return result

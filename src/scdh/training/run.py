"""From a configuration to a trained model: data, protocol, network, loop, folder."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.config import DataSettings, RunConfig
from scdh.data.arrays import ArraySource
from scdh.data.augment import augmentation
from scdh.data.batch import BadImages
from scdh.data.draw import take_per_class
from scdh.data.loaders import Batch, evaluation_batches, steps_per_epoch, training_batches
from scdh.data.open import open_source
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.encode import encode_batches
from scdh.errors import ConfigError, DataError, TrainingError
from scdh.evaluation import evaluate
from scdh.files import replacing
from scdh.hasher import Hasher, versions
from scdh.methods.registry import method_class
from scdh.nets.network import Network
from scdh.nets.small import FeatureTrunk
from scdh.training.device import make_accelerator
from scdh.training.features import cached_trunk_features
from scdh.training.loop import fit


def source_of(config: RunConfig) -> Source:
    data = config.data
    return open_source(
        data.source,
        root=data.root,
        image_column=data.image_column,
        label_column=data.label_column,
        labels=data.labels,
    )


def protocol_of(config: RunConfig, source: Source) -> Protocol:
    """The split that ``config.data`` asks for."""
    data = config.data
    split = data.split
    if split == "auto":
        parts = set() if source.split is None else {str(s) for s in source.split}
        # Parts that the user named are wanted: drawing instead, because one is not there, would hide a wrong name.
        named = (data.train, data.query) != (DataSettings().train, DataSettings().query)
        split = "given" if named or {data.train, data.query} <= parts else "draw"
    if split != "draw" and data.train_per_class is not None:
        raise ConfigError(
            f"data.train_per_class is for a drawn split, but {source.name} is divided as "
            f"{'it comes' if split == 'given' else 'a whole'}; add data.split=draw or leave it out."
        )
    if split == "given":
        return Protocol.from_split(
            source,
            train=data.train,
            query=data.query,
            database=data.train,
            validation_per_class=data.validation_per_class,
            seed=config.seed,
            name=f"{source.name} as given",
        )
    if split == "all":
        labelled = np.flatnonzero(source.labelled)
        order = np.random.default_rng(config.seed).permutation(labelled)
        held = take_per_class(source.labels, order, data.validation_per_class, "validation", source.label_names)
        rest, nobody = np.setdiff1d(labelled, held), np.empty(0, np.int64)
        if not len(rest):
            raise DataError(f"{source.name} has no labelled rows to train on.")
        everything, print_ = np.arange(len(source)), source.fingerprint()
        return Protocol(f"{source.name} whole", config.seed, rest, nobody, everything, held, print_).check(len(source))
    return Protocol.draw(
        source.labels,
        query_per_class=data.query_per_class,
        train_per_class=data.train_per_class,
        validation_per_class=data.validation_per_class,
        seed=config.seed,
        name=f"{source.name} {data.query_per_class}/{data.train_per_class or 'all'} a class",
        label_names=source.label_names,
        source_fingerprint=source.fingerprint(),
    )


def train(
    config: RunConfig,
    folder: Path | None,
    *,
    resume: bool = False,
    feature_cache: Path | None = None,
    quiet: bool = False,
) -> Hasher:
    """Train and return the model to take codes from: the best on validation where there is one, else the last.

    ``feature_cache`` is where a frozen trunk's features are kept for other runs (default: the run's own folder).
    """
    kind = method_class(config.method.name)
    if not kind.learns_by_gradient:
        raise ConfigError(
            f"{kind.about.title} is fitted to features at once, not trained; `scdh demo` compares with it."
        )
    augmentation(config.train.augmentation)  # a wrong word must not wait for a download or cached features
    accelerator = make_accelerator(config.train.precision)
    if folder is not None:
        _claim(folder, config, resume, accelerator.is_main_process)
        accelerator.wait_for_everyone()
    source = source_of(config)
    protocol = protocol_of(config, source)
    if folder is not None:
        _keep_protocol(folder / "protocol.json", protocol, resume, accelerator.is_main_process)

    if source.num_classes < 2:
        warnings.warn("All rows share one label, so every code will be alike; give at least two classes.", stacklevel=2)
    torch.manual_seed(config.seed)
    width = source.features.shape[1] if source.kind == "features" else None
    hasher, method = Hasher.build(config, source.label_names, source.multi_label, width)
    method.prepare(source.labels[protocol.train])
    hasher.info = {
        "protocol": {"name": protocol.name, "fingerprint": protocol.fingerprint},
        "source": {"name": source.name, "fingerprint": protocol.source_fingerprint},
    }
    bad = BadImages()
    cache = feature_cache or (None if folder is None else folder / "features")
    data = TrainingData(config, hasher, source, protocol, accelerator, bad, cache, quiet)

    best: dict[str, torch.Tensor] = {}

    def keep_best(net: Network) -> None:
        if folder is not None:
            data.whole(net).save(folder / "best")
        else:
            best.update({name: tensor.detach().clone() for name, tensor in net.state_dict().items()})

    fitted = fit(
        data.net,
        method,
        data.batches,
        steps_per_epoch(len(data.train_rows), config.train.batch_size),
        config.train,
        accelerator=accelerator,
        folder=folder,
        resume=resume,
        validate=data.validate if len(protocol.validation) else None,
        keep_best=keep_best,
        quiet=quiet,
    )
    progress = fitted.progress
    if best:
        fitted.net.load_state_dict(best)
    result = data.whole(fitted.net)
    result.info["epochs"] = progress.epochs_done
    result.info["history"] = progress.history[-1]
    chosen = {"best_epoch": progress.best_epoch, "validation_map": progress.best_score}
    if best:
        result.info |= chosen
    if folder is not None and accelerator.is_main_process:
        result.save(folder / "last")
        # Not whether there is a folder: a run that was killed before its first checkpoint may have left one.
        if progress.best_epoch is not None:
            result = Hasher.load(folder / "best")
            result.info |= chosen
        result.save(folder / "model")
    accelerator.wait_for_everyone()
    if bad.paths:
        warnings.warn(f"{len(bad)} broken images were skipped in training, the first is {bad.paths[0]}.", stacklevel=2)
    return result


class TrainingData:
    """What the loop is fed with: augmented images for a learning trunk, cached features for a frozen one."""

    def __init__(
        self,
        config: RunConfig,
        hasher: Hasher,
        source: Source,
        protocol: Protocol,
        accelerator: Any,
        bad: BadImages,
        cache: Path | None,
        quiet: bool,
    ) -> None:
        self.config, self.hasher, self.accelerator, self.bad = config, hasher, accelerator, bad
        self.cache, self.quiet = cache, quiet
        self.source, self.train_rows, self.validation_rows = source, protocol.train, protocol.validation
        self.net, self.preprocess = hasher.network, hasher.preprocess
        self.training_preprocess = hasher.preprocess
        if hasher.preprocess is not None and config.net.image_size is not None:
            self.training_preprocess = replace(hasher.preprocess, size=config.net.image_size)
        self.views: list[Source] = [source]
        self.augmentation = config.train.augmentation if hasher.preprocess is not None else "none"
        if config.net.freeze and hasher.preprocess is not None:
            self._cache_features()

    def _cache_features(self) -> None:
        """Run the trunk once over plain and augmented copies of the rows in use; the heads then train on vectors."""
        config, whole = self.config, self.hasher.network
        whole.channels_last(self.accelerator.device)
        rows = np.concatenate([self.train_rows, self.validation_rows])
        count = 1 if self.augmentation == "none" else config.net.views
        views: list[tuple[np.ndarray, np.ndarray]] = []
        for view in range(count):
            title = f"features of the frozen trunk {view + 1}/{count}"
            views.append(
                cached_trunk_features(
                    self.hasher,
                    self.source,
                    rows,
                    folder=self.cache,
                    preprocess=self.training_preprocess if view else None,
                    augmentation=self.augmentation if view else "none",
                    chance=(config.seed, view) if view else None,
                    batch_size=config.train.batch_size,
                    workers=config.train.workers,
                    on_bad_image=config.data.on_bad_image,
                    bad_images=self.bad,
                    progress=None if self.quiet or not self.accelerator.is_main_process else title,
                )
            )
        # A row must stand at the same place in every view, and files may have broken between two of them.
        kept = rows[np.logical_and.reduce([np.isin(rows, found) for found, _ in views])]
        self.train_rows = np.flatnonzero(np.isin(kept, self.train_rows))
        self.validation_rows = np.flatnonzero(np.isin(kept, self.validation_rows))
        if not len(self.train_rows):
            raise DataError(f"None of the {len(rows)} training images of {self.source.name} can be read.")
        labels, names = self.source.labels[kept], self.source.label_names
        self.views = [ArraySource(x[np.isin(found, kept)], labels, names, name="features") for found, x in views]
        heads = Network(FeatureTrunk(whole.width, []), whole.width, whole.bits)
        heads.hash_layer, heads.fc8, heads.centres = whole.hash_layer, whole.fc8, whole.centres
        self.net, self.augmentation = heads, "none"
        self.preprocess = self.training_preprocess = None

    def batches(self, epoch: int) -> Iterator[Batch]:
        return training_batches(
            self.views[epoch % len(self.views)],
            self.train_rows,
            preprocess=self.training_preprocess,
            augmentation=self.augmentation,
            batch_size=self.config.train.batch_size,
            seed=self.config.seed,
            epoch=epoch,
            rank=self.accelerator.process_index,
            world=self.accelerator.num_processes,
            balanced=self.config.train.balanced,
            workers=self.config.train.workers,
            on_bad_image=self.config.data.on_bad_image,
            bad_images=self.bad,
        )

    def validate(self, net: Network) -> float:
        """MAP of the validation items against each other, each left out of its own ranking: none was trained on."""
        source, rows = self.views[0], self.validation_rows
        batches = evaluation_batches(
            source,
            rows,
            preprocess=self.preprocess,
            batch_size=self.config.train.batch_size,
            workers=self.config.train.workers,
            on_bad_image=self.config.data.on_bad_image,
            bad_images=self.bad,
        )
        codes = encode_batches(net, batches, self.hasher._real_codes)
        labels = source.labels[codes.ids]
        return evaluate(codes, labels, codes, labels, leave_one_out=True).map

    def whole(self, net: Network) -> Hasher:
        """The model with ``net``'s weights and, where the trunk was frozen, the trunk put back below its heads."""
        hasher = self.hasher
        if (
            net.trunk is not hasher.network.trunk
            and isinstance(net.trunk, FeatureTrunk)
            and hasher.preprocess is not None
        ):
            complete = hasher.network
            complete.hash_layer, complete.fc8, complete.centres = net.hash_layer, net.fc8, net.centres
            net = complete
        info = dict(hasher.info)
        return Hasher(
            net,
            hasher.config,
            hasher.label_names,
            hasher.multi_label,
            hasher.preprocess,
            hasher.feature_width,
            info,
        )


def _claim(folder: Path, config: RunConfig, resume: bool, write: bool) -> None:
    """Make ``folder`` this run's own: refuse another run's, or to resume with other settings."""
    file, wanted = folder / "config.json", config.model_dump(mode="json")
    if file.exists():
        if not resume and (folder / "last.safetensors").exists():
            raise TrainingError(
                f"{str(folder)!r} already holds a run; add --resume to go on with it, or choose another folder."
            )
        try:
            found = json.loads(file.read_text("utf-8"))["config"]
        except (ValueError, KeyError, TypeError):
            raise TrainingError(f"{str(file)!r} does not hold the settings of a run; choose another folder.") from None
        if resume and (difference := _first_difference(found, wanted)):
            raise TrainingError(f"The run in {str(folder)!r} has another {difference}; resume with the same settings.")
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_text(json.dumps({"config": wanted, "versions": versions()}, indent=1), "utf-8")


def _keep_protocol(file: Path, protocol: Protocol, resume: bool, write: bool) -> None:
    """Save the split; a run that goes on must have the one it was started with, else queries might be trained on."""
    if resume and file.exists() and (before := Protocol.load(file)) != protocol:
        raise TrainingError(
            f"The data have changed since the run in {str(file.parent)!r} was started (its split was "
            f"{before.fingerprint}, now it would be {protocol.fingerprint}); start a new run."
        )
    if write:
        protocol.save(file)


def _first_difference(found: Any, wanted: Any, key: str = "") -> str | None:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in sorted(found.keys() | wanted.keys()):
            if difference := _first_difference(found.get(name), wanted.get(name), f"{key}.{name}".lstrip(".")):
                return difference
        return None
    return None if found == wanted else f"{key} ({found!r}, not {wanted!r})"

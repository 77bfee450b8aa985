"""The rows that a run trains and validates on, as batches: augmented images, or cached features of a frozen trunk."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from scdh.config import RunConfig
from scdh.data.batches.batch import BadImages, Batch
from scdh.data.batches.loaders import evaluation_batches, training_batches
from scdh.data.batches.sampling import shares, steps_per_epoch
from scdh.data.batches.views import ViewedFeatures
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import DataError, TrainingError
from scdh.methods.base import MethodData
from scdh.metrics.scores import RankingScores
from scdh.model.encode import read_network, run_network
from scdh.model.hasher import Hasher
from scdh.nets.network import Network, Outputs
from scdh.nets.small import FeatureTrunk
from scdh.nets.stages import freeze_stages
from scdh.runs.encoding import KeptOutputs, MeasuredOutputs
from scdh.runs.features import cached_trunk_features
from scdh.runs.ranking import score_ranking

MEASURED_ROWS = 8192  # means and variances of more images hardly change


class TrainingData:
    """Batches for the training loop, and validation.

    Args:
        config: settings of the run.
        hasher: the model to train; if its trunk is frozen, it runs here once over all rows.
        source: the data.
        protocol: which rows train and validate.
        accelerator: accelerate's, for device and process numbers.
        bad_images: collects images that could not be read.
        feature_cache: folder that keeps a frozen trunk's features; None: they are not kept.
        quiet: no progress bars.
    """

    def __init__(
        self,
        config: RunConfig,
        hasher: Hasher,
        source: Source,
        protocol: Protocol,
        accelerator: Any,
        bad_images: BadImages,
        feature_cache: Path | None,
        quiet: bool,
    ) -> None:
        method = hasher.method
        self.config = config
        self.hasher = hasher
        self.accelerator = accelerator
        self.bad_images = bad_images
        self.feature_cache = feature_cache
        self.quiet = quiet
        self.views = method.views
        self.source = source
        self.train_rows = protocol.train
        self.validation_rows = protocol.validation if source.pairs is None else protocol.validation[:0]
        self.pairs = None
        if source.pairs is not None and method.learns_from_pairs:
            self.pairs = source.pairs.among(self.train_rows)
        if self.pairs is not None and accelerator.num_processes > 1:
            raise TrainingError(f"{method.about.title} trains on pairs in one process, not in several.")
        self.unlabelled_rows = protocol.unlabelled if method.learns_from_unlabelled else None
        if self.unlabelled_rows is not None and len(self.unlabelled_rows):
            # Rejects a wrong setting now, not after the features are computed.
            shares(config.train.batch_size, config.train.labelled_share, accelerator.num_processes)
        self.preprocess = self.training_preprocess = hasher.preprocess
        if hasher.preprocess is not None and config.net.image_size is not None:
            self.training_preprocess = replace(hasher.preprocess, size=config.net.image_size)
        self.augmentation = config.train.augmentation if hasher.preprocess is not None else "none"
        self.batch_source = source  # where batches come from; row numbers below are those of this source
        self.is_cached = config.net.caches_frozen and hasher.preprocess is not None
        if self.is_cached:
            self._cache_features()
        elif config.net.freeze:
            freeze_stages(hasher.network, config.net.freeze)
        elif isinstance(hasher.network.trunk, FeatureTrunk) and config.net.standardise:
            hasher.network.trunk.measure(source.features[self.train_rows])

    def _cache_features(self) -> None:
        """Run the trunk once over all rows, and over augmented copies of those that train; batches are then vectors."""
        self.hasher.network.channels_last(self.accelerator.device)
        parts = [self.train_rows, self.validation_rows]
        rows = np.concatenate(parts if self.unlabelled_rows is None else [*parts, self.unlabelled_rows])
        validates = np.isin(rows, self.validation_rows)
        views = self._cached_views(rows, rows[~validates])
        # A row must have the same position in every view, and files may have broken between two of them.
        is_readable = np.isin(rows, views[0][0])
        for view_rows, _ in views[1:]:
            is_readable &= validates | np.isin(rows, view_rows)
        readable, varied = rows[is_readable], np.flatnonzero(~validates[is_readable])
        self.train_rows = np.flatnonzero(np.isin(readable, self.train_rows))
        self.pairs = None if self.pairs is None else self.pairs.positions(readable)
        self.validation_rows = np.flatnonzero(np.isin(readable, self.validation_rows))
        if self.unlabelled_rows is not None:
            self.unlabelled_rows = np.flatnonzero(np.isin(readable, self.unlabelled_rows))
        if not len(self.train_rows):
            raise DataError(f"None of the {len(rows)} training images of {self.source.name} can be read.")
        # If no row is left out, the arrays are not copied: copies would need their memory twice.
        kept = [readable, *[readable[varied]] * (len(views) - 1)]
        features = [
            x if len(x) == len(wanted) else x[np.isin(view_rows, wanted)]
            for (view_rows, x), wanted in zip(views, kept, strict=True)
        ]
        self.batch_source = ViewedFeatures(
            features, self.source.labels[readable], self.source.label_names, varied=varied
        )
        self.augmentation = "none"
        self.preprocess = None
        self.training_preprocess = None

    def _cached_views(self, rows: np.ndarray, varied: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """(rows, features) of the images as they are, and of random crops of the rows ``varied``."""
        config, count = self.config, 1 if self.augmentation == "none" else self.config.net.views
        shows_progress = self.accelerator.is_main_process and not self.quiet
        frozen = self.hasher.frozen_part()
        return [
            cached_trunk_features(
                frozen,
                self.source,
                varied if view else rows,
                folder=self.feature_cache,
                preprocess=self.training_preprocess if view else None,
                augmentation=self.augmentation if view else "none",
                # Not the run's seed: runs with other seeds use the same few views, so they find them in the cache.
                random_key=(0, view) if view else None,
                batch_size=config.train.batch_size,
                workers=config.train.workers,
                on_bad_image=config.data.on_bad_image,
                bad_images=self.bad_images,
                progress=f"features of the frozen trunk {view + 1}/{count}" if shows_progress else None,
            )
            for view in range(count)
        ]

    def network(self) -> Network:
        """The network that reads the batches: without the trunk, if they are the trunk's features already."""
        return self.hasher.learned_part() if self.is_cached else self.hasher.network

    def for_method(self) -> MethodData:
        """The training rows as the method sees them."""
        unlabelled = np.empty(0, np.int64) if self.unlabelled_rows is None else self.unlabelled_rows
        labels = self.batch_source.labels[self.train_rows]
        read, read_unlabelled = partial(self._read, self.train_rows), partial(self._read, unlabelled)
        return MethodData(labels, self.train_rows, unlabelled, read, read_unlabelled, self.pairs)

    def _read(self, rows: np.ndarray, net: Network, value: Callable[[Outputs], Tensor]) -> np.ndarray:
        values = read_network(net, self.plain_batches(rows), value)
        missing = len(rows) - len(values)
        if missing:  # an array without their rows would not fit ``rows``
            raise DataError(
                f"{missing} of the {len(rows)} training images of {self.source.name} cannot be read, and "
                f"{self.hasher.method.about.title} needs the outputs of all of them; remove these images."
            )
        return values

    @property
    def steps_per_epoch(self) -> int:
        settings, unlabelled = self.config.train, self.unlabelled_rows
        return steps_per_epoch(
            len(self.train_rows),
            settings.batch_size,
            0 if unlabelled is None else len(unlabelled),
            settings.labelled_share,
            settings.epoch_steps,
        )

    def batches(self, epoch: int) -> Iterator[Batch]:
        """The batches of an epoch, this process's share of each."""
        return training_batches(
            self.batch_source,
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
            bad_images=self.bad_images,
            views=self.views,
            unlabelled=self.unlabelled_rows,
            labelled_share=self.config.train.labelled_share,
            steps=self.config.train.epoch_steps,
            pairs=self.pairs,
        )

    def plain_batches(self, rows: np.ndarray) -> Iterator[Batch]:
        """Rows as they will be encoded: whole, at the evaluation size, in order."""
        return evaluation_batches(
            self.batch_source,
            rows,
            preprocess=self.preprocess,
            batch_size=self.config.train.batch_size,
            workers=self.config.train.workers,
            on_bad_image=self.config.data.on_bad_image,
            bad_images=self.bad_images,
        )

    @property
    def rows_to_measure(self) -> np.ndarray:
        """Rows for batch-norm statistics: all training rows, labelled or not, or a random part of them."""
        rows = np.concatenate([self.train_rows, *([] if self.unlabelled_rows is None else [self.unlabelled_rows])])
        if len(rows) <= MEASURED_ROWS:
            return rows
        return np.random.default_rng(self.config.seed).choice(rows, MEASURED_ROWS, replace=False)

    def with_config(self, config: RunConfig) -> "TrainingData":
        """The same rows, read once, for a run with other training settings."""
        other = copy.copy(self)
        other.config = config
        return other

    def validate(self, net: Network) -> float:
        """MAP of the validation rows (:meth:`validation_scores`)."""
        return self.validation_scores(net)[0].map

    def validation_scores(self, net: Network) -> tuple[RankingScores, float]:
        """Scores of the validation rows, none of which was trained on, and their l_q: how far real outputs are from the
        corners of the cube. They are ranked against each other, each left out of its own ranking, or against the
        training rows (``train.validation_database``): these fit their codes, as a database of training rows will.
        """
        hasher, method = self.hasher, self.hasher.method
        outputs = KeptOutputs(hasher, self._hash_outputs(net, self.validation_rows))
        measured = MeasuredOutputs(outputs, method.quantization_norm)
        codes = hasher.encode_outputs(measured, net)
        searched, is_among_themselves = codes, True
        if self.config.train.validation_database == "train" and self.preprocess is None:
            searched, is_among_themselves = hasher.encode_outputs(self._hash_outputs(net, self.train_rows), net), False
        scores = score_ranking(
            hasher,
            codes,
            outputs.u,
            self.batch_source.labels[codes.ids],
            searched,
            self.batch_source.labels[searched.ids],
            network=net,
            leave_one_out=is_among_themselves,
        )
        return scores, measured.l_q

    def _hash_outputs(self, net: Network, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return run_network(net, self.plain_batches(rows), self.hasher.method.hash_outputs)

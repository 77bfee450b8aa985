"""What the loop is fed with, and how its network becomes a whole model again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from scdh.config import RunConfig
from scdh.data.batches.batch import BadImages
from scdh.data.batches.loaders import Batch, evaluation_batches, training_batches
from scdh.data.batches.sampling import shares, steps_per_epoch
from scdh.data.batches.views import ViewedFeatures
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.encode import encode_batches
from scdh.errors import DataError
from scdh.evaluation import evaluate
from scdh.hasher import Hasher
from scdh.nets.network import Network
from scdh.nets.small import FeatureTrunk
from scdh.training.features import cached_trunk_features


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
        unlabelled: bool = False,
    ) -> None:
        """``unlabelled``: batches also hold the rows that the protocol leaves without label, and two views of all."""
        self.config, self.hasher, self.accelerator, self.bad = config, hasher, accelerator, bad
        self.cache, self.quiet = cache, quiet
        self.source, self.train_rows, self.validation_rows = source, protocol.train, protocol.validation
        self.unlabelled_rows = protocol.unlabelled if unlabelled else None
        if self.unlabelled_rows is not None and len(self.unlabelled_rows):
            # Only for its refusal: a wrong setting must not wait for cached features.
            shares(config.train.batch_size, config.train.labelled_share, accelerator.num_processes)
        self.net, self.preprocess = hasher.network, hasher.preprocess
        self.training_preprocess = hasher.preprocess
        if hasher.preprocess is not None and config.net.image_size is not None:
            self.training_preprocess = replace(hasher.preprocess, size=config.net.image_size)
        self.fed = source  # what batches come from, and what their row numbers mean
        self.augmentation = config.train.augmentation if hasher.preprocess is not None else "none"
        if config.net.freeze and hasher.preprocess is not None:
            self._cache_features()

    def _cache_features(self) -> None:
        """Run the trunk once over plain and augmented copies of the rows in use; the heads then train on vectors."""
        config, whole = self.config, self.hasher.network
        whole.channels_last(self.accelerator.device)
        others = [] if self.unlabelled_rows is None else [self.unlabelled_rows]
        rows = np.concatenate([self.train_rows, self.validation_rows, *others])
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
                    # Not the run's seed: runs of other seeds draw from the same few versions, and so find them kept.
                    random_key=(0, view) if view else None,
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
        if self.unlabelled_rows is not None:
            self.unlabelled_rows = np.flatnonzero(np.isin(kept, self.unlabelled_rows))
        if not len(self.train_rows):
            raise DataError(f"None of the {len(rows)} training images of {self.source.name} can be read.")
        labels, names = self.source.labels[kept], self.source.label_names
        # Where nothing is left out the arrays stay as they are: copies would take their memory twice.
        same = [x if len(x) == len(kept) else x[np.isin(found, kept)] for found, x in views]
        self.fed = ViewedFeatures(same, labels, names)
        self.net, self.augmentation = whole.with_trunk(FeatureTrunk(whole.trunk_width, [])), "none"
        self.preprocess = self.training_preprocess = None

    @property
    def train_labels(self) -> np.ndarray:
        """The labels of ``train_rows``."""
        return self.fed.labels[self.train_rows]

    @property
    def steps_per_epoch(self) -> int:
        settings, others = self.config.train, self.unlabelled_rows
        return steps_per_epoch(
            len(self.train_rows),
            settings.batch_size,
            0 if others is None else len(others),
            settings.labelled_share,
            settings.epoch_steps,
        )

    def batches(self, epoch: int) -> Iterator[Batch]:
        return training_batches(
            self.fed,
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
            views=1 if self.unlabelled_rows is None else 2,
            unlabelled=self.unlabelled_rows,
            labelled_share=self.config.train.labelled_share,
            steps=self.config.train.epoch_steps,
        )

    def plain_batches(self, rows: np.ndarray) -> Iterator[Batch]:
        """Rows as they will be encoded: whole, at the evaluation size, in order."""
        return evaluation_batches(
            self.fed,
            rows,
            preprocess=self.preprocess,
            batch_size=self.config.train.batch_size,
            workers=self.config.train.workers,
            on_bad_image=self.config.data.on_bad_image,
            bad_images=self.bad,
        )

    def validate(self, net: Network) -> float:
        """MAP of the validation items against each other, each left out of its own ranking: none was trained on."""
        codes = encode_batches(net, self.plain_batches(self.validation_rows), self.hasher._real_codes)
        labels = self.fed.labels[codes.ids]
        return evaluate(codes, labels, codes, labels, leave_one_out=True).map

    def whole(self, net: Network) -> Hasher:
        """The model with ``net``'s weights and, where the trunk was frozen, the trunk put back below its heads."""
        hasher = self.hasher
        if (
            net.trunk is not hasher.network.trunk
            and isinstance(net.trunk, FeatureTrunk)
            and hasher.preprocess is not None
        ):
            net = net.with_trunk(hasher.network.trunk)
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

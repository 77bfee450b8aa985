"""What a method is: one class, at most six verbs; the training loop knows nothing else.

``build`` (heads, and so what learns) → ``prepare`` (once, from the labels) → ``step`` (losses of a batch at a moment) →
``after_step`` (what follows an update: norm constraints, moving averages) → ``end_epoch`` (discrete updates) →
``real_codes`` (how u is read from the network's outputs). Methods without gradient training override ``fit`` instead.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from torch import Tensor, nn

from scdh.codes import Codes
from scdh.config import Settings
from scdh.data.batches.loaders import Batch
from scdh.errors import ConfigError
from scdh.nets.network import Network, Outputs


@dataclass(frozen=True)
class About:
    """What ``scdh methods`` tells of a method."""

    title: str
    kind: str
    year: int
    reference: str
    cost: str
    faithful: str
    labels: tuple[str, ...] = ("single", "multi")


@dataclass(frozen=True)
class Moment:
    """Where training stands at a step: epochs done with the fraction of the present one, and the teacher, where the
    method asked for one (``teacher_decay``).
    """

    epoch: float = 0.0
    teacher: Network | None = None


START = Moment()


class Method(nn.Module):
    """Base of all methods. Inherit once, never deeper."""

    about: ClassVar[About]
    Settings: ClassVar[type[Settings]] = Settings
    learns_by_gradient: ClassVar[bool] = True
    learns_from_unlabelled: ClassVar[bool] = False  # batches then hold rows without label, each in two random views

    def __init__(self, settings: Any, bits: int, num_classes: int, multi_label: bool) -> None:
        super().__init__()
        self.settings, self.bits, self.num_classes, self.multi_label = (
            settings,
            bits,
            num_classes,
            multi_label,
        )
        kind = "multi" if multi_label else "single"
        if kind not in self.about.labels:
            raise ConfigError(
                f"{self.about.title} learns from {self.about.labels[0]}-label data only, not {kind}-label data."
            )

    def build(self, net: Network) -> None:
        """Add heads to the network; what is added there learns, and is saved with it."""

    def prepare(self, labels: np.ndarray, rows: np.ndarray | None = None) -> None:
        """Once, before the first step: code books, fixed centres, stored codes.

        ``labels`` are those of the training rows; ``rows`` their numbers as in ``batch.rows`` (0 … n−1 where None).
        """

    @property
    def teacher_decay(self) -> float:
        """Decay of the moving average of the network that ``step`` gets as ``moment.teacher``; 0: no teacher."""
        return 0.0

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        """Losses of one batch: ``loss`` is what is minimised, the other entries are its parts."""
        raise TypeError(f"{type(self).__name__} has no step; it is fitted, not trained.")

    def after_step(self, net: Network, epoch: int) -> None:
        """After every optimiser step; ``epoch`` counts from 0."""

    def end_epoch(self, net: Network, epoch: int) -> dict[str, float]:
        """After every epoch; returns figures worth logging."""
        return {}

    @staticmethod
    def real_codes(outputs: Outputs) -> Tensor:
        """u [B, r]; a bit is 1 iff u ≥ 0."""
        return outputs.u

    def fit(self, features: np.ndarray, labels: np.ndarray | None, seed: int) -> "Method":
        """For methods without gradient training: learn from features [n, d] at once."""
        raise TypeError(f"{type(self).__name__} has no fit; it is trained step by step.")

    def encode(self, features: np.ndarray) -> Codes:
        """For methods that were fitted: the codes of features [n, d]."""
        raise TypeError(f"{type(self).__name__} has no encode of its own; the network gives its codes.")

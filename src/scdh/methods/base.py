"""The interface of a method: one class with a few functions, which is all that the training loop knows.

In the order in which training calls them: ``build`` (the method's head, and so what learns), ``prepare`` (once, from
the training data), ``step`` (losses of a batch), ``after_step`` (norm constraints and the like), ``end_epoch``
(discrete updates). ``hash_outputs`` and ``signs`` say how codes are read from the network. A method without gradient
training has ``fit`` in place of the middle four.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor, nn

from scdh.codes import HAMMING, Codes
from scdh.config import Settings
from scdh.data.batches.batch import Batch
from scdh.data.pairs import Pairs
from scdh.errors import ConfigError
from scdh.index.byte_tables import queries_at_once, table_distances
from scdh.index.kernels.distances import word_columns
from scdh.nets.heads import HashHead
from scdh.nets.known_pairs import KnownPairs, PairMasks
from scdh.nets.network import Network, Outputs

__all__ = ["START", "About", "Batch", "Method", "MethodData", "Moment", "Settings"]


@dataclass(frozen=True)
class About:
    """What ``scdh methods`` shows.

    Args:
        title: the name in tables and on pages.
        kind: what the loss is over: unary, pairwise, triplet …
        year: of publication.
        reference: authors, title, venue.
        cost: of one step, in B (batch), C (classes), r (bits), n (training rows).
        fidelity: how close the implementation is to the publication; "variant": a departure that changes results;
            "reconstruction": the formulas are not known for certain.
        differs: what differs from the publication, or what is uncertain; "" if nothing does.
        use_when: when to use this method, as the end of a sentence.
        labels: kinds of labels it can learn from, "single" and "multi".
        bits_multiple: code lengths must be multiples of this number.
    """

    title: str
    kind: str
    year: int
    reference: str
    cost: str
    fidelity: Literal["faithful", "variant", "reconstruction"]
    differs: str = ""
    use_when: str = ""
    labels: tuple[str, ...] = ("single", "multi")
    bits_multiple: int = 1

    def has_length(self, bits: int) -> bool:
        return bits % self.bits_multiple == 0


@dataclass(frozen=True)
class Moment:
    """The time of a step, and the teacher if the method has one (``teacher_decay``).

    Args:
        epoch: number of the epoch, from 0.
        step: number of the step within the epoch, from 0. In ``end_epoch`` it is the number of steps done.
        steps_per_epoch: steps of a whole epoch.
        epochs: epochs of the whole run.
        teacher: network whose weights are the moving average of the trained one's.
    """

    epoch: int = 0
    step: int = 0
    steps_per_epoch: int = 1
    epochs: int = 1
    teacher: Network | None = None

    @property
    def epochs_done(self) -> float:
        """Epochs done, with the fraction of the current epoch."""
        return self.epoch + self.step / self.steps_per_epoch


START = Moment()


@dataclass(frozen=True)
class MethodData:
    """The training data as ``prepare`` and ``end_epoch`` see them.

    Args:
        labels: of the training rows, int64 [n] or multi-hot [n, C].
        rows: their numbers as in ``batch.rows``, int64 [n].
        unlabelled_rows: numbers of the rows that train without a label; empty unless ``learns_from_unlabelled``.
        read: function of (network, what to keep of its outputs) that runs over the training rows as they will be
            encoded, and gives an array [n, …] in the order of ``rows``.
        pairs: known pairs of training rows, where the method learns from them instead of labels.
        read_unlabelled: the same over ``unlabelled_rows``; None where there are none.
    """

    labels: np.ndarray
    rows: np.ndarray
    unlabelled_rows: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    read: Callable[[Network, Callable[[Outputs], Tensor]], np.ndarray] | None = None
    read_unlabelled: Callable[[Network, Callable[[Outputs], Tensor]], np.ndarray] | None = None
    pairs: Pairs | None = None

    def features(self, net: Network) -> np.ndarray:
        """The trunk's features of the training rows, float32 [n, trunk_width]."""
        return self._read(net, lambda outputs: outputs.features)

    def all_features(self, net: Network) -> tuple[np.ndarray, np.ndarray]:
        """Row numbers int64 [m] of all rows that train, labelled or not, and the trunk's features of them."""
        if self.read_unlabelled is None or not len(self.unlabelled_rows):
            return self.rows, self.features(net)
        features = [self.features(net), self.read_unlabelled(net, lambda outputs: outputs.features)]
        return np.concatenate([self.rows, self.unlabelled_rows]), np.concatenate(features)

    def hidden(self, net: Network) -> np.ndarray:
        """What the head reads of the training rows, float32 [n, width]."""
        return self._read(net, lambda outputs: outputs.hidden)

    def u(self, net: Network) -> np.ndarray:
        """u of the training rows as the network's head gives it, float32 [n, r]."""
        return self._read(net, lambda outputs: outputs.u)

    def _read(self, net: Network, value: Callable[[Outputs], Tensor]) -> np.ndarray:
        if self.read is None:
            raise TypeError("This data was made without a network to run; give MethodData a `read` function.")
        return self.read(net, value)


class Method(nn.Module):
    """Base of all methods. Inherit once, never deeper. Parameters and buffers placed on a method learn and are kept in
    checkpoints, but are not part of the model: what encoding needs belongs to the head.

    Args:
        settings: the method's own settings, an instance of its ``Settings``.
        bits: length of the codes that the user asked for.
        num_classes: C.
        multi_label: whether an item may have several labels.
    """

    about: ClassVar[About]
    Settings: ClassVar[type[Settings]] = Settings
    learns_by_gradient: ClassVar[bool] = True
    needs_labels: ClassVar[bool] = True
    learns_from_unlabelled: ClassVar[bool] = False  # batches then hold rows without a label too
    learns_from_pairs: ClassVar[bool] = False  # by ``known_pairs``; other methods get labels made of pairs
    views: ClassVar[int] = 1  # random views of each row in a batch: ``batch.inputs`` and ``batch.other_views``
    no_weight_decay: ClassVar[frozenset[str]] = frozenset()  # names of parameters placed on the method itself
    ranking: ClassVar[str] = HAMMING  # the distance that orders a database; another one needs tables
    collapse_advice: ClassVar[str] = "lower train.lr_head, or train longer"
    unlabelled_advice: ClassVar[str] = "lower the weight of the method's loss on unlabelled rows"
    # Settings that suit a kind of data ("embeddings", "frozen images", "tuned images") better than the paper's.
    suited_settings: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    # For variants: the method whose preset settings also apply here, if the names are the same.
    preset_settings_of: ClassVar[str] = ""
    # One to three settings worth tuning with the values to try, nine combinations in all: ``scdh compare --tune grid``.
    # A key with a dot is a setting of the run; "r/4" is a quarter of the bits.
    tuned_settings: ClassVar[Mapping[str, tuple[Any, ...]]] = {}

    def __init__(self, settings: Any, bits: int, num_classes: int, multi_label: bool) -> None:
        super().__init__()
        self.settings = settings
        self.bits = bits
        self.num_classes = num_classes
        self.multi_label = multi_label
        self.pairs: KnownPairs | None = None  # set before ``prepare`` where ``data.pairs`` is
        kind = "multi" if multi_label else "single"
        if kind not in self.about.labels:
            raise ConfigError(
                f"{self.about.title} learns from {self.about.labels[0]}-label data only, not {kind}-label data."
            )

    @property
    def code_bits(self) -> int:
        """Length of the codes; methods that decide the length themselves override it."""
        return self.bits

    @property
    def quantization_norm(self) -> float:
        """p of the quantization loss for the reported l_q; the paper's if the method has none."""
        return float(getattr(self.settings, "p", 3.0))

    def teacher_decay(self, steps: int) -> float:
        """Decay of the moving average of the network that ``step`` gets as ``moment.teacher``, in a run of ``steps``
        steps; 0: no teacher."""
        return 0.0

    def build(self, net: Network) -> None:
        """Set ``net.head``; what is in it learns, and is saved with the model."""
        net.head = HashHead(net.width, net.bits)

    def prepare(self, net: Network, data: MethodData) -> None:
        """Once, before the first step: code books, fixed centres, stored codes."""

    def known_pairs(self, batch: Batch, with_all: bool = False) -> PairMasks | None:
        """Which pairs of the batch's rows (with one another, or ``with_all`` training rows) are similar, and which are
        known; None where labels tell it."""
        return None if self.pairs is None else self.pairs.masks(batch.rows, with_all)

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        """Losses of one batch: ``loss`` is what is minimised, the other entries are its parts."""
        raise TypeError(f"{type(self).__name__} has no step; it is fitted, not trained.")

    def after_step(self, net: Network, moment: Moment) -> None:
        """After every optimiser step."""

    def end_epoch(self, net: Network, data: MethodData, moment: Moment) -> dict[str, float]:
        """After every epoch; returns figures for the log."""
        return {}

    def fit(self, net: Network, features: np.ndarray, labels: np.ndarray, seed: int) -> None:
        """For methods without gradient training: write ``net.head`` from features [n, d] and their labels."""
        raise TypeError(f"{type(self).__name__} has no fit; it is trained step by step.")

    def hash_outputs(self, outputs: Outputs) -> Tensor:
        """u [B, r], the real outputs that codes are read from."""
        return outputs.u

    def signs(self, net: Network, u: np.ndarray) -> np.ndarray:
        """[n, r] whose signs are the bits: a bit is 1 iff its value is ≥ 0."""
        return u

    def distance_tables(self, net: Network, u: np.ndarray) -> np.ndarray:
        """For methods with a ``ranking`` of their own: tables [q, bytes, 256] of query outputs [q, r]; the distance to
        a code is the sum of the entries for its bytes."""
        raise ConfigError(self._no_tables())

    def outputs_of_codes(self, net: Network, codes: Codes) -> np.ndarray:
        """For methods with a ``ranking`` of their own: outputs [n, r] that codes stand for, so that items known only by
        their codes can be queries.
        """
        if self.ranking == HAMMING:
            raise ConfigError(self._no_tables())
        raise ConfigError(f"{self.about.title} cannot recover outputs from codes, so an id or a row cannot be a query.")

    def _no_tables(self) -> str:
        needed = "which needs no tables" if self.ranking == HAMMING else "but its file has no `distance_tables`"
        return f"{self.about.title} ranks by {self.ranking}, {needed}."

    def distances(self, net: Network, u: np.ndarray, database: Codes) -> np.ndarray:
        """Real distances float64 [q, n] of query outputs [q, r] to codes, by the tables."""
        words, step = word_columns(database), queries_at_once(database.bits)
        parts = [
            table_distances(np.asarray(self.distance_tables(net, u[start : start + step]), np.float64), words)
            for start in range(0, len(u), step)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, len(database)))

    def centres(self, net: Network) -> Tensor | None:
        """The semantic cluster centres [C, r], if the method has them."""
        return None

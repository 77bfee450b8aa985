"""Codes of embeddings as scikit-learn estimators."""

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from scdh.codes import Codes
from scdh.data.labels import is_multi_hot, labels_like, number_classes, plain_labels
from scdh.label_arrays import is_labelled, no_labels


class HashTransformer(TransformerMixin, BaseEstimator):
    """Codes of embeddings X [n, d] by any method of ``scdh methods`` that takes embeddings.

    Args:
        method: name of the method.
        bits: length of the codes.
        settings: the method's own settings, e.g. ``{"margin": 24.0}`` for "dsh"; what is not given has the value that
            suits embeddings, or else the method's default.
        hidden: widths of an MLP below the hash layer (empty: a linear hash); methods that are fitted have none.
        dropout: after each layer of the MLP.
        epochs: passes over the data.
        batch_size: rows of one step.
        learning_rate: of AdamW, with a cosine schedule.
        weight_decay: of AdamW.
        random_state: seed, or a RandomState; None: another one each time.
        verbose: 1 prints a line after each epoch.

    Features are standardised with the mean and deviation of the training data, of rows without a label too.

    Attributes:
        classes_: the values of y, or the numbers of its columns.
        hasher_: the model.
        training_codes_: codes of the training rows that have a label, for ``score``.
        training_labels_: the labels of these rows, as positions in ``classes_``, or multi-hot.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> HashTransformer("itq", bits=32).fit_transform(X).shape
    (1797, 4)
    """

    def __init__(
        self,
        method: str = "scdh",
        bits: int = 64,
        *,
        settings: dict[str, Any] | None = None,
        hidden: tuple[int, ...] = (256,),
        dropout: float = 0.2,
        epochs: int = 30,
        batch_size: int = 64,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-2,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.bits = bits
        self.settings = settings
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.verbose = verbose

    def _method(self) -> tuple[str, dict[str, Any]]:
        """Name of the method, and its own settings."""
        from scdh.methods.declared import declared

        return self.method, {**declared(self.method).suited_settings.get("embeddings", {}), **(self.settings or {})}

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn codes.

        Args:
            X: embeddings, float [n, d].
            y: labels, int or str [n], or multi-hot [n, C], where −1, None, "" or a row of zeros means no label: methods
                that can learn from such rows do. Methods that need no labels take None.
        """
        # Everything of torch is imported here, so that importing the class stays cheap.
        import torch

        from scdh.data.arrays.memory import ArraySource
        from scdh.hasher import Hasher

        X, labels = self._check_data(X, y)
        labelled = is_labelled(labels)
        if self._needs_labels() and not labelled.any():
            raise ValueError("No row of y has a label, so there is nothing to learn from.")
        self.mean_, self.scale_ = X.mean(0), np.where((deviation := X.std(0)) > 0, deviation, 1.0)
        seed = self._seed()
        source = ArraySource(self._standardise(X), labels, [str(c) for c in self.classes_], name="X")
        with torch.random.fork_rng(devices=[]):  # the caller's own random numbers stay as they were
            torch.manual_seed(seed)
            self.hasher_ = Hasher.build(self._config(seed), source.label_names, labels.ndim == 2, X.shape[1])
            self._learn(source, seed)
        self.hasher_.network.eval()
        self.training_labels_ = labels[labelled]
        self.training_codes_ = self.hasher_.encode(self._standardise(X[labelled]), batch_size=4096)
        return self

    def _check_data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """X float64 [n, d] and labels: int64 [n] or multi-hot [n, C]; also sets ``classes_``."""
        if y is None and not self._needs_labels():
            X = validate_data(self, X, dtype=np.float64)
            self.classes_ = np.empty(0, np.int64)
            return X, no_labels(len(X))
        y = None if y is None else plain_labels(y)
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=is_multi_hot(y))
        if is_multi_hot(y):
            self.classes_ = np.arange(y.shape[1])
            return X, np.asarray(y, np.uint8)
        if type_of_target(y).startswith("continuous"):
            raise ValueError(f"Unknown label type: {type_of_target(y)}; {type(self).__name__} needs class labels.")
        labels, self.classes_ = number_classes(y)
        if len(self.classes_) == 1 and not is_labelled(labels).all():
            warnings.warn("y has one class and -1, which means no label; if -1 is a class, rename it.", stacklevel=3)
        return X, labels

    def _learn(self, source: Any, seed: int) -> None:
        from scdh.data.batches.loaders import evaluation_batches, training_batches
        from scdh.data.batches.sampling import steps_per_epoch
        from scdh.encode import read_network
        from scdh.methods.base import MethodData
        from scdh.training.device import make_accelerator
        from scdh.training.loop import train_epochs

        hasher, method = self.hasher_, self.hasher_.method
        if not method.learns_by_gradient:
            method.fit(hasher.network, source.features, source.labels, seed)
            return
        rows = np.flatnonzero(source.labelled)
        unlabelled = np.flatnonzero(~source.labelled) if method.learns_from_unlabelled else np.empty(0, np.int64)

        def read(wanted: np.ndarray, net: Any, value: Any) -> np.ndarray:  # what ``value`` picks of the outputs
            return read_network(net, evaluation_batches(source, wanted, batch_size=4096), value)

        data = MethodData(source.labels[rows], rows, unlabelled, partial(read, rows), partial(read, unlabelled))
        method.prepare(hasher.network, data)
        trained = train_epochs(
            hasher.network,
            method,
            data,
            lambda epoch: training_batches(
                source,
                rows,
                batch_size=self.batch_size,
                seed=seed,
                epoch=epoch,
                views=method.views,
                unlabelled=unlabelled if method.learns_from_unlabelled else None,
            ),
            steps_per_epoch(len(rows), self.batch_size, len(unlabelled)),
            hasher.config.train,
            accelerator=make_accelerator("fp32"),
            quiet=not self.verbose,
        )
        self.hasher_ = hasher.with_network(trained.net)  # a teacher, where the method has one

    def codes(self, X: Any) -> Codes:
        """The codes of ``X``, float [n, d], as an object that the index takes."""
        return self.hasher_.encode(self._prepared(X), batch_size=4096)

    def outputs(self, X: Any) -> np.ndarray:
        """u float32 [n, r] of ``X``, float [n, d]: for ``weights=abs(u)`` or ``hasher_.distance_tables(u)``."""
        return self.hasher_.hash_outputs(self._prepared(X), batch_size=4096)

    def transform(self, X: Any) -> np.ndarray:
        """Packed codes of ``X``, float [n, d]: uint8 [n, ceil(bits/8)]."""
        return self.codes(X).packed

    def score(self, X: Any, y: Any = None) -> float:
        """MAP of held-out rows as queries against the training rows, which ``GridSearchCV`` takes to choose settings
        by. Codes that were learned without labels are scored among the rows of ``X``, each left out of its own ranking.

        Args:
            X: embeddings, float [n, d].
            y: their labels, of the same kind as those of ``fit``, and not None; rows without a label are left out.
        """
        from scdh.runs.ranking import score_ranking

        X = self._prepared(X)
        has_database = len(self.training_codes_) > 0
        labels = labels_like(y, len(X), *((self.training_labels_, self.classes_) if has_database else (None, None)))
        rows = np.flatnonzero(is_labelled(labels))
        if not len(rows):
            raise ValueError("No row of y has a label, so there is nothing to score by.")
        u = self.hasher_.hash_outputs(X[rows], batch_size=4096)
        codes = self.hasher_.encode_outputs([(rows, u)])
        database = (self.training_codes_, self.training_labels_) if has_database else (codes, labels[rows])
        return score_ranking(self.hasher_, codes, u, labels[rows], *database, leave_one_out=not has_database).map

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """One name a byte; ``input_features`` is there because scikit-learn passes it."""
        check_is_fitted(self)
        return np.array([f"byte{i}" for i in range((self.hasher_.bits + 7) // 8)], dtype=object)

    def _prepared(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._standardise(validate_data(self, X, dtype=np.float64, reset=False))

    def _standardise(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _seed(self) -> int:
        state = np.random.RandomState(None) if self.random_state is None else self.random_state
        return int(state.randint(2**31)) if isinstance(state, np.random.RandomState) else int(state)

    def _config(self, seed: int) -> Any:
        from scdh.config import parse_config

        name, settings = self._method()
        return parse_config(
            {
                "seed": seed,
                "net": {"backbone": "features", "hidden": list(self.hidden), "dropout": self.dropout},
                "method": {"name": name, "bits": self.bits, **settings},
                "train": {
                    "epochs": self.epochs,
                    "batch_size": self.batch_size,
                    "optimiser": "adamw",
                    "schedule": "cosine",
                    "lr_trunk": self.learning_rate,
                    "lr_head": self.learning_rate,
                    "weight_decay": self.weight_decay,
                    "augmentation": "none",
                },
            }
        )

    def _needs_labels(self) -> bool:
        from scdh.methods.declared import declared

        return declared(self._method()[0]).needs_labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required, tags.target_tags.multi_output = self._needs_labels(), False
        tags.transformer_tags.preserves_dtype = []
        return tags


class SCDHTransformer(HashTransformer):
    """SCDH for embeddings X [n, d] and labels y: the short form of ``HashTransformer("scdh")``.

    Args:
        bits: length of the codes.
        lam: λ, weight of the distance to the own centres.
        mu: μ, weight of the classification loss.
        alpha: α, weight of the quantization loss.
        hidden, dropout, epochs, batch_size, learning_rate, weight_decay, random_state, verbose: as of
            :class:`HashTransformer`.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> SCDHTransformer(bits=32, epochs=2).fit_transform(X, y).shape
    (1797, 4)
    """

    def __init__(
        self,
        bits: int = 64,
        *,
        lam: float = 0.005,
        mu: float = 0.2,
        alpha: float = 0.5,
        hidden: tuple[int, ...] = (256,),
        dropout: float = 0.2,
        epochs: int = 30,
        batch_size: int = 64,
        learning_rate: float = 2e-3,
        weight_decay: float = 1e-2,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            "scdh",
            bits,
            hidden=hidden,
            dropout=dropout,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            random_state=random_state,
            verbose=verbose,
        )
        self.lam, self.mu, self.alpha = lam, mu, alpha

    def _method(self) -> tuple[str, dict[str, Any]]:
        return "scdh", {"lam": self.lam, "mu": self.mu, "alpha": self.alpha}

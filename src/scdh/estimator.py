"""Codes of embeddings as scikit-learn estimators."""

import warnings
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from scdh.codes import Codes
from scdh.data.arrays.loose import IN_MEMORY
from scdh.data.labels import encode_lists, holds_lists, is_multi_hot, labels_like, number_classes, plain_labels
from scdh.label_arrays import is_labelled, no_labels


class HashTransformer(TransformerMixin, BaseEstimator):
    """Codes of embeddings X [n, d] by any method of ``scdh methods`` that takes embeddings.

    The defaults are those of :func:`scdh.train` without trials. All labelled rows train, and none are held out.

    Args:
        method: name of the method.
        bits: length of the codes.
        settings: the method's own settings, e.g. ``{"margin": 24.0}`` for "dsh"; None or a missing key: a value that
            suits embeddings.
        hidden: widths of an MLP below the hash layer (empty: a linear hash); None: one layer of 512. Methods that are
            fitted have none.
        dropout: after each layer of the MLP; None: 0.2.
        epochs: passes over the data; None: by the number of rows.
        batch_size: rows of one step; None: by the number of rows.
        learning_rate: of AdamW, with a cosine schedule; None: 0.003.
        weight_decay: of AdamW; None: 0.01.
        random_state: seed, or a RandomState; None: a new seed each time.
        verbose: 1 prints the figures of every epoch; of some epochs, if they are short.

    Attributes:
        classes_: the values of y, or the numbers of its columns.
        hasher_: the model; it standardises the features by mean and deviation of the training rows.
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
        bits: int = 32,
        *,
        settings: dict[str, Any] | None = None,
        hidden: tuple[int, ...] | None = None,
        dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
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
        """Name of the method, and those of its own settings that were given."""
        return self.method, self.settings or {}

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn codes.

        Args:
            X: embeddings, float [n, d].
            y: labels, int or str [n], multi-hot [n, C], or a list of labels per row, where −1, None, "", an empty list
                or a row of zeros means no label; methods that can learn from such rows use them. For methods that need
                no labels, y may be None.
        """
        # torch is imported here, so that importing the class stays cheap.
        from scdh.config import load_config
        from scdh.data.arrays.memory import ArraySource
        from scdh.methods.registry import method_class
        from scdh.training.train import train_config

        X, labels = self._check_data(X, y)
        labelled = is_labelled(labels)
        needs_labels = method_class(self._method()[0]).needs_labels
        if needs_labels and not labelled.any():
            raise ValueError("No row of y has a label, so there is nothing to learn from.")
        X = X.astype(np.float32)
        # A method that learns without labels learns from all rows, also from those that have none.
        source = ArraySource(X, *((labels, [str(c) for c in self.classes_]) if needs_labels else ()), name="X")
        config = load_config(overrides=self._given())
        self.hasher_ = train_config(config, source=source, trials=False, quiet=not self.verbose)
        self.hasher_.network.eval()
        self.training_labels_ = labels[labelled]
        self.training_codes_ = self.hasher_.encode(X[labelled], batch_size=4096)
        return self

    def _check_data(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """X float64 [n, d] and labels: int64 [n] or multi-hot [n, C]; also sets ``classes_``."""
        if y is None and not self._needs_labels():
            X = self._validated(X)
            self.classes_ = np.empty(0, np.int64)
            return X, no_labels(len(X))
        names = None
        if y is not None and holds_lists(y):
            y, names = encode_lists(list(y))
        y = None if y is None else plain_labels(y)
        X, y = self._validated(X, y, multi_output=is_multi_hot(y) or names is not None)
        if is_multi_hot(y) or names is not None:
            self.classes_ = np.arange(y.shape[1]) if names is None else np.array(names)
            return X, np.asarray(y, np.uint8)
        if type_of_target(y).startswith("continuous"):
            raise ValueError(f"Unknown label type: {type_of_target(y)}; {type(self).__name__} needs class labels.")
        labels, self.classes_ = number_classes(y)
        if len(self.classes_) == 1 and not is_labelled(labels).all():
            warnings.warn("y has one class and -1, which means no label; if -1 is a class, rename it.", stacklevel=3)
        return X, labels

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        """X float64 [n, d], and ``y``, as scikit-learn checks them."""
        if issparse(X):
            raise TypeError(
                f"X is a sparse matrix, and {type(self).__name__} needs dense vectors: apply TruncatedSVD of "
                "scikit-learn first, or use X.toarray() if that fits in memory."
            )
        return validate_data(self, X, *y, dtype=np.float64, **options)

    def codes(self, X: Any) -> Codes:
        """The codes of ``X``, float [n, d], as ``Codes``, which an index takes."""
        X = self._prepared(X)  # first, as it raises NotFittedError
        return self.hasher_.encode(X, batch_size=4096)

    def outputs(self, X: Any) -> np.ndarray:
        """u float32 [n, r] of ``X``, float [n, d]: for ``weights=abs(u)`` or ``hasher_.distance_tables(u)``."""
        X = self._prepared(X)
        return self.hasher_.hash_outputs(X, batch_size=4096)

    def transform(self, X: Any) -> np.ndarray:
        """Packed codes of ``X``, float [n, d]: uint8 [n, ceil(bits/8)]."""
        return self.codes(X).packed

    def score(self, X: Any, y: Any = None) -> float:
        """MAP of held-out rows as queries against the training rows; ``GridSearchCV`` chooses settings by it. Codes
        that were learned without labels are scored among the rows of ``X``, each left out of its own ranking.

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
        """One name per byte; ``input_features`` is there because scikit-learn passes it."""
        check_is_fitted(self)
        return np.array([f"byte{i}" for i in range((self.hasher_.bits + 7) // 8)], dtype=object)

    def _prepared(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self._validated(X, reset=False).astype(np.float32)

    def _seed(self) -> int:
        state = np.random.RandomState(None) if self.random_state is None else self.random_state
        return int(state.randint(2**31)) if isinstance(state, np.random.RandomState) else int(state)

    def _given(self) -> dict[str, Any]:
        """The settings of a run that were given, by dotted key."""
        name, own = self._method()
        given = {
            "net.hidden": None if self.hidden is None else list(self.hidden),
            "net.dropout": self.dropout,
            "train.epochs": self.epochs,
            "train.batch_size": self.batch_size,
            "train.lr_trunk": self.learning_rate,
            "train.lr_head": self.learning_rate,
            "train.weight_decay": self.weight_decay,
            **{f"method.{key}": value for key, value in own.items()},
        }
        return {
            "data.source": IN_MEMORY,
            "data.split": "all",
            "seed": self._seed(),
            "method.name": name,
            "method.bits": self.bits,
            **{key: value for key, value in given.items() if value is not None},
        }

    def _needs_labels(self) -> bool:
        from scdh.methods.registry import method_class

        return method_class(self._method()[0]).needs_labels

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required, tags.target_tags.multi_output = self._needs_labels(), False
        tags.transformer_tags.preserves_dtype = []
        return tags


class SCDHTransformer(HashTransformer):
    """SCDH for embeddings X [n, d] and labels y: the short form of ``HashTransformer("scdh")``.

    Args:
        bits: length of the codes.
        lam: λ, weight of the distance to the own centres; None, here and below: a value that suits the data.
        mu: μ, weight of the classification loss.
        alpha: α, weight of the quantization loss.
        hidden, dropout, epochs, batch_size, learning_rate, weight_decay, random_state, verbose: as in
            :class:`HashTransformer`.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> SCDHTransformer(bits=32, epochs=2).fit_transform(X, y).shape
    (1797, 4)
    """

    def __init__(
        self,
        bits: int = 32,
        *,
        lam: float | None = None,
        mu: float | None = None,
        alpha: float | None = None,
        hidden: tuple[int, ...] | None = None,
        dropout: float | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
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
        self.lam = lam
        self.mu = mu
        self.alpha = alpha

    def _method(self) -> tuple[str, dict[str, Any]]:
        own = {"lam": self.lam, "mu": self.mu, "alpha": self.alpha}
        return "scdh", {key: value for key, value in own.items() if value is not None}

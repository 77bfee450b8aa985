"""SCDH for embeddings as a scikit-learn estimator."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from scdh.codes import Codes


class SCDHTransformer(TransformerMixin, BaseEstimator):
    """Learn codes from embeddings X [n, d] and labels y: int or str [n], or multi-hot [n, C].

    ``transform`` gives packed codes, uint8 [n, ceil(bits/8)]; ``codes`` gives them as :class:`scdh.Codes`. Parameters
    are the paper's symbols: ``lam`` λ, ``mu`` μ, ``alpha`` α. ``hidden`` are widths of an MLP below the hash layer
    (empty: a linear hash). Features are standardised with the training data's mean and deviation.

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
    ) -> None:
        self.bits = bits
        self.lam = lam
        self.mu = mu
        self.alpha = alpha
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "SCDHTransformer":
        # Everything of torch is imported here, so that importing the class stays cheap.
        import torch

        from scdh.data.arrays.memory import ArraySource
        from scdh.data.batches.loaders import training_batches
        from scdh.data.batches.sampling import steps_per_epoch
        from scdh.hasher import Hasher
        from scdh.training.device import make_accelerator
        from scdh.training.loop import fit

        many = y is not None and np.asarray(y).ndim == 2 and type_of_target(np.asarray(y)) == "multilabel-indicator"
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=many)
        if many:
            labels: np.ndarray = np.asarray(y, np.uint8)
            self.classes_ = np.arange(y.shape[1])
        else:
            if type_of_target(y).startswith("continuous"):
                raise ValueError(f"Unknown label type: {type_of_target(y)}; SCDHTransformer needs class labels.")
            self.classes_, labels = np.unique(y, return_inverse=True)
        self.mean_, self.scale_ = X.mean(0), np.where((spread := X.std(0)) > 0, spread, 1.0)
        seed = (
            np.random.RandomState(self.random_state).randint(2**31) if self.random_state is None else self.random_state
        )
        seed = seed.randint(2**31) if isinstance(seed, np.random.RandomState) else int(seed)
        config = self._config(seed)
        source = ArraySource(self._standardised(X), labels, [str(c) for c in self.classes_], name="X")
        with torch.random.fork_rng(devices=[]):  # the caller's own random numbers stay as they were
            torch.manual_seed(seed)
            self.hasher_, method = Hasher.build(config, source.label_names, many, X.shape[1])
            method.prepare(source.labels)
            rows = np.flatnonzero(source.labelled)
            if not len(rows):
                raise ValueError("No row of y has a label, so there is nothing to learn from.")
            fit(
                self.hasher_.network,
                method,
                lambda epoch: training_batches(source, rows, batch_size=self.batch_size, seed=seed, epoch=epoch),
                steps_per_epoch(len(rows), self.batch_size),
                config.train,
                accelerator=make_accelerator("fp32"),
                quiet=True,
            )
        self.hasher_.network.eval()
        return self

    def codes(self, X: Any) -> Codes:
        """The codes of X as an object that the index and ``evaluate`` take."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.hasher_.encode(self._standardised(X), batch_size=4096)

    def transform(self, X: Any) -> np.ndarray:
        return self.codes(X).packed

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """One name a byte; ``input_features`` is there because scikit-learn hands it over."""
        check_is_fitted(self)
        return np.array([f"byte{i}" for i in range((self.bits + 7) // 8)], dtype=object)

    def _standardised(self, X: np.ndarray) -> np.ndarray:
        return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _config(self, seed: int) -> Any:
        from scdh.config import parse_config

        return parse_config(
            {
                "seed": seed,
                "net": {"backbone": "features", "hidden": list(self.hidden), "dropout": self.dropout},
                "method": {
                    "name": "scdh",
                    "bits": self.bits,
                    "lam": self.lam,
                    "mu": self.mu,
                    "alpha": self.alpha,
                },
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = False
        tags.transformer_tags.preserves_dtype = []
        return tags

"""Where images, embeddings and labels come from, how they are divided, and how they reach the network.

Names are imported when first used: listing data sets and reading labels must not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scdh.data.arrays.memory import ArraySource
    from scdh.data.batches.batch import BadImages, Batch
    from scdh.data.batches.loaders import evaluation_batches, training_batches
    from scdh.data.batches.sampling import steps_per_epoch
    from scdh.data.batches.views import ViewedFeatures
    from scdh.data.draw import balanced_order
    from scdh.data.images.augment import AUGMENTATIONS
    from scdh.data.images.transforms import Preprocess
    from scdh.data.named.benchmarks import DATASETS, PROTOCOLS, make_protocol
    from scdh.data.open import open_source
    from scdh.data.protocol import Protocol
    from scdh.data.row_names import RowNames
    from scdh.data.source import BadImage, Source

_WHERE = {
    "AUGMENTATIONS": "images.augment",
    "ArraySource": "arrays.memory",
    "BadImage": "source",
    "BadImages": "batches.batch",
    "Batch": "batches.batch",
    "DATASETS": "named.benchmarks",
    "PROTOCOLS": "named.benchmarks",
    "Preprocess": "images.transforms",
    "Protocol": "protocol",
    "RowNames": "row_names",
    "Source": "source",
    "ViewedFeatures": "batches.views",
    "balanced_order": "draw",
    "evaluation_batches": "batches.loaders",
    "make_protocol": "named.benchmarks",
    "open_source": "open",
    "steps_per_epoch": "batches.sampling",
    "training_batches": "batches.loaders",
}

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "PROTOCOLS",
    "ArraySource",
    "BadImage",
    "BadImages",
    "Batch",
    "Preprocess",
    "Protocol",
    "RowNames",
    "Source",
    "ViewedFeatures",
    "balanced_order",
    "evaluation_batches",
    "make_protocol",
    "open_source",
    "steps_per_epoch",
    "training_batches",
]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"scdh.data.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'scdh.data' has no attribute {name!r}")

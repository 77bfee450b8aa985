"""Where images, embeddings and labels come from, how they are divided, and how they reach the network.

Names are imported when first used: listing data sets and reading labels must not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scdh.data.arrays import ArraySource
    from scdh.data.augment import AUGMENTATIONS
    from scdh.data.batch import BadImages, Batch
    from scdh.data.benchmarks import DATASETS, PROTOCOLS, make_protocol
    from scdh.data.draw import balanced_order
    from scdh.data.loaders import evaluation_batches, training_batches
    from scdh.data.open import open_source
    from scdh.data.protocol import Protocol
    from scdh.data.sampling import steps_per_epoch
    from scdh.data.source import BadImage, Source
    from scdh.data.transforms import Preprocess
    from scdh.data.views import ViewedFeatures

_WHERE = {
    "AUGMENTATIONS": "augment",
    "ArraySource": "arrays",
    "BadImage": "source",
    "BadImages": "batch",
    "Batch": "batch",
    "DATASETS": "benchmarks",
    "PROTOCOLS": "benchmarks",
    "Preprocess": "transforms",
    "Protocol": "protocol",
    "Source": "source",
    "ViewedFeatures": "views",
    "balanced_order": "draw",
    "evaluation_batches": "loaders",
    "make_protocol": "benchmarks",
    "open_source": "open",
    "steps_per_epoch": "sampling",
    "training_batches": "loaders",
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

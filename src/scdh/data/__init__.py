"""Where images, embeddings and labels come from, how they are divided, and how they reach the network.

Names are imported when first used: listing data sets and reading labels must not wait for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scdh.data.arrays.memory import ArraySource as ArraySource
    from scdh.data.batches.batch import BadImages as BadImages
    from scdh.data.batches.batch import Batch as Batch
    from scdh.data.batches.loaders import evaluation_batches as evaluation_batches
    from scdh.data.batches.loaders import training_batches as training_batches
    from scdh.data.batches.sampling import steps_per_epoch as steps_per_epoch
    from scdh.data.batches.views import ViewedFeatures as ViewedFeatures
    from scdh.data.draw import balanced_order as balanced_order
    from scdh.data.images.augment import AUGMENTATIONS as AUGMENTATIONS
    from scdh.data.images.transforms import Preprocess as Preprocess
    from scdh.data.named.benchmarks import DATASETS as DATASETS
    from scdh.data.open import open_source as open_source
    from scdh.data.protocol import Protocol as Protocol
    from scdh.data.row_names import RowNames as RowNames
    from scdh.data.source import BadImage as BadImage
    from scdh.data.source import Source as Source

_WHERE = {
    "AUGMENTATIONS": "images.augment",
    "ArraySource": "arrays.memory",
    "BadImage": "source",
    "BadImages": "batches.batch",
    "Batch": "batches.batch",
    "DATASETS": "named.benchmarks",
    "Preprocess": "images.transforms",
    "Protocol": "protocol",
    "RowNames": "row_names",
    "Source": "source",
    "ViewedFeatures": "batches.views",
    "balanced_order": "draw",
    "evaluation_batches": "batches.loaders",
    "open_source": "open",
    "steps_per_epoch": "batches.sampling",
    "training_batches": "batches.loaders",
}

__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(importlib.import_module(f"scdh.data.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'scdh.data' has no attribute {name!r}")

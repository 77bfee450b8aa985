"""scdh: short binary codes for images and embeddings, by Semantic Cluster Deep Hashing.

Names are imported when first used, so that ``import scdh`` stays fast and searching never waits for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from scdh._version import __version__

if TYPE_CHECKING:
    from scdh import losses as losses
    from scdh.codes import Codes as Codes
    from scdh.config import load_config as load_config
    from scdh.data.open import open_source as open_source
    from scdh.errors import ScdhError as ScdhError
    from scdh.estimator import HashTransformer as HashTransformer
    from scdh.estimator import SCDHTransformer as SCDHTransformer
    from scdh.evaluation import Scores as Scores
    from scdh.evaluation import evaluate as evaluate
    from scdh.index import HammingIndex as HammingIndex
    from scdh.index.milvus import MilvusIndex as MilvusIndex
    from scdh.index.store import IndexWriter as IndexWriter
    from scdh.model.hasher import Hasher as Hasher
    from scdh.serve.client import Client as Client
    from scdh.training.train import train as train

_MODULES = {
    "Client": "scdh.serve.client",
    "Codes": "scdh.codes",
    "HammingIndex": "scdh.index",
    "HashTransformer": "scdh.estimator",
    "Hasher": "scdh.model.hasher",
    "IndexWriter": "scdh.index.store",
    "MilvusIndex": "scdh.index.milvus",
    "SCDHTransformer": "scdh.estimator",
    "ScdhError": "scdh.errors",
    "Scores": "scdh.evaluation",
    "evaluate": "scdh.evaluation",
    "load_config": "scdh.config",
    "open_source": "scdh.data.open",
    "train": "scdh.training.train",
}

__all__ = [*_MODULES, "__version__", "losses"]


def __getattr__(name: str) -> Any:
    if name == "losses":
        return importlib.import_module("scdh.losses")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'scdh' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

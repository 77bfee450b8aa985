"""scdh: short binary codes for images and embeddings, by Semantic Cluster Deep Hashing.

Names are imported when first used, so that ``import scdh`` stays fast and searching never waits for torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from scdh._version import __version__

if TYPE_CHECKING:
    from scdh import losses
    from scdh.codes import Codes
    from scdh.estimator import SCDHTransformer
    from scdh.evaluation import Scores, evaluate
    from scdh.hasher import Hasher
    from scdh.index import HammingIndex

_WHERE = {
    "Codes": "scdh.codes",
    "HammingIndex": "scdh.index",
    "evaluate": "scdh.evaluation",
    "Scores": "scdh.evaluation",
    "Hasher": "scdh.hasher",
    "SCDHTransformer": "scdh.estimator",
}

__all__ = [
    "Codes",
    "HammingIndex",
    "Hasher",
    "SCDHTransformer",
    "Scores",
    "__version__",
    "evaluate",
    "losses",
]


def __getattr__(name: str) -> Any:
    if name == "losses":
        return importlib.import_module("scdh.losses")
    if name in _WHERE:
        return getattr(importlib.import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'scdh' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

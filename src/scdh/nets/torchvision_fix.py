"""Make ``import torchvision`` work with a CPU-only torch.

torchvision's wheel from the common index is linked to CUDA torch; with a CPU build its compiled operators do not
load and the import fails with "operator torchvision::nms does not exist", and timm with it. Defining the schemas of
the two missing operators before the first import avoids that. Nothing in this package calls them. If torchvision
loads by itself, this does nothing.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

import torch

_libraries: list[torch.library.Library] = []  # a Library removes its definitions when it is garbage-collected


def ensure_torchvision_imports() -> None:
    """Call before the first import of torchvision, timm or accelerate; safe to call again."""
    if _libraries or "torchvision" in sys.modules or torch.version.cuda is not None:
        return
    spec = PathFinder.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    for compiled in Path(spec.origin).parent.glob("_C*"):
        try:
            torch.ops.load_library(compiled)
        except OSError:
            continue
        return
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _libraries.append(library)

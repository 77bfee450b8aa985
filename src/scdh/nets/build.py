"""Build a network, and the preprocessing of its images, from the settings."""

import ctypes
import sys
from dataclasses import replace
from typing import Any

from scdh.config import NetSettings
from scdh.data.images.transforms import Preprocess
from scdh.errors import ConfigError
from scdh.nets.backbones import build_backbone, width_at
from scdh.nets.network import Network

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # names of glibc's mallopt(3)


def build_network(
    settings: NetSettings, bits: int, feature_width: int | None, pretrained: bool | None = None
) -> tuple[Network[Any], Preprocess | None]:
    """A network without a head, and how images are brought to its input."""
    keep_freed_memory()
    backbone = build_backbone(settings, feature_width, pretrained)
    preprocess = backbone.preprocess
    if settings.evaluation_size is not None:
        if preprocess is None:
            raise ConfigError("net.evaluation_size is for images; the data are embeddings.")
        preprocess = replace(preprocess, size=settings.evaluation_size)
        width_at(
            settings.backbone, backbone.trunk, preprocess.size
        )  # raises for a size that the transformer does not support
    if settings.crop_fraction is not None and preprocess is not None:
        preprocess = replace(preprocess, crop_fraction=settings.crop_fraction)
    colours = {} if preprocess is None else {"mean": preprocess.mean, "std": preprocess.std}
    network: Network[Any] = Network(
        backbone.trunk,
        backbone.width,
        bits,
        frozen_batch_norm=settings.frozen_batch_norm,
        hidden=[] if preprocess is None else settings.hidden,  # for embeddings they are the trunk
        dropout=settings.dropout or 0.0,
        **colours,
    )
    return network, preprocess


def keep_freed_memory() -> bool:
    """Make glibc reuse large blocks of memory; False if that is not possible (systems with another allocator).

    By default glibc returns every freed large block to the system, and the pages of the next tensor of that size have
    to be mapped again. Activations are such blocks, allocated and freed at every layer: with efficientnet_lite0 a
    training step is 1.4 times as fast when glibc keeps them.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))

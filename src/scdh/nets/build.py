"""From the settings of a network to the network, and to the preprocessing that its images need."""

from dataclasses import replace
from typing import Any

from scdh.config import NetSettings
from scdh.data.images.transforms import Preprocess
from scdh.errors import ConfigError
from scdh.nets.backbones import build_backbone, width_at
from scdh.nets.memory import keep_freed_memory
from scdh.nets.network import Network


def build_network(
    settings: NetSettings, bits: int, feature_width: int | None, pretrained: bool | None = None
) -> tuple[Network[Any], Preprocess | None]:
    """A network without a head, and how images are brought to its input.

    Args:
        settings: backbone, sizes, crop, hidden layers, dropout.
        bits: r, the number of hash outputs.
        feature_width: width d of the embeddings; None where the data are images.
        pretrained: whether the trunk starts from pretrained weights (default: as in ``settings``).
    """
    keep_freed_memory()
    backbone = build_backbone(settings, feature_width, pretrained)
    preprocess = backbone.preprocess
    if settings.evaluation_size is not None:
        if preprocess is None:
            raise ConfigError("net.evaluation_size is for images; the data are embeddings.")
        preprocess = replace(preprocess, size=settings.evaluation_size)
        width_at(settings.backbone, backbone.trunk, preprocess.size)  # refuses a size that a transformer lacks
    if settings.crop_fraction is not None and preprocess is not None:
        preprocess = replace(preprocess, crop_fraction=settings.crop_fraction)
    colours = {} if preprocess is None else {"mean": preprocess.mean, "std": preprocess.std}
    network: Network[Any] = Network(
        backbone.trunk,
        backbone.width,
        bits,
        frozen_batch_norm=settings.frozen_batch_norm,
        hidden=[] if preprocess is None else settings.hidden,  # of embeddings they are the trunk
        dropout=settings.dropout or 0.0,
        **colours,
    )
    return network, preprocess

"""Settings that suit the data, where neither a preset nor a file was given.

The defaults of :mod:`scdh.config` are the paper's: a whole network on a GPU for 160 epochs.
With a folder of photos and no GPU, a result in minutes is of more use.
"""

from collections.abc import Mapping
from typing import Any

from scdh.config import RunConfig
from scdh.data.source import Source
from scdh.methods.registry import method_class

# A small MLP on vectors learns better, and in seconds, with these than with the paper's settings.
FOR_EMBEDDINGS: dict[str, Any] = {
    "net.backbone": "features",
    "net.hidden": [256],
    "net.dropout": 0.2,
    "train.optimiser": "adamw",
    "train.lr_trunk": 0.002,
    "train.lr_head": 0.002,
    "train.weight_decay": 0.01,
    "train.schedule": "cosine",
    "train.epochs": 30,
    "train.batch_size": 64,
    "train.augmentation": "none",
}
# Heads on a frozen network learn in minutes; demo-groceries' settings, chosen there on validation photos.
FOR_FROZEN_IMAGES: dict[str, Any] = {
    "net.freeze": True,
    "net.views": 5,
    "train.optimiser": "adamw",
    "train.lr_head": 0.01,
    "train.weight_decay": 0.01,
    "train.schedule": "cosine",
    "train.epochs": 60,
    "train.batch_size": 64,
}
# For net.freeze=false: cifar10-lite0's settings without its regularisation.
FOR_TUNED_IMAGES: dict[str, Any] = {
    "train.optimiser": "adamw",
    "train.lr_trunk": 0.0005,
    "train.lr_head": 0.005,
    "train.weight_decay": 0.05,
    "train.schedule": "cosine",
    "train.lr_warm_up": 2,
    "train.clip_norm": 5.0,
    "train.epochs": 30,
    "train.batch_size": 32,
}
UNTRAINED = ("features", "small_conv")  # backbones without pretrained weights, which cannot stay as they are


def suited_settings(config: RunConfig, source: Source, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted settings for this source, without those that the user chose."""
    if source.kind == "features":
        kind, settings = "embeddings", {} if "net.backbone" in chosen else FOR_EMBEDDINGS
    else:
        is_frozen = (
            chosen.get("net.freeze", True) is True and config.net.pretrained and config.net.backbone not in UNTRAINED
        )
        kind, settings = ("frozen images", FOR_FROZEN_IMAGES) if is_frozen else ("tuned images", FOR_TUNED_IMAGES)
    of_method = method_class(config.method.name).suited_settings.get(kind, {}) if settings else {}
    settings = settings | {f"method.{key}": value for key, value in of_method.items()}
    return {key: value for key, value in settings.items() if key not in chosen}

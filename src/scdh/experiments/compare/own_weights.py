"""How many weights a method learned beyond the network that all methods of a comparison share."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from scdh.config import parse_config
from scdh.hasher import Hasher
from scdh.nets.unallocated import build_unallocated
from scdh.training.optim import plain_layer_size


def own_weights(description: Mapping[str, Any]) -> int | None:
    """Learned weights beyond those of the plain network (trunk, hidden layers, plain hash layer); below 0 where a
    method has fewer, such as a classifier with fewer classes than bits.

    Args:
        description: of the model of a run; an empty one for a run without a model.

    Returns:
        None where nobody counted: runs of the first versions.
    """
    learned = description.get("info", {}).get("learned_weights")
    if learned is None:
        return None
    if "plain" in learned:
        return int(learned["all"] - learned["plain"])
    # Earlier versions counted what is neither below the head nor in the hash layer, however large that layer was.
    built_from = {key: description[key] for key in ("config", "label_names", "multi_label", "feature_width")}
    return int(learned["own"]) + _larger_hash_layer(json.dumps(built_from))


@lru_cache(maxsize=256)
def _larger_hash_layer(built_from: str) -> int:
    """Weights of a method's hash layer less those of a plain one; a method without one has none."""
    given = json.loads(built_from)
    config = parse_config(given.pop("config"))
    network = build_unallocated(lambda: Hasher.build(config, **given, pretrained=False)).network
    layer = getattr(network.head, "hash_layer", None)
    size = 0 if layer is None else sum(p.numel() for p in layer.parameters() if p.requires_grad)
    return size - plain_layer_size(network, config.method.bits)

"""Features of a frozen trunk, computed once and kept: heads then train in seconds, at any number of bits."""

import hashlib
import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from scdh.data.batch import BadImages
from scdh.data.loaders import OnBadImage, evaluation_batches
from scdh.data.source import Source
from scdh.encode import trunk_features
from scdh.files import replacing
from scdh.hasher import Hasher
from scdh.nets.network import weights_fingerprint
from scdh.progress import track


def cached_trunk_features(
    hasher: Hasher,
    source: Source,
    rows: np.ndarray,
    *,
    folder: Path | None = None,
    augmentation: str = "none",
    chance: tuple[int, int] | None = None,
    batch_size: int = 128,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
    bad_images: BadImages | None = None,
    progress: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, features [n, width]) of ``source``; read from ``folder`` where an equal request was answered before.

    A file's name is the hash of all that decides its content: data, rows, trunk weights, preprocessing, augmentation.
    """
    path = None if folder is None else folder / f"{_key(hasher, source, rows, augmentation, chance)}.safetensors"
    if path is not None and path.exists():
        try:
            kept = load_file(path)
            return kept["rows"], kept["features"]
        except (SafetensorError, KeyError):
            path.unlink()  # a cache may always be made again
    net = hasher.network
    net.channels_last()
    batches = evaluation_batches(
        source,
        rows,
        preprocess=hasher.preprocess,
        batch_size=batch_size,
        workers=workers,
        on_bad_image=on_bad_image,
        bad_images=bad_images,
        augmentation=augmentation,
        chance=chance,
    )
    shown = batches if progress is None else track(batches, len(rows), progress, "images", lambda b: len(b.rows))
    found, features = trunk_features(net, shown)
    if path is not None:
        with replacing(path) as temporary:
            save_file({"rows": found, "features": features}, temporary)
    return found, features


def _key(hasher: Hasher, source: Source, rows: np.ndarray, augmentation: str, chance: tuple[int, int] | None) -> str:
    what = {
        "source": source.fingerprint(),
        "rows": hashlib.sha256(np.ascontiguousarray(rows, np.int64).tobytes()).hexdigest(),
        "trunk": weights_fingerprint(hasher.network.trunk),
        "preprocess": None if hasher.preprocess is None else hasher.preprocess.to_dict(),
        "augmentation": [augmentation, chance],
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]

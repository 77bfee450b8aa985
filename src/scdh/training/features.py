"""Features of a frozen trunk, computed once and kept: heads then train in seconds, at any number of bits."""

import hashlib
import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from scdh.data.batch import BadImages
from scdh.data.loaders import OnBadImage, evaluation_batches
from scdh.data.source import BadImage, Source
from scdh.data.transforms import Preprocess
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
    preprocess: Preprocess | None = None,
    augmentation: str = "none",
    chance: tuple[int, int] | None = None,
    batch_size: int = 128,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
    bad_images: BadImages | None = None,
    progress: str | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, features [n, width]) of ``source``; read from ``folder`` where an equal request was answered before.

    ``preprocess`` takes the place of the model's own, for random crops at another size than whole images are shown at.
    A file's name is the hash of all that decides its content: data, rows, trunk weights, preprocessing, augmentation.
    """
    preprocess = preprocess or hasher.preprocess
    key = _key(hasher, source, rows, preprocess, augmentation, chance)
    path = None if folder is None else folder / f"{key}.safetensors"
    if path is not None and (kept := _kept(path)) is not None:
        found, features = kept
        left_out = np.setdiff1d(rows, found)
        if not len(left_out) or on_bad_image == "skip":
            if bad_images is not None:  # they are missing from this run too, so it must say so too
                words = "it was left out when its features were kept"
                for row in left_out.tolist():
                    bad_images.found.setdefault(row, BadImage(source.item_name(row), words))
            return found, features
    hasher.network.channels_last()
    batches = evaluation_batches(
        source,
        rows,
        preprocess=preprocess,
        batch_size=batch_size,
        workers=workers,
        on_bad_image=on_bad_image,
        bad_images=bad_images,
        augmentation=augmentation,
        chance=chance,
    )
    shown = batches if progress is None else track(batches, len(rows), progress, "images", lambda b: len(b.rows))
    found, features = trunk_features(hasher.encoder(), shown)
    if path is not None:
        with replacing(path) as temporary:
            save_file({"rows": found, "features": features}, temporary)
    return found, features


def _kept(path: Path) -> tuple[np.ndarray, np.ndarray] | None:
    try:
        kept = load_file(path)
        return kept["rows"], kept["features"]
    except FileNotFoundError:
        return None
    except (SafetensorError, KeyError):
        path.unlink(missing_ok=True)  # a cache may always be made again
        return None


def _key(
    hasher: Hasher,
    source: Source,
    rows: np.ndarray,
    preprocess: Preprocess | None,
    augmentation: str,
    chance: tuple[int, int] | None,
) -> str:
    what = {
        "source": source.fingerprint(),
        "rows": hashlib.sha256(np.ascontiguousarray(rows, np.int64).tobytes()).hexdigest(),
        "trunk": weights_fingerprint(hasher.network.trunk),
        "preprocess": None if preprocess is None else preprocess.to_dict(),
        "augmentation": [augmentation, chance],
    }
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:24]

"""Cache the features of a frozen trunk row by row, so that heads train in seconds, at any number of bits.

The cache is a folder for each (data, trunk, preprocessing, augmentation) with shards of some thousand rows. Another
split, or more rows of the same data, only computes what is missing; a run that is killed loses one shard at most. On a
CPU the features of an image are the same to the last digit whichever images they are computed with, so the weights of a
run do not depend on what the cache held before.
"""

import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from scdh.data.batches.batch import BadImages, Batch
from scdh.data.batches.loaders import OnBadImage, evaluation_batches
from scdh.data.images.transforms import Preprocess
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.model.encode import run_network
from scdh.model.hasher import Hasher
from scdh.nets.network import weights_fingerprint
from scdh.progress import track
from scdh.runs.shared_features import note_use
from scdh.storage.checksums import CHECKSUM, array_checksum
from scdh.storage.files import replacing

SHARD = 4096  # rows
Rows = tuple[np.ndarray, np.ndarray]  # numbers and features
_CHECKED: set[tuple[Any, ...]] = set()  # files whose checksum this process has compared, for run after run


def cached_trunk_features(
    hasher: Hasher,
    source: Source,
    rows: np.ndarray,
    *,
    folder: Path | None = None,
    preprocess: Preprocess | None = None,
    augmentation: str = "none",
    random_key: tuple[int, int] | None = None,
    batch_size: int = 128,
    workers: int | None = None,
    on_bad_image: OnBadImage = "fail",
    bad_images: BadImages | None = None,
    progress: str | None = None,
    stores: bool = True,
) -> Rows:
    """(rows, features [n, width]) of ``source``, in the order of ``rows``; features that ``folder`` has are read there.

    ``preprocess`` takes the place of the model's own, for random crops at another size than whole images are shown at.
    Features that had to be computed are added to ``folder``, unless ``stores`` is false. Images that could not be read
    are not kept, so each request tries them again and reports them again.
    """
    preprocess = preprocess or hasher.preprocess
    shards = None if folder is None else folder / _key(hasher, source, preprocess, augmentation, random_key)
    wanted, position = np.unique(rows, return_inverse=True)
    features = np.empty((len(wanted), hasher.network.trunk_width), np.float32)
    known = np.zeros(len(wanted), bool)
    if shards is not None:
        _read(shards, wanted, features, known)
    missing = wanted[~known]
    if len(missing):
        hasher.network.channels_last()
        batches: Iterable[Batch] = evaluation_batches(
            source,
            missing,
            preprocess=preprocess,
            batch_size=batch_size,
            workers=workers,
            on_bad_image=on_bad_image,
            bad_images=bad_images,
            augmentation=augmentation,
            random_key=random_key,
        )
        if progress is not None:
            batches = track(batches, len(missing), progress, "images", lambda batch: len(batch.rows))
        outputs = run_network(hasher.encoder(), batches, lambda outputs: outputs.features, filled=batch_size)
        for shard_rows, values in _in_shards(outputs):
            positions = np.searchsorted(wanted, shard_rows)
            features[positions], known[positions] = values, True
            if shards is not None and stores:
                name = hashlib.sha256(shard_rows.tobytes()).hexdigest()[:24]
                arrays = {"rows": np.ascontiguousarray(shard_rows), "features": np.ascontiguousarray(values)}
                with replacing(shards / f"{name}.safetensors") as temporary:
                    save_file(arrays, temporary, metadata={CHECKSUM: array_checksum(arrays, {})})
    if shards is not None:
        note_use(shards, has_grown=stores and len(missing) > 0)
    is_known = known[position]
    return np.asarray(rows)[is_known], features[position[is_known]]


def has_features(hasher: Hasher, source: Source, folder: Path) -> bool:
    """Whether ``folder`` keeps plain features of any row of ``source`` by the trunk of ``hasher``."""
    shards = folder / _key(hasher, source, hasher.preprocess, "none", None)
    return next(shards.glob("*.safetensors"), None) is not None


def check_shard(path: Path) -> str:
    """Read a file of the cache in full; what is in it, in a few words.

    Raises:
        DataError: if it is damaged.
    """
    try:
        with safe_open(path, framework="numpy") as shard:
            rows = shard.get_tensor("rows")
            values = _checked_features(shard, rows, shard.get_slice("features").get_shape()[1])
    except (SafetensorError, ValueError, IndexError, TypeError, FileNotFoundError) as error:
        raise DataError(f"{path} does not hold features as they were written: {error}.") from None
    return f"{len(rows):,} rows of {values.shape[1]:,} numbers"


def _in_shards(batches: Iterable[Rows]) -> Iterator[Rows]:
    """The same rows in pieces of ``SHARD``, each as soon as it is full, and the rest at the end."""
    waiting: list[Rows] = []
    for batch in batches:
        waiting.append(batch)
        while sum(len(rows) for rows, _ in waiting) >= SHARD:
            rows, values = _joined(waiting)
            yield rows[:SHARD], values[:SHARD]
            waiting = [(rows[SHARD:], values[SHARD:])]
    if sum(len(rows) for rows, _ in waiting):
        yield _joined(waiting)


def _joined(pieces: list[Rows]) -> Rows:
    rows, values = zip(*pieces, strict=True)
    return np.concatenate(rows), np.concatenate(values)


def _read(shards: Path, wanted: np.ndarray, features: np.ndarray, known: np.ndarray) -> None:
    """Fill in the cached features of the sorted rows ``wanted``, with at most one shard in memory."""
    damaged = []
    for path in sorted(shards.glob("*.safetensors")):
        try:
            stat = path.stat()
            file = (path, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            with safe_open(path, framework="numpy") as shard:
                rows = shard.get_tensor("rows")
                if rows.dtype != np.int64 or rows.ndim != 1:
                    raise ValueError("rows are not row numbers")
                positions = np.minimum(np.searchsorted(wanted, rows), len(wanted) - 1)
                is_new = (wanted[positions] == rows) & ~known[positions] if len(wanted) else np.zeros(len(rows), bool)
                if is_new.any():
                    features[positions[is_new]] = _checked_features(shard, rows, features.shape[1], file)[is_new]
                    known[positions[is_new]] = True
        except FileNotFoundError:
            continue  # another run found it broken first
        except (SafetensorError, ValueError, IndexError, TypeError):
            damaged.append(path)
            with suppress(OSError):
                path.unlink(missing_ok=True)  # a cache may always be made again
    if damaged:
        warnings.warn(
            f"{len(damaged)} of the files with features in {str(shards)!r} were damaged, the first is "
            f"{damaged[0].name}; their rows are computed again.",
            stacklevel=2,
        )


def _checked_features(shard: Any, rows: np.ndarray, width: int, file: tuple[Any, ...] | None = None) -> np.ndarray:
    """The features of a shard, compared with their checksum unless ``file`` was compared before."""
    values: np.ndarray = shard.get_tensor("features")
    checksum = (shard.metadata() or {}).get(CHECKSUM)
    if values.dtype != np.float32 or values.shape != (len(rows), width):
        raise ValueError("features do not fit their rows")
    if file is None or file not in _CHECKED:
        if checksum != array_checksum({"rows": rows, "features": values}, {}):
            raise ValueError("the checksum differs")
        if file is not None:
            _CHECKED.add(file)
    return values


def _key(
    hasher: Hasher,
    source: Source,
    preprocess: Preprocess | None,
    augmentation: str,
    random_key: tuple[int, int] | None,
) -> str:
    """A digest of everything that a row's features depend on, but not of the rows."""
    parts: dict[str, Any] = {
        "source": source.content_fingerprint(),
        "trunk": weights_fingerprint(hasher.network.trunk),
        "preprocess": None if preprocess is None else preprocess.to_dict(),
        "augmentation": [augmentation, random_key],
    }
    if hasher.quantisation is not None:
        parts["ranges"] = hasher.quantisation.to_dict()
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]

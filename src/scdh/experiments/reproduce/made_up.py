"""Made-up data with many classes: points around random centres, the same for everybody."""

from pathlib import Path

import numpy as np

from scdh.storage.files import replacing

ROWS = 32
WIDTH = 64
SPREAD = 0.9


def write_clusters(folder: Path, classes: int) -> Path:
    """Write ``folder/clusters-<classes>.npz`` if it is not there: x = c_y + 0.9·N(0, I), c ~ N(0, I) in 64 dimensions.

    Returns:
        The path of the file.
    """
    path = folder / f"clusters-{classes}.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(classes, WIDTH))
        labels = np.repeat(np.arange(classes), ROWS)
        vectors = centres[labels] + SPREAD * rng.normal(size=(len(labels), WIDTH))
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, open(temporary, "wb") as handle:
            np.savez(handle, X=vectors.astype(np.float32), y=labels)
    return path

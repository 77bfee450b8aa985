"""Small pictures of items. An item finds its picture by its name among those that were there when the service started:
no path is made of a name, as names come from files and requests.
"""

import hashlib
import io
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from PIL import Image

from scdh.data.images.folder import FolderSource, images_below
from scdh.data.open import open_source
from scdh.data.source import BadImage, Source
from scdh.errors import DataError
from scdh.label_arrays import no_labels

SIDE, LARGE_SIDE = 320, 1280  # pixels of the longer side
CACHE_BYTES = 64 << 20


class Pictures:
    """The pictures of a folder or of other data.

    Args:
        data: a folder of images, or data as for ``scdh train``.

    Raises:
        DataError: if there are no images.
    """

    def __init__(self, data: str) -> None:
        self._source = _open(data)
        self._rows = {self._source.item_name(row): row for row in range(len(self._source))}
        if isinstance(self._source, FolderSource):
            # Also by paths below the folder, which may have been moved since its images were encoded.
            self._rows |= {name: row for row, name in enumerate(self._source.stable_names())}
        self._cache: OrderedDict[tuple[int, int], tuple[bytes, str]] = OrderedDict()
        self._cached_bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._source)

    def row_of(self, name: str | None) -> int | None:
        """The row of the picture whose path is the name, or the longest end of it; None if there is none."""
        rest = (name or "").replace("\\", "/")
        while rest:
            if rest in self._rows:
                return self._rows[rest]
            rest = rest.partition("/")[2]
        return None

    def thumbnail(self, row: int, side: int = SIDE) -> tuple[bytes, str] | None:
        """A JPEG and a tag that differs for other contents; None if the picture cannot be read."""
        key = row, side
        with self._lock:
            if key in self._cache:
                self._cache.move_to_end(key)
                return self._cache[key]
        try:
            image = self._source.image(row, at_least=side)
        except BadImage:
            return None
        content = _jpeg(image, side)
        entry = (content, hashlib.sha256(content).hexdigest()[:16])
        with self._lock:
            if key not in self._cache:
                self._cache[key] = entry
                self._cached_bytes += len(content)
            while self._cached_bytes > CACHE_BYTES:
                self._cached_bytes -= len(self._cache.popitem(last=False)[1][0])
        return entry


def _open(data: str) -> Source:
    folder = Path(data).expanduser()
    if folder.is_dir():
        paths = images_below(folder)
        if paths:  # also where they are not arranged as training needs them
            return FolderSource(folder, paths, no_labels(len(paths)), [], name=data)
    source = open_source(data)
    if source.kind != "images":
        raise DataError(f"--images needs images, but {source.name} holds embeddings.")
    return source


def _jpeg(image: Image.Image, side: int) -> bytes:
    scale = min(1.0, side / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    buffer = io.BytesIO()
    image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0).save(buffer, "JPEG", quality=82)
    return buffer.getvalue()

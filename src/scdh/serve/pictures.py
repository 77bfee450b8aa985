"""Small pictures of items. An item finds its picture by its name among those that were there when the service started:
names never become paths, because they come from files and requests. Image files have the limits of uploads.
"""

import hashlib
from collections import OrderedDict
from pathlib import Path
from threading import Lock

from scdh.data.images.folder import FolderSource, images_below
from scdh.data.open import open_source
from scdh.data.regular_files import problem_of_file
from scdh.data.source import BadImage, Source
from scdh.errors import DataError
from scdh.label_arrays import no_labels
from scdh.serve.decoding import Decoders, thumbnail
from scdh.serve.settings import Limits

SIDE, LARGE_SIDE = 320, 1280  # pixels of the longer side
PAINTERS = 2  # processes that make thumbnails, so that a slow one does not hold up all others
CACHE_BYTES = 64 << 20


class Pictures:
    """The pictures of a folder or of other data.

    Args:
        data: a folder of images, or data as for ``scdh train``.
        limits: of the size and the pixels of an image file.

    Raises:
        DataError: if there are no images.
    """

    def __init__(self, data: str, limits: Limits) -> None:
        self._source, self._most_bytes = _open(data), limits.upload
        self._decoders = Decoders(None, limits.pixels, PAINTERS)
        self._unreadable: set[int] = set()  # rows; finding them again may take 10 s
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
            if row in self._unreadable:
                return None
        try:
            content = self._jpeg(row, side)
        except OSError:
            return None
        except BadImage:
            with self._lock:
                self._unreadable.add(row)
            return None
        entry = (content, hashlib.sha256(content).hexdigest()[:16])
        with self._lock:
            if key not in self._cache:
                self._cache[key] = entry
                self._cached_bytes += len(content)
            while self._cached_bytes > CACHE_BYTES:
                self._cached_bytes -= len(self._cache.popitem(last=False)[1][0])
        return entry

    def close(self) -> None:
        """End what is being decoded."""
        self._decoders.close()

    def _jpeg(self, row: int, side: int) -> bytes:
        file, where = self._source.image_file(row), self._source.item_name(row)
        if file is None:  # pixels in memory
            return thumbnail(self._source.image(row), side)
        if isinstance(file, Path):
            if problem_of_file(file):
                raise FileNotFoundError(file)
            with open(file, "rb") as opened:
                file = opened.read(self._most_bytes + 1)
        if len(file) > self._most_bytes:
            raise BadImage(where, "its file is too large")
        return self._decoders.thumbnail(bytes(file), where, side)


def _open(data: str) -> Source:
    folder = Path(data).expanduser()
    if folder.is_dir():
        paths = images_below(folder)
        if paths:  # also where they are not arranged as training needs them
            return FolderSource(folder, paths, no_labels(len(paths)), [], name=data)
    try:
        source = open_source(data)
    except DataError as error:
        raise DataError(f"--images cannot be used: {error}") from None
    if source.kind != "images":
        raise DataError(f"--images needs images, but {source.name} holds embeddings.")
    return source

"""Small pictures inside a page, as data URIs: rows of a source, or image files."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from scdh.data.images.decode import decode
from scdh.data.images.formats import is_image_name
from scdh.data.source import BadImage

if TYPE_CHECKING:
    from scdh.data.source import Source

SIDE = 136  # pixels of a thumbnail
Picture = Callable[[int, int], str | None]  # row and scale → data URI; None: there is no picture


@dataclass(frozen=True)
class ShownHit:
    """One item as a page shows it.

    Args:
        image: data URI; None: there is no picture, and the name takes its place.
        name: what the item is called.
        label: its labels as text; empty if it has none.
        right: whether it is relevant to the query; None: not known.
        nearness: text of how near it is.
    """

    image: str | None
    name: str
    label: str
    right: bool | None
    nearness: str


def thumbnail(image: Image.Image, scale: int = 1) -> str:
    """A data URI: JPEG of the middle square of a photo, PNG with hard pixel edges of anything smaller than that."""
    buffer = io.BytesIO()
    if image.width < SIDE:
        image.resize((SIDE, SIDE), Image.Resampling.NEAREST).save(buffer, "PNG", optimize=True)
        kind = "png"
    else:
        short = min(image.size)
        left, top = (image.width - short) // 2, (image.height - short) // 2
        square = (left, top, left + short, top + short)
        small = image.resize((SIDE * scale, SIDE * scale), Image.Resampling.LANCZOS, box=square)
        small.save(buffer, "JPEG", quality=78)
        kind = "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def pictures_of_source(source: "Source") -> Picture:
    """Thumbnails of the rows of a source; embeddings, and a photo that cannot be read, have none."""

    def picture(row: int, scale: int = 1) -> str | None:
        if source.kind == "features":
            return None
        try:
            return thumbnail(source.image(row, at_least=SIDE * scale), scale)
        except BadImage:
            return None

    return picture


def picture_of_file(name: str, scale: int = 1) -> str | None:
    """Thumbnail of the image file of that name; None if there is no such file, or it is not an image."""
    path = Path(name)
    if not is_image_name(path.name):
        return None
    try:
        return thumbnail(decode(path, name, at_least=SIDE * scale), scale)
    except BadImage:
        return None

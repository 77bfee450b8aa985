"""Encoded bytes or a path → an RGB image, or a :class:`BadImage` that names the item."""

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from scdh.data.source import BadImage

EXTENSIONS = frozenset((".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"))
DRAFT_GAP = 2  # decode at no less than this multiple of the needed side, so that the resizing decides the quality


def decode(encoded: bytes | memoryview | Path, where: str, at_least: int | None = None) -> Image.Image:
    """The upright RGB image; ``at_least`` as in :meth:`scdh.data.source.Source.image`."""
    if isinstance(encoded, Path):
        if not encoded.is_file():
            raise BadImage(where, "there is no such file")
    elif len(encoded) == 0:
        raise BadImage(where, "it has 0 bytes")
    try:
        with Image.open(encoded if isinstance(encoded, Path) else io.BytesIO(encoded)) as image:
            if at_least is not None and min(image.size) >= 2 * DRAFT_GAP * at_least:
                image.draft("RGB", _draft_size(image.size, at_least))
            image.load()
            # Phones store photos sideways, with the rotation in the EXIF data.
            upright = ImageOps.exif_transpose(image) if "exif" in image.info else image
            return to_rgb(upright)
    except MemoryError:
        raise
    except Exception as error:  # broken files make decoders raise nearly anything, SyntaxError included
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, Image.UnidentifiedImageError):
            reason = "its bytes are no known image format"
        raise BadImage(where, reason.rstrip(".")) from error


def to_rgb(image: Image.Image) -> Image.Image:
    """Three channels of 8 bits. 16-bit grey is scaled: Pillow's conversion would clip nearly all of it to white."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I"):
        values = np.asarray(image)
        if values.max(initial=0) > 255:
            values = values >> 8
        return Image.fromarray(values.clip(0, 255).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")


def _draft_size(size: tuple[int, int], at_least: int) -> tuple[int, int]:
    """``size`` scaled to a shorter side of ``DRAFT_GAP`` × ``at_least``; Pillow's draft never goes below it."""
    shorter = min(size)
    return tuple(max(1, side * DRAFT_GAP * at_least // shorter) for side in size)  # type: ignore[return-value]

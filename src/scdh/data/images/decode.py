"""An image in any form → an upright RGB image, or a :class:`BadImage` that names the item.

Paths, encoded bytes, PIL images and arrays share one code path, so that the same picture gives the same pixels.
"""

import io
from pathlib import Path

import numpy as np

# The modules of the formats are imported by name: otherwise Pillow would import all its formats to find two of them.
from PIL import Image, ImageOps, TiffImagePlugin, WebPImagePlugin  # noqa: F401

from scdh.data.images.formats import FORMATS, advice_on_content
from scdh.data.images.pixels import BadShape, rgb_pixels
from scdh.data.regular_files import problem_of_file
from scdh.data.source import BadImage
from scdh.errors import DataError

# For untrusted files: each scan of a progressive JPEG visits all pixels; cameras and programs write about ten scans.
MOST_SCANS = 100
MOST_SIDE = 65_535  # pixels, as in JPEG; an image of 50,000,000 × 1 is not a photo, and slow to decode and to resize
DRAFT_GAP = 2  # decode at no less than this multiple of the needed side, so that the resizing decides the quality
DEEP_MODES = ("I", "F")  # first letters of modes with more than 8 bits, which Pillow's conversion would clip
WITH_ALPHA = {"P": "RGBA", "PA": "RGBA", "RGBa": "RGBA", "La": "LA"}  # modes that cannot become RGB in one clean step

ENCODED = (bytes, bytearray, memoryview)
Encoded = bytes | bytearray | memoryview
AnyImage = Path | Encoded | Image.Image | np.ndarray


def decode(item: AnyImage, where: str, at_least: int | None = None, *, most_pixels: int | None = None) -> Image.Image:
    """The upright RGB image.

    Args:
        item: a path, the bytes of a file, a PIL image, or an array as :func:`scdh.data.images.pixels.rgb_pixels` takes.
        where: what messages call the item.
        at_least: as in :meth:`scdh.data.source.Source.image`; it concerns paths and bytes.
        most_pixels: for untrusted bytes: images with more pixels are rejected by their header, before memory is taken,
            and so are images that would take very long; None: no limits.
    """
    try:
        if isinstance(item, np.ndarray):
            return Image.fromarray(rgb_pixels(item))
        if isinstance(item, Image.Image):
            return _upright_rgb(item)
        with Image.open(_readable(item, where), formats=FORMATS) as image:
            if most_pixels is not None and (reason := _excess(image, item, most_pixels)):
                raise BadImage(where, reason)
            # For other formats a draft would be an embedded thumbnail, which may show another picture.
            if at_least is not None and _is_jpeg(image) and min(image.size) >= 2 * DRAFT_GAP * at_least:
                image.draft("RGB", _draft_size(image.size, at_least))
            return _upright_rgb(image)
    except (MemoryError, BadImage):
        raise
    except BadShape as error:  # a mistake in the program that made the array, not a single bad image
        raise DataError(f"The image {where} cannot be read: {error}.") from None
    except Exception as error:  # broken files make decoders raise nearly any error, including SyntaxError
        raise BadImage(where, _reason(error, item)) from error


def to_rgb(image: Image.Image) -> Image.Image:
    """Three channels of 8 bits; alpha is left out, and deep grey is scaled as arrays are."""
    if image.mode == "RGB":
        return image
    if image.mode.startswith(DEEP_MODES):
        return Image.fromarray(rgb_pixels(np.asarray(image)))
    if image.mode in WITH_ALPHA:
        image = image.convert(WITH_ALPHA[image.mode])
    return image.convert("RGB")


def _readable(item: Path | Encoded, where: str) -> Path | io.BytesIO:
    if isinstance(item, Path):
        if problem := problem_of_file(item):
            raise BadImage(where, problem)
        return item
    if len(item) == 0:
        raise BadImage(where, "it has 0 bytes")
    return io.BytesIO(item)


def _upright_rgb(image: Image.Image) -> Image.Image:
    image.load()
    # Phones store photos sideways, with the rotation in the EXIF data.
    return to_rgb(ImageOps.exif_transpose(image) if "exif" in image.info else image)


def _excess(image: Image.Image, item: Path | Encoded, most_pixels: int) -> str:
    """Why an image would take too long to decode or too much memory; empty if it would not."""
    width, height = image.size
    if width * height > most_pixels:
        return f"it has {width:,} × {height:,} pixels, but the limit is {most_pixels:,}"
    if max(width, height) > MOST_SIDE:
        return f"it has {width:,} × {height:,} pixels, but the limit of a side is {MOST_SIDE:,}"
    # The marker of a scan cannot occur within the data of one.
    scans = 0 if isinstance(item, Path) or not _is_jpeg(image) else bytes(item).count(b"\xff\xda")
    return f"it has {scans:,} scans, but the limit is {MOST_SCANS}" if scans > MOST_SCANS else ""


def _is_jpeg(image: Image.Image) -> bool:
    return image.format in ("JPEG", "MPO")  # MPO: with further pictures after the first, as phones write them


def _reason(error: Exception, item: AnyImage) -> str:
    """Why an image cannot be read, as the end of a sentence."""
    if isinstance(error, Image.UnidentifiedImageError):
        advice = ""
        if isinstance(item, (Path, *ENCODED)):
            with open(item, "rb") if isinstance(item, Path) else io.BytesIO(item) as file:
                advice = advice_on_content(file)
        return advice or f"its bytes are not in a known image format ({', '.join(FORMATS)})"
    if isinstance(error, Image.DecompressionBombError):
        return f"it would have more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
    return (" ".join(str(error).split()) or type(error).__name__).rstrip(".")


def _draft_size(size: tuple[int, int], at_least: int) -> tuple[int, int]:
    """``size`` scaled to a shorter side of ``DRAFT_GAP`` × ``at_least``; Pillow's draft never goes below it."""
    shorter = min(size)
    return tuple(max(1, side * DRAFT_GAP * at_least // shorter) for side in size)  # type: ignore[return-value]

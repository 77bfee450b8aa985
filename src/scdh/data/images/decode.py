"""An image in any form → an upright RGB image, or a :class:`BadImage` that names the item.

Paths, encoded bytes, PIL images and arrays take one road, so that the same picture gives the same pixels.
"""

import io
from pathlib import Path

import numpy as np

# The modules of the formats are imported by name: Pillow would else import all its formats to look for two of them.
from PIL import Image, ImageOps, TiffImagePlugin, WebPImagePlugin  # noqa: F401

from scdh.data.images.pixels import BadShape, rgb_pixels
from scdh.data.regular_files import problem_of_file
from scdh.data.source import BadImage
from scdh.errors import DataError

# The only formats that are tried, whatever a file is called: by default Pillow tries dozens of rarely used decoders,
# and starts another program, Ghostscript, for PostScript in a file that is called .jpg.
EXTENSIONS_OF_FORMAT = {
    "JPEG": (".jpg", ".jpeg"),
    "PNG": (".png",),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm"),
}
FORMATS = tuple(EXTENSIONS_OF_FORMAT)
EXTENSIONS = frozenset(extension for extensions in EXTENSIONS_OF_FORMAT.values() for extension in extensions)
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
        most_pixels: refuse larger paths and bytes by their header, before memory is taken for their pixels.
    """
    try:
        if isinstance(item, np.ndarray):
            return Image.fromarray(rgb_pixels(item))
        if isinstance(item, Image.Image):
            return _upright_rgb(item)
        with Image.open(_readable(item, where), formats=FORMATS) as image:
            if most_pixels is not None and image.width * image.height > most_pixels:
                raise BadImage(where, f"it has {image.width:,} × {image.height:,} pixels, of {most_pixels:,} at most")
            if at_least is not None and min(image.size) >= 2 * DRAFT_GAP * at_least:
                image.draft("RGB", _draft_size(image.size, at_least))
            return _upright_rgb(image)
    except (MemoryError, BadImage):
        raise
    except BadShape as error:  # a mistake of the program that made the array, not a single image to be skipped
        raise DataError(f"The image {where} cannot be read: {error}.") from None
    except Exception as error:  # broken files make decoders raise nearly anything, SyntaxError included
        raise BadImage(where, _reason(error)) from error


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


def _reason(error: Exception) -> str:
    """Why an image cannot be read, as the end of a sentence."""
    if isinstance(error, Image.UnidentifiedImageError):
        return f"its bytes are no known image format ({', '.join(FORMATS)})"
    if isinstance(error, Image.DecompressionBombError):
        return f"it would have more than {2 * (Image.MAX_IMAGE_PIXELS or 0):,} pixels"
    return (" ".join(str(error).split()) or type(error).__name__).rstrip(".")


def _draft_size(size: tuple[int, int], at_least: int) -> tuple[int, int]:
    """``size`` scaled to a shorter side of ``DRAFT_GAP`` × ``at_least``; Pillow's draft never goes below it."""
    shorter = min(size)
    return tuple(max(1, side * DRAFT_GAP * at_least // shorter) for side in size)  # type: ignore[return-value]

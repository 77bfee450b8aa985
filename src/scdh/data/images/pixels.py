"""Convert numbers of any kind to 8-bit pixels with three channels: one rule for arrays and for deep images in files.

============================  ==========================================================================================
values                        8-bit value
============================  ==========================================================================================
true and false                255 and 0
8 bits                        as they are
integers up to 255            as they are
integers up to 65535          the upper 8 of 16 bits
fractions from 0 to 1         255 times that, rounded
other fractions to 255        cut to an integer
other fractions to 65535      the upper 8 of 16 bits
============================  ==========================================================================================

Other values are rejected: a single image does not show the scale of its numbers, and a guess may be silently wrong.
"""

import numpy as np

CHANNELS = (1, 2, 3, 4)  # grey, grey and alpha, RGB, RGBA
SHAPES = "[H, W], or [H, W, C] with 1 to 4 channels"


class BadPixels(ValueError):
    """The values of an array are not pixels; the message is the end of a sentence."""


class BadShape(ValueError):
    """No array of this shape is an image, whatever its values; the message is the end of a sentence."""


def rgb_pixels(values: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] of an array of one of ``SHAPES``; alpha is left out, as in image files.

    Raises:
        BadShape: the array has another shape, or no pixels.
        BadPixels: its values are of no known scale.
    """
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in CHANNELS):
        raise BadShape(f"it has the shape {list(values.shape)}, and images are {SHAPES}{_hint(values)}")
    if 0 in values.shape:
        raise BadShape(f"it has the shape {list(values.shape)}, which holds no pixels")
    colours = values[:, :, None] if values.ndim == 2 else values[:, :, : 1 if values.shape[2] < 3 else 3]
    pixels = _eight_bits(colours)
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)


def is_one_image(array: np.ndarray) -> bool:
    """Whether an array that is given alone is one image, not several grey ones. Embeddings are [n, d] too, so [H, W]
    must hold integers.
    """
    return (array.ndim == 2 and array.dtype.kind in "bu") or (array.ndim == 3 and array.shape[2] in CHANNELS)


def may_be_channels_first(shape: tuple[int, ...]) -> bool:
    """Whether [3, H, W] or [4, H, W] is one image with its channels first as well as several grey images."""
    return len(shape) == 3 and shape[0] in (3, 4) and shape[2] not in CHANNELS


def _hint(values: np.ndarray) -> str:
    if values.ndim == 3 and values.shape[0] in CHANNELS:
        return "; move the channels to the end with np.moveaxis(array, 0, 2)"
    return ""


def _eight_bits(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind == "b":
        return values.astype(np.uint8) * np.uint8(255)
    if values.dtype.kind not in "iuf":
        raise BadPixels(f"its values are {values.dtype}, and pixels are numbers")
    low, high = values.min(), values.max()
    if not (low >= 0 and high <= 65535):  # also where one of them is NaN
        raise BadPixels(f"its values go from {low:g} to {high:g}, and pixels go from 0 to 1, 255 or 65535")
    if values.dtype.kind == "f" and high <= 1:
        return np.rint(values * 255).astype(np.uint8)
    whole = values.astype(np.uint16)
    return (whole >> 8 if high > 255 else whole).astype(np.uint8)

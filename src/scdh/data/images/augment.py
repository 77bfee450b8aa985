"""Random changes of images in training, by name. All random numbers come from the given generator."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from scdh.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class Augmentation:
    """Which random changes are made.

    Args:
        flip: mirror half of the images left to right.
        shift: move the image by up to 1/8 of its side.
        scale: smallest share of the image's area that a random crop keeps; 1 for no random crop.
        colour: brightness, contrast and saturation change by a factor of 1 ± this.
        erase: share of images in which one rectangle is painted over.
    """

    flip: bool = False
    shift: bool = False
    scale: float = 1.0
    colour: float = 0.0
    erase: float = 0.0


AUGMENTATIONS: dict[str, Augmentation] = {
    "none": Augmentation(),
    "flip": Augmentation(flip=True),
    "shift": Augmentation(flip=True, shift=True),  # small images that the object nearly fills
    "crop": Augmentation(flip=True, scale=0.35),  # photos
    "strong": Augmentation(flip=True, scale=0.5, colour=0.3, erase=0.5),  # little data, or two views of one image
}
RATIO = 4 / 3  # a random crop is at most this much wider than high, or the reverse
SHIFT = 8  # a shift moves by at most 1/8 of the side
ERASED = (0.02, 0.2)  # least and largest share of the area


def augmentation(name: str) -> Augmentation:
    """The augmentation of that name."""
    if name not in AUGMENTATIONS:
        raise ConfigError(unknown_name("augmentation", name, AUGMENTATIONS))
    return AUGMENTATIONS[name]


def random_box(size: tuple[int, int], scale: float, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """(left, top, right, bottom) of a box of random shape inside the image with ``scale`` … 1 of its area."""
    width, height = size
    area = rng.uniform(scale, 1.0) * width * height
    ratio = RATIO ** rng.uniform(-1.0, 1.0)
    w = min(width, (area * ratio) ** 0.5)
    h = min(height, (area / ratio) ** 0.5)
    left, top = rng.uniform(0, width - w), rng.uniform(0, height - h)
    return left, top, min(left + w, width), min(top + h, height)


def shifted(pixels: np.ndarray, down: int, right: int) -> np.ndarray:
    """[H, W, 3] moved, the empty edge filled with its mirror image: like padding by reflection and cropping, but
    without a padded copy.
    """
    return _shifted_rows(_shifted_rows(pixels, down).swapaxes(0, 1), right).swapaxes(0, 1)


def _shifted_rows(pixels: np.ndarray, by: int) -> np.ndarray:
    if by == 0:
        return pixels
    moved = np.empty_like(pixels)
    if by > 0:
        moved[by:], moved[:by] = pixels[:-by], pixels[by:0:-1]
    else:
        moved[:by], moved[by:] = pixels[-by:], pixels[-2 : by - 2 : -1]
    return moved


def jittered(image: Image.Image, strength: float, rng: np.random.Generator) -> Image.Image:
    """Brightness, contrast and saturation, each changed by a factor of 1 ± ``strength``."""
    brightness, contrast, saturation = rng.uniform(1 - strength, 1 + strength, size=3)
    grey = image.convert("L")
    mean = float(np.asarray(grey).mean()) * brightness
    # Brightness and contrast are one linear function of the pixel value, so one table lookup does both.
    table = ((np.arange(256) * brightness - mean) * contrast + mean).clip(0, 255).astype(np.uint8)
    blended = Image.blend(grey.convert("RGB"), image, saturation)
    return blended.point(table.tolist() * 3)


def erased(pixels: np.ndarray, fill: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """[H, W, 3] with one random rectangle painted in the mean colour, which is zero after normalising."""
    height, width = pixels.shape[:2]
    area = rng.uniform(*ERASED) * height * width
    ratio = 3.0 ** rng.uniform(-1.0, 1.0)
    h, w = min(height, round((area * ratio) ** 0.5)), min(width, round((area / ratio) ** 0.5))
    top, left = int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1))
    pixels = pixels.copy()
    pixels[top : top + h, left : left + w] = fill
    return pixels

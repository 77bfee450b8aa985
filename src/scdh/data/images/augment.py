"""The random changes a picture may get in training, by name. All chance comes from the generator that is
given.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from scdh.errors import ConfigError, unknown_name


@dataclass(frozen=True)
class Augmentation:
    """``scale`` is the share of the picture's area a random crop keeps at least (1: no random crop)."""

    flip: bool = False
    shift: bool = False
    scale: float = 1.0
    colour: float = 0.0
    erase: float = 0.0


AUGMENTATIONS: dict[str, Augmentation] = {
    "none": Augmentation(),
    "flip": Augmentation(flip=True),
    "shift": Augmentation(flip=True, shift=True),  # small pictures: the object nearly fills them
    "crop": Augmentation(flip=True, scale=0.35),  # photos
    "strong": Augmentation(flip=True, scale=0.5, colour=0.3, erase=0.5),  # little data, or two views of one picture
}
RATIO = 4 / 3  # a random crop is at most this much wider than high, or the reverse
SHIFT = 8  # a shift moves by at most 1/8 of the side
ERASED = (0.02, 0.2)  # share of the area


def augmentation(name: str) -> Augmentation:
    """The augmentation of that name."""
    if name not in AUGMENTATIONS:
        raise ConfigError(unknown_name("augmentation", name, AUGMENTATIONS))
    return AUGMENTATIONS[name]


def random_box(size: tuple[int, int], scale: float, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """A box of ``scale`` … 1 of the area with a random shape, always inside the picture."""
    width, height = size
    area = rng.uniform(scale, 1.0) * width * height
    ratio = RATIO ** rng.uniform(-1.0, 1.0)
    w = min(width, (area * ratio) ** 0.5)
    h = min(height, (area / ratio) ** 0.5)
    left, top = rng.uniform(0, width - w), rng.uniform(0, height - h)
    return left, top, min(left + w, width), min(top + h, height)


def shifted(pixels: np.ndarray, down: int, right: int) -> np.ndarray:
    """[H, W, 3] moved, the bared edge filled with its mirror image; the same as padding by reflection and
    cropping, without building the padded picture.
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
    # Brightness and contrast are one straight line per pixel value, so one table lookup does both.
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

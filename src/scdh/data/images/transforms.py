"""From an image of any size to the input of a network. The settings are saved with a model, so that encoding uses the
same as training. Images stay uint8 until they are on the device: a quarter of the bytes to move.
"""

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from scdh.data.images.augment import RATIO, SHIFT, augmentation, erased, jittered, random_box, shifted
from scdh.errors import ConfigError, unknown_name
from scdh.settings import LARGEST_IMAGE

if TYPE_CHECKING:
    import torch

SMALLEST_IMAGE = 4  # pixels per side; the pooling of small_conv leaves nothing of less
INTERPOLATIONS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Preprocess:
    """How images become inputs: cropped to a square, resized, normalised.

    Args:
        size: side of the input in pixels, 4 to 1024.
        mean, std: three floats each; an input is (x/255 − mean)/std for each channel.
        interpolation: "bilinear" or "bicubic".
        crop_fraction: side of the centre square of an evaluation image as a share of the image's shorter side.
    """

    size: int
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    interpolation: str = "bilinear"
    crop_fraction: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or not SMALLEST_IMAGE <= self.size <= LARGEST_IMAGE:
            raise ConfigError(
                f"size must be a whole number of pixels from {SMALLEST_IMAGE} to {LARGEST_IMAGE}, not {self.size!r}."
            )
        for name in ("mean", "std"):
            try:
                values = tuple(float(v) for v in getattr(self, name))
            except (TypeError, ValueError):
                values = ()
            if len(values) != 3 or not all(map(math.isfinite, values)) or (name == "std" and min(values) <= 0):
                raise ConfigError(
                    f"{name} must be three numbers{' above 0' * (name == 'std')}, not {getattr(self, name)!r}."
                )
            object.__setattr__(self, name, values)
        if self.interpolation not in INTERPOLATIONS:
            raise ConfigError(unknown_name("interpolation", self.interpolation, INTERPOLATIONS))
        if not isinstance(self.crop_fraction, int | float) or not 0 < self.crop_fraction <= 1:
            raise ConfigError(f"crop_fraction must be above 0 and at most 1, not {self.crop_fraction!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or TOML."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> "Preprocess":
        """The reverse of :meth:`to_dict`; an unknown key is rejected."""
        known = [field.name for field in fields(cls)]
        for key in settings:
            if key not in known:
                raise ConfigError(unknown_name("preprocess setting", key, known))
        if "size" not in settings:
            raise ConfigError("The preprocess settings lack size.")
        return cls(**settings)

    def needed_side(self, augmentation_name: str = "none") -> int:
        """The shorter side below which an image would be enlarged; larger JPEGs may be decoded smaller."""
        scale = augmentation(augmentation_name).scale
        share = self.crop_fraction if scale == 1 else math.sqrt(scale / RATIO)
        return math.ceil(self.size / share)

    def evaluation_image(self, image: Image.Image) -> np.ndarray:
        """The centre square, resized: uint8 [3, size, size], a view with the channels last in memory."""
        return _channels_first(np.asarray(self._resized(image, self._centre_box(image.size))))

    def training_image(self, image: Image.Image, rng: np.random.Generator, augmentation_name: str) -> np.ndarray:
        """As :meth:`evaluation_image`, with the random changes of an augmentation drawn from ``rng``."""
        changes = augmentation(augmentation_name)
        box = self._centre_box(image.size) if changes.scale == 1 else random_box(image.size, changes.scale, rng)
        small = image.width * image.height <= self.size**2  # colours are changed where there are fewer pixels to change
        if changes.colour and small:
            image = jittered(image, changes.colour, rng)
        image = self._resized(image, box)
        if changes.flip and rng.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        if changes.colour and not small:
            image = jittered(image, changes.colour, rng)
        pixels = np.asarray(image)
        if changes.shift:
            limit = self.size // SHIFT
            down, right = rng.integers(-limit, limit + 1, size=2)
            pixels = shifted(pixels, int(down), int(right))
        if changes.erase and rng.random() < changes.erase:
            pixels = erased(pixels, tuple(round(255 * value) for value in self.mean), rng)
        return _channels_first(pixels)

    def normalise(self, images: "torch.Tensor") -> "torch.Tensor":
        """(x/255 − mean)/std.

        Args:
            images: uint8 tensor [B, 3, H, W].

        Returns:
            float32 tensor [B, 3, H, W] with the channels last in memory, which convolutions prefer.
        """
        import torch  # here, as processes that only decode start without it

        if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise ConfigError(f"normalise takes uint8 [B, 3, H, W], not {images.dtype} {list(images.shape)}.")
        mean = torch.tensor(self.mean, device=images.device).view(1, 3, 1, 1)
        std = torch.tensor(self.std, device=images.device).view(1, 3, 1, 1)
        values = images.to(torch.float32, memory_format=torch.channels_last)
        return values.mul_(1 / (255 * std)).sub_(mean / std)

    def _centre_box(self, size: tuple[int, int]) -> tuple[float, float, float, float]:
        width, height = size
        side = min(width, height) * self.crop_fraction
        left, top = (width - side) / 2, (height - side) / 2
        return left, top, left + side, top + side

    def _resized(self, image: Image.Image, box: tuple[float, float, float, float]) -> Image.Image:
        """Crop and resize in one step, without a cropped copy."""
        if image.size == (self.size, self.size) and box == (0, 0, self.size, self.size):
            return image
        return image.resize((self.size, self.size), INTERPOLATIONS[self.interpolation], box=box, reducing_gap=3.0)


def _channels_first(pixels: np.ndarray) -> np.ndarray:
    return pixels.transpose(2, 0, 1)

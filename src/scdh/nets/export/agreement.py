"""Compare the codes of an exported network with those of torch, on fixed images."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor

MOST_DIFFERING = 0.001  # share of the bits
# If sums of torch and OpenVINO differ in their last digit, a number between two levels is rounded up by one and down by
# the other. Each such step of 1/255 of a range causes more of them in later layers. With efficientnet_lite0, 0.6 to
# 1.1 % of the bits differed on the trial images, which are not photos and have many outputs near 0, and 0.1 to 0.5 % on
# photos. Integer overflow (AVX2, steps of weights that are too small for it) gave 22 %.
MOST_DIFFERING_INT8 = 0.03


def most_differing(is_int8: bool) -> float:
    """Share of the bits in which an exported network may differ from torch."""
    return MOST_DIFFERING_INT8 if is_int8 else MOST_DIFFERING


def trial_images(size: int, count: int) -> Tensor:
    """uint8 [count, 3, size, size] with the channels last in memory: pictures and noise in turn."""
    rng = np.random.default_rng(0)
    images = np.empty((count, size, size, 3), np.uint8)
    for number in range(count):
        images[number] = _picture(size, rng) if number % 2 == 0 else rng.integers(0, 256, (size, size, 3))
    return torch.from_numpy(images).permute(0, 3, 1, 2)


def _picture(size: int, rng: np.random.Generator) -> np.ndarray:
    """Patches of colour at several scales, the smaller the fainter, as in photos."""
    values = np.full((size, size, 3), rng.uniform(60, 200), np.float32)
    for scale in (2, 4, 8, 16, 32):
        coarse = rng.normal(0, 100 / scale, (min(scale, size), min(scale, size), 3)).astype(np.float32)
        channels = [Image.fromarray(coarse[..., c]).resize((size, size), Image.Resampling.BICUBIC) for c in range(3)]
        values += np.stack([np.asarray(channel) for channel in channels], axis=-1)
    return values.clip(0, 255).astype(np.uint8)


def differing_bits(expected: np.ndarray, found: np.ndarray) -> float:
    """Share of bits that differ, where a bit is 1 iff its value is ≥ 0; both [n, r]. 1 if a value is not finite."""
    if expected.shape != found.shape or not np.isfinite(found).all():
        return 1.0
    return float(((expected >= 0) != (found >= 0)).mean()) if expected.size else 0.0

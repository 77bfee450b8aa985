"""Data sets and protocols with a name: the paper's three benchmarks and the small ones.

These are plain tables, so that listing them imports nothing. Sizes are those of the paper's experiment section.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scdh.errors import DataError, unknown_name

if TYPE_CHECKING:
    from scdh.data.protocol import Protocol
    from scdh.data.source import Source


@dataclass(frozen=True)
class DatasetEntry:
    """A line of `scdh datasets`; ``protocols`` are keys of PROTOCOLS, the usual one first."""

    name: str
    what: str
    images: str
    labels: str
    get: str
    protocols: tuple[str, ...]


@dataclass(frozen=True)
class ProtocolRule:
    """How to split a data set: by numbers of rows per class, or (``query_per_class`` None) by the data's own split.

    ``words`` describes it; `scdh datasets --json` prints it under that key.
    """

    dataset: str
    words: str
    query_per_class: int | None = None
    train_per_class: int | None = None
    train_in_database: bool = True
    train: str = "train"
    query: str = "test"
    validation: str | None = None


DATASETS: dict[str, DatasetEntry] = {
    entry.name: entry
    for entry in (
        DatasetEntry(
            "digits",
            "handwritten digits as 64-number vectors",
            "1,797 vectors",
            "10 classes",
            "built in (scikit-learn)",
            ("digits",),
        ),
        DatasetEntry(
            "digits-images",
            "the same digits as 8×8 images",
            "1,797 images",
            "10 classes",
            "built in (scikit-learn)",
            ("digits-images",),
        ),
        DatasetEntry(
            "groceries",
            "photos of fruit in shops, 348×348",
            "2,054 images",
            "5 coarse + 14 fine, one of each a photo",
            "pip install 'scdh[demo]'",
            ("groceries",),
        ),
        DatasetEntry(
            "cifar10",
            "small colour images, 32×32",
            "60,000 images",
            "10 classes",
            "binary version of cs.toronto.edu/~kriz/cifar.html, or train.parquet + test.parquet",
            ("cifar10-59k", "cifar10-54k", "cifar10-50k10k"),
        ),
        DatasetEntry(
            "nuswide21",
            "Flickr photos with several labels",
            "about 190,000 images",
            "21 most frequent of 81 concepts",
            "no download exists: the official lists and the photos, by hand",
            ("nuswide21",),
        ),
        DatasetEntry(
            "imagenet1k",
            "ImageNet (ILSVRC 2012)",
            "1,281,167 + 50,000 images",
            "1,000 classes",
            "train/<wnid>/ and val/<wnid>/ after registration, or hf:ILSVRC/imagenet-1k",
            ("imagenet1k",),
        ),
    )
}

PROTOCOLS: dict[str, ProtocolRule] = {
    "cifar10-59k": ProtocolRule(
        "cifar10",
        "the paper's: 1,000 queries (100 per class), 5,000 trained on (500 per class) of the 59,000 searched",
        100,
        500,
    ),
    "cifar10-54k": ProtocolRule(
        "cifar10",
        "as cifar10-59k, but the training rows are not searched: database of 54,000",
        100,
        500,
        False,
    ),
    "cifar10-50k10k": ProtocolRule("cifar10", "10,000 test images are queries, 50,000 are trained on and searched"),
    "nuswide21": ProtocolRule(
        "nuswide21",
        "2,100 queries (100 per label), 10,500 training rows (500 per label), all the rest searched",
        100,
        500,
    ),
    "imagenet1k": ProtocolRule(
        "imagenet1k", "50,000 validation images are queries, the 1.28 M training images are searched", query="val"
    ),
    "groceries": ProtocolRule(
        "groceries",
        "1,322 test photos are queries, 675 training photos are searched, 57 validate",
        validation="val",
    ),
    "digits": ProtocolRule("digits", "200 queries (20 per class), all the rest trained on and searched", 20),
    "digits-images": ProtocolRule(
        "digits-images", "200 queries (20 per class), all the rest trained on and searched", 20
    ),
}


def make_protocol(name: str, source: "Source", seed: int, *, validation_per_class: int = 0) -> "Protocol":
    """A named protocol for a source.

    Args:
        name: a key of :data:`scdh.data.PROTOCOLS`.
        source: any source that has the parts or the rows that the protocol needs.
        seed: 0 or more; draws the rows.
        validation_per_class: rows of each class to take out of the training rows for validation.
    """
    from scdh.data.protocol import Protocol

    if name not in PROTOCOLS:
        raise DataError(unknown_name("protocol", name, PROTOCOLS))
    rule = PROTOCOLS[name]
    if rule.query_per_class is None:
        return Protocol.from_split(
            source,
            train=rule.train,
            query=rule.query,
            database=rule.train,
            validation=None if validation_per_class else rule.validation,
            validation_per_class=validation_per_class,
            seed=seed,
            name=name,
        )
    return Protocol.draw(
        source.labels,
        query_per_class=rule.query_per_class,
        train_per_class=rule.train_per_class,
        validation_per_class=validation_per_class,
        train_in_database=rule.train_in_database,
        seed=seed,
        name=name,
        label_names=source.label_names,
        source_fingerprint=source.fingerprint(),
    )

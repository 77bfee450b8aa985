"""``scdh datasets``: which data can be used, and what a given source holds."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from scdh.cli.options import ImageColumn, Json, LabelColumn, Labels, Root
from scdh.cli.show import document, result, table

if TYPE_CHECKING:
    from scdh.data.source import Source

EXAMPLES = (
    "scdh datasets",
    "scdh datasets digits",
    "scdh datasets photos/ --json",
    "scdh datasets shop.parquet --label-column category,brand",
)
FORMATS = (
    ("photos/", "folder of images: photos/<class>/*.jpg, optionally below train/ val/ test/"),
    ("shop.parquet", "table with an image (or path) column and label columns; a glob or folder of such files too"),
    ("shop.csv", "table with a column of image paths and label columns"),
    ("vectors.npz", "embeddings: arrays X [n, d] and y [n] or 0/1 [n, C], optionally label_names"),
    ("vectors.npy", "embeddings [n, d]; --labels labels.npy brings the labels"),
    ("hf:owner/name", "data set on the Hugging Face hub (pip install scdh[hub])"),
)
MOST_CLASSES = 30


def datasets(
    name: Annotated[str | None, typer.Argument(help="Name of a data set, or data as for `scdh train`.")] = None,
    root: Root = None,
    image_column: ImageColumn = None,
    label_column: LabelColumn = None,
    labels: Labels = None,
    as_json: Json = False,
) -> None:
    """List the data sets known by name and the formats of your own, or describe one source."""
    if name is None:
        _refuse_options(root=root, image_column=image_column, label_column=label_column, labels=labels)
        _list(as_json)
        return
    from scdh.data.open import open_source

    source = open_source(name, root=root, image_column=image_column, label_column=label_column, labels=labels)
    about = describe(source)
    document(about) if as_json else _print(about)


def _refuse_options(**options: Any) -> None:
    from scdh.errors import ConfigError

    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"--{option.replace('_', '-')} describes one source; name it too.")


def _list(as_json: bool) -> None:
    from dataclasses import asdict

    from scdh.data.named.benchmarks import DATASETS, PROTOCOLS

    if as_json:
        document(
            {
                "datasets": [asdict(entry) for entry in DATASETS.values()],
                "protocols": {name: asdict(rule) for name, rule in PROTOCOLS.items()},
                "formats": [{"example": example, "what": what} for example, what in FORMATS],
            }
        )
        return
    rows = [(e.name, e.what, e.images, e.labels, e.get) for e in DATASETS.values()]
    table(("name", "what", "size", "labels", "where from"), rows, title="By name")
    table(("your own", "what"), FORMATS, title="Your own data")


def describe(source: "Source") -> dict[str, Any]:
    """Rows, kind, classes with counts, how many labels a row has, and the data's own division."""
    import numpy as np

    many = source.multi_label
    labelled = int(source.labelled.sum())
    about: dict[str, Any] = {
        "name": source.name,
        "kind": "embeddings" if source.kind == "features" else "images",
        "rows": len(source),
        "labelled": labelled,
        "fingerprint": source.fingerprint(),
        "multi_label": many,
        "classes": dict(zip(source.label_names, source.rows_per_class.tolist(), strict=True)),
    }
    if source.kind == "features":
        about["width"] = int(source.features.shape[1])
    if many:
        each = source.labels.sum(axis=1, dtype=np.int64)
        about["labels_a_row"] = {
            "mean": float(each.mean()),
            "most": int(each.max()),
            "different_sets": len(np.unique(source.labels, axis=0)),
        }
    if source.split is not None:
        parts, sizes = np.unique(source.split.astype(str), return_counts=True)
        about["split"] = dict(zip(parts.tolist(), sizes.tolist(), strict=True))
    return about


def _print(about: dict[str, Any]) -> None:
    width = f" of width {about['width']}" if "width" in about else ""
    rows = [
        ("rows", f"{about['rows']:,} {about['kind']}{width}"),
        ("with a label", f"{about['labelled']:,}"),
        ("classes", f"{len(about['classes']):,}"),
        ("fingerprint", about["fingerprint"]),
    ]
    if "labels_a_row" in about:
        each = about["labels_a_row"]
        words = f"{each['mean']:.2f} on average, {each['most']} at most, {each['different_sets']:,} different sets"
        rows.append(("labels a row", words))
    split = about.get("split")
    words = ", ".join(f"{part} {size:,}" for part, size in split.items()) if split else "none of its own; drawn by seed"
    rows.append(("split", words))
    table(("source", about["name"]), rows)
    classes = list(about["classes"].items())
    if classes:
        table(("class", "rows"), [(n, f"{c:,}") for n, c in classes[:MOST_CLASSES]], right=("rows",))
    if len(classes) > MOST_CLASSES:
        result(f"… and {len(classes) - MOST_CLASSES:,} more classes; --json lists all.")

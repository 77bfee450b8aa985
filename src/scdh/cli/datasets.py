"""``scdh datasets``: list the data sets and formats, or describe one source."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from scdh.cli.completion import complete_data
from scdh.cli.options import (
    IdColumn,
    ImageColumn,
    Json,
    LabelColumn,
    Labels,
    LabelSeparator,
    Root,
    VectorColumn,
    data_settings,
)
from scdh.cli.output import print_json, print_line, print_table, split_json
from scdh.errors import ConfigError, DataError

if TYPE_CHECKING:
    from scdh.data.source import Source

EXAMPLES = (
    "scdh datasets",
    "scdh datasets digits",
    "scdh datasets photos/ --json",
    "scdh datasets shop.parquet --label-column category,brand",
    'scdh datasets photos.csv --label-column tags --label-separator ","',
    "scdh datasets items.parquet --vector-column embedding --id-column asin",
)
FORMATS = (
    ("photos/", "folder of images: photos/<class>/*.jpg, optionally below train/ val/ test/ database/"),
    ("shop.parquet", "table with an image (or path) column and label columns; a glob or folder of such files too"),
    ("shop.csv", "table with a column of image paths and label columns"),
    ("items.parquet", "table with a column of embeddings (lists of floats); CSV cells such as [0.5, -1] too"),
    ("vectors.npz", "embeddings: arrays X [n, d] and y [n] or 0/1 [n, C], optionally label_names, split, ids"),
    ("vectors.npy", "embeddings [n, d]; --labels labels.npy brings the labels"),
    ("hf:owner/name", "data set on the Hugging Face hub (pip install 'scdh[hub]')"),
)
MOST_CLASSES = 30


def datasets(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of a data set, or data as for `scdh train`.", autocompletion=complete_data),
    ] = None,
    root: Root = None,
    image_column: ImageColumn = None,
    vector_column: VectorColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    id_column: IdColumn = None,
    labels: Labels = None,
    as_json: Json = False,
) -> None:
    """List the named data sets and the supported formats, or describe one source: its rows, its classes, its own split
    and the split that `scdh train` would use.
    """
    options: dict[str, Any] = {
        "root": root,
        "image_column": image_column,
        "vector_column": vector_column,
        "label_column": label_column,
        "label_separator": label_separator,
        "id_column": id_column,
        "labels": labels,
    }
    if name is None:
        _check_no_options(**options)
        _list(as_json)
        return
    from scdh.data.open import open_source

    source = open_source(name, **{option: value for option, value in options.items() if value is not None})
    description = describe(source) | _training_split(source, data_settings(name, **options))
    print_json(description) if as_json else _print_description(description)


def _training_split(source: "Source", settings: dict[str, Any]) -> dict[str, Any]:
    """The split that `scdh train` would use by default, or the reason why there is none."""
    from scdh.config import load_config
    from scdh.runs.protocol import protocol_of

    try:
        return split_json(protocol_of(load_config(overrides=settings), source))
    except DataError as error:
        return {"split_counts": None, "split_about": str(error)}


def _check_no_options(**options: Any) -> None:
    for option, value in options.items():
        if value is not None:
            raise ConfigError(f"--{option.replace('_', '-')} describes one source; name it too.")


def _list(as_json: bool) -> None:
    from dataclasses import asdict

    from scdh.data.named.benchmarks import DATASETS

    if as_json:
        print_json(
            {
                "datasets": [asdict(dataset) for dataset in DATASETS.values()],
                "formats": [{"example": example, "what": what} for example, what in FORMATS],
            }
        )
        return
    rows = [(d.name, d.what, d.images, d.labels, d.get) for d in DATASETS.values()]
    print_table(("name", "what", "size", "labels", "where from"), rows, title="By name")
    print_table(("your own", "what"), FORMATS, title="Your own data")


def describe(source: "Source") -> dict[str, Any]:
    """Rows, kind, classes with counts, the number of labels per row, and the data's own split, ready for JSON."""
    import numpy as np

    description: dict[str, Any] = {
        "name": source.name,
        "kind": "embeddings" if source.kind == "features" else "images",
        "rows": len(source),
        "labelled": int(source.labelled.sum()),
        "fingerprint": source.fingerprint(),
        "multi_label": source.multi_label,
        "classes": dict(zip(source.label_names, source.rows_per_class.tolist(), strict=True)),
    }
    if source.kind == "features":
        description["width"] = int(source.features.shape[1])
    if source.multi_label:
        per_row = source.labels.sum(axis=1, dtype=np.int64)
        description["labels_a_row"] = {
            "mean": float(per_row.mean()),
            "most": int(per_row.max()),
            "different_sets": len(np.unique(source.labels, axis=0)),
        }
    if source.split is not None:
        parts, sizes = np.unique(source.split.astype(str), return_counts=True)
        description["split"] = dict(zip(parts.tolist(), sizes.tolist(), strict=True))
    return description


def _print_description(description: dict[str, Any]) -> None:
    width = f" of width {description['width']}" if "width" in description else ""
    rows = [
        ("rows", f"{description['rows']:,} {description['kind']}{width}"),
        ("with a label", f"{description['labelled']:,}"),
        ("classes", f"{len(description['classes']):,}"),
        ("fingerprint", description["fingerprint"]),
    ]
    if "labels_a_row" in description:
        per_row = description["labels_a_row"]
        counts = f"{per_row['mean']:.2f} on average, {per_row['most']} at most"
        rows.append(("labels per row", f"{counts}, {per_row['different_sets']:,} different sets"))
    split = ", ".join(f"{part or 'no mark'} {size:,}" for part, size in description.get("split", {}).items())
    rows.append(("split of its own", split or "none"))
    counts = description["split_counts"]
    if counts is not None:
        rows.append(("`scdh train` takes", ", ".join(f"{part} {count:,}" for part, count in counts.items())))
    rows.append(("", description["split_about"]))
    print_table(("source", description["name"]), rows)
    classes = list(description["classes"].items())
    if classes:
        counted = [(name, f"{count:,}") for name, count in classes[:MOST_CLASSES]]
        print_table(("class", "rows"), counted, right=("rows",))
    if len(classes) > MOST_CLASSES:
        print_line(f"… and {len(classes) - MOST_CLASSES:,} more classes; --json lists all.")

"""Options that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

Root = Annotated[
    Path | None,
    typer.Option(help="Where a named data set lies, or what paths in a table are relative to.", show_default=False),
]
ImageColumn = Annotated[str | None, typer.Option(help="Column of a table that holds the images.", show_default=False)]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column that holds the labels; several joined by commas: many labels.", show_default=False),
]
Labels = Annotated[Path | None, typer.Option(help=".npy file with the labels of .npy embeddings.", show_default=False)]
OnBadImage = Annotated[Literal["fail", "skip"], typer.Option(help="What to do with an image that cannot be read.")]
BatchSize = Annotated[int, typer.Option(help="Items a step of the network takes.")]
Workers = Annotated[int | None, typer.Option(help="Processes that decode images (default: by the machine).")]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document instead of a table.")]
From = Annotated[
    Literal["teacher", "student"] | None,
    typer.Option(
        "--from", help="Of a run with a teacher (mt_scdh): whose codes to take (teacher).", show_default=False
    ),
]


def data_settings(
    source: str | None, root: Path | None, image_column: str | None, label_column: str | None, labels: Path | None
) -> dict[str, Any]:
    """Settings of a run that the options above stand for; those not given are left out."""
    given = {
        "data.source": source,
        "data.root": None if root is None else str(root),
        "data.image_column": image_column,
        "data.label_column": label_column,
        "data.labels": None if labels is None else str(labels),
    }
    return {key: value for key, value in given.items() if value is not None}

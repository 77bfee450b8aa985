"""Options that several commands share, and how their values become settings of a run."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from scdh.errors import ConfigError
from scdh.model import Engine

Root = Annotated[
    Path | None,
    typer.Option(
        help="Folder of a named data set, or the one that paths in a table are relative to.", show_default=False
    ),
]
ImageColumn = Annotated[str | None, typer.Option(help="Column of a table that holds the images.", show_default=False)]
LabelColumn = Annotated[
    str | None,
    typer.Option(help="Column with the labels; columns separated by commas give several labels.", show_default=False),
]
VectorColumn = Annotated[
    str | None, typer.Option(help="Column of a table that holds embeddings (lists of numbers).", show_default=False)
]
LabelSeparator = Annotated[
    str | None,
    typer.Option(
        help='Separator of labels in one cell: ",", ";", "|" …; none: a cell is one label.', show_default=False
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(help="Column of a table with the ids shown in results; none: row numbers.", show_default=False),
]
Labels = Annotated[Path | None, typer.Option(help=".npy file with the labels of .npy embeddings.", show_default=False)]
OnBadImage = Annotated[Literal["fail", "skip"], typer.Option(help="What to do with an image that cannot be read.")]
BatchSize = Annotated[
    int, typer.Option(help="Items that are read at once; a GPU computes them in one pass, a CPU in parts.")
]
Workers = Annotated[int | None, typer.Option(help="Processes that decode images (default: depends on the machine).")]
Replace = Annotated[
    bool,
    typer.Option("--replace", metavar="", help="Replace the file OUT if it exists; otherwise that is an error."),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="auto|cpu|cuda|cuda:N|mps",
        help="Device for the networks (auto: a GPU if there is one); not a setting of the run.",
        autocompletion=lambda: ["auto", "cpu", "cuda", "mps"],
        show_default=False,
    ),
]
EngineName = Annotated[
    Engine,
    typer.Option("--engine", help="Engine for codes of images on a CPU; auto: openvino if it saves time."),
]
PictureData = Annotated[
    str | None, typer.Option(help="For --html: data whose rows are the items, if their names are not image files.")
]
NoFloats = Annotated[
    bool, typer.Option("--no-floats", metavar="", help="Leave out the scores of the float vectors behind the codes.")
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document instead of a table.")]
From = Annotated[
    Literal["teacher", "student"] | None,
    typer.Option(
        "--from",
        help="For a run with a teacher (mt_scdh): the network that computes codes (teacher).",
        show_default=False,
    ),
]


MovedData = Annotated[
    str | None,
    typer.Option("--data", help="New location of the run's data (default: as stored).", show_default=False),
]
MovedRoot = Annotated[
    Path | None, typer.Option("--root", help="New location of the run's data.root.", show_default=False)
]
Remaining = Annotated[
    bool,
    typer.Option(
        "--remaining", metavar="", help="If files were added, renamed or removed, score those that are still there."
    ),
]


def use_device(name: str | None) -> None:
    """Run the networks of this command on the device of ``--device``; one that cannot be used is rejected at once."""
    if name is not None:
        from scdh.nets.device import choose_device

        choose_device(name)


def data_settings(source: str | None, **options: str | Path | None) -> dict[str, Any]:
    """The data and the options above as settings of a run, by dotted key; options that were not given are left out."""
    given = {"source": source, **options}
    return {f"data.{key}": str(value) for key, value in given.items() if value is not None}


def read_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Settings by dotted key of ``--set KEY=VALUE``; a key given twice is rejected."""
    from scdh.config import split_override

    pairs = (pair for text in texts for pair in _flatten(*split_override(text)))
    return unique_keys(pairs, "--set")


def _flatten(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """A table such as ``--set 'train={epochs=5}'`` sets its keys one by one, and leaves the others of the group."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flatten(f"{key}.{name}", inner)
    else:
        yield key, value


def read_tuned_values(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Values to try by dotted key of ``--tune KEY=VALUE,VALUE``; a key given twice is rejected."""
    return unique_keys((_split_tuned_values(text) for text in texts), "--tune")


def _split_tuned_values(text: str) -> tuple[str, list[Any]]:
    from scdh.config import split_override

    key, equals, values = text.partition("=")
    if not equals or not all(part.strip() for part in (key, *values.split(","))):
        raise ConfigError(f"--tune looks like train.lr_head=0.001,0.01, not {text!r}.")
    return key.strip(), [split_override(f"value={value}")[1] for value in values.split(",")]


def unique_keys(pairs: Iterable[tuple[str, Any]], option: str) -> dict[str, Any]:
    """The pairs as a dict; a key with two values is an error."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ConfigError(f"{key} is given twice by {option}; give it once.")
        values[key] = value
    return values


def merge_settings(from_options: Mapping[str, Any], from_set: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of named options and of ``--set`` together; a key that both give is rejected."""
    for key in from_options:
        if key in from_set:
            raise ConfigError(f"{key} is given twice, by an option and by --set; give it once.")
    return {**from_options, **from_set}


def read_numbers(text: str, option: str, least: int = 1) -> tuple[int, ...]:
    """Whole numbers joined by commas, none below ``least``."""
    try:
        values = tuple(int(number) for number in text.split(","))
    except ValueError:
        raise ConfigError(f"{option} takes whole numbers joined by commas, such as 12,24, not {text!r}.") from None
    if min(values) < least:
        raise ConfigError(f"{option} takes numbers from {least} on, not {min(values)}.")
    return values

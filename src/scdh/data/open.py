"""A name or a path → a source. Names listed by `scdh datasets` come first; write ./digits for a folder of that name."""

import glob
import os
from pathlib import Path
from typing import Any

from scdh.data.named.benchmarks import DATASETS
from scdh.data.source import Source
from scdh.errors import DataError, option_name, option_of

HUB = "hf:"
# Options of a table.
COLUMNS = ("image_column", "vector_column", "label_column", "label_separator", "id_column", "split_column")
ARRAYS = ("vector_column", "label_column", "id_column", "split_column")  # of an .npz file
AUTO = "auto"
DEFAULT_ROOT = "data"
ROOTED = ("cifar10", "nuswide21", "imagenet1k")  # named data sets that are read from a folder
EXPECTED = (
    "a name of `scdh datasets` ({names}), a folder of images, a .parquet, .csv, .npy or .npz file (or a "
    "glob of parquet files), or hf:owner/name"
)


Options = dict[str, str | Path | None]


def open_source(
    spec: str | os.PathLike[str],
    *,
    root: str | Path | None = None,
    image_column: str | None = None,
    vector_column: str | None = None,
    label_column: str | None = None,
    label_separator: str = AUTO,
    id_column: str | None = None,
    labels: str | Path | None = None,
    split_column: str | None = None,
) -> Source:
    """Open images or embeddings of any kind. An option that the kind of data cannot use raises an error.

    ======================================  ============================================================================
    spec                                    what it opens
    ======================================  ============================================================================
    ``digits``, ``cifar10``, …              a data set listed by `scdh datasets`
    ``photos/``                             a folder of images, ``photos/<class>/*.jpg``, optionally below ``train/``,
                                            ``val/``, ``test/`` and ``database/``
    ``shop.parquet``, a glob, or a folder   tables with a column of images (Hugging Face image, bytes or paths) or of
                                            embeddings (lists of floats), and labels
    ``shop.csv``                            a table with a column of image paths, or of embeddings ("[0.5, -1]"), and
                                            labels
    ``vectors.npz``                         embeddings ``X`` [n, d] with ``y`` [n] or 0/1 [n, C], ``label_names``,
                                            ``split`` [n] and ``ids`` [n]; or ``x_train``, ``y_train``, ``x_test`` …
    ``vectors.npy``                         embeddings [n, d]; ``labels`` names the file of labels
    ``hf:owner/name``                       a data set of the Hugging Face hub; ``hf:owner/name:split`` for one split
    ======================================  ============================================================================

    Args:
        spec: a name, path or glob from the table above.
        root: the folder of a named data set (default ``data``), or the folder that paths in a table are relative to
            (default: the table's own).
        image_column: name of the image column of a table; None chooses it by type and usual names.
        vector_column: name of a table's column of embeddings, or of an array of an ``.npz`` file; None chooses it by
            type and usual names where there are no images.
        label_column: name of the label column of a table, or of an array; "a,b" for one label from each of several
            columns, "none" for no labels; None chooses it by type and usual names.
        label_separator: what separates several labels in one cell of text: ",", ";", "|" or another text; "none" where
            a cell is one label. "auto" splits at ; and |, at commas where the cells clearly are lists of labels, and
            reads lists such as "['a', 'b']".
        id_column: name of the column or array that says what rows are called in results, "none" for their number; None
            takes a column ``id``, ``item_id``, ``uid``, ``uuid``, ``key`` or ``sku`` where there is one.
        labels: path of the ``.npy`` file with the labels of ``.npy`` embeddings.
        split_column: name of the column of a table, or the array of an ``.npz`` file, that holds the split; None
            chooses it by usual names and words.

    Returns:
        A :class:`scdh.data.source.Source`.

    Raises:
        DataError: the data do not exist, are of an unknown kind, are damaged, or an option does not fit.
    """
    if not isinstance(spec, str | os.PathLike):
        raise DataError(f"Data are a name or a path, not {spec!r}.")
    spec = os.fspath(spec)
    options: Options = {
        "root": root,
        "image_column": image_column,
        "vector_column": vector_column,
        "label_column": label_column,
        "label_separator": None if label_separator == AUTO else label_separator,
        "id_column": id_column,
        "split_column": split_column,
        "labels": labels,
    }
    if spec in DATASETS:
        return _open_named(spec, options)
    if spec.startswith(HUB):
        from scdh.data.tables.readers import open_hub

        _check_usable(spec, options, *COLUMNS)
        return open_hub(spec.removeprefix(HUB), **_given(options, COLUMNS))
    files = _find_files(spec)
    kind = files[0].suffix.lower()
    if files[0].is_dir():
        return _open_directory(files[0], options)
    if kind == ".parquet":
        from scdh.data.tables.readers import open_parquet

        _check_usable(spec, options, "root", *COLUMNS)
        return open_parquet(files, folder=None if root is None else Path(root), **_given(options, COLUMNS))
    if len(files) > 1:
        raise DataError(f"{spec} matches {len(files)} files; only parquet files can be opened together.")
    if kind == ".csv":
        from scdh.data.tables.readers import open_csv

        _check_usable(spec, options, "root", *COLUMNS)
        return open_csv(files[0], folder=None if root is None else Path(root), **_given(options, COLUMNS))
    if kind in (".npy", ".npz"):
        from scdh.data.arrays.array_files import open_embeddings

        arrays = ARRAYS if kind == ".npz" else ()
        _check_usable(spec, options, "labels", *arrays)
        return open_embeddings(files[0], None if labels is None else Path(labels), **_given(options, arrays))
    raise DataError(_unknown_kind(spec, files[0]))


def _unknown_kind(spec: str, file: Path) -> str:
    from scdh.data.images.formats import is_image_name, missing_reader

    if remedy := missing_reader(file):
        return f"The image {spec} cannot be read yet: {remedy}."
    if is_image_name(file.name):
        return f"{spec} is a single image; give the folder that contains a sub-folder of images per class."
    return f"{spec} is not a known kind of data; expected {_expected()}."


def _open_named(name: str, options: Options) -> Source:
    from scdh.data.named import readers

    if name in ("digits", "digits-images"):
        _check_usable(name, options)
        return readers.open_digits() if name == "digits" else readers.open_digits_images()
    if name == "groceries":
        _check_usable(name, options, "label_column")
        label_column = options["label_column"]
        return readers.open_groceries(None if label_column is None else str(label_column))
    _check_usable(name, options, "root")
    openers = {
        "cifar10": readers.open_cifar10,
        "nuswide21": readers.open_nuswide,
        "imagenet1k": readers.open_imagenet,
    }
    return openers[name](Path(options["root"] or DEFAULT_ROOT))


def _open_directory(folder: Path, options: Options) -> Source:
    """A folder of images, or a folder of parquet files, as the hub has them."""
    tables = sorted(folder.glob("*.parquet"))
    if tables:
        from scdh.data.tables.readers import open_parquet

        _check_usable(str(folder), options, *COLUMNS)
        return open_parquet(tables, **_given(options, COLUMNS))
    from scdh.data.images.folder import open_folder

    _check_usable(str(folder), options)
    return open_folder(folder)


def _find_files(spec: str) -> list[Path]:
    """The path itself if it exists, else the files of a glob."""
    path = Path(spec).expanduser()
    if spec and os.path.exists(path):  # of Path it would raise for a name that is too long
        return [path]
    matches = sorted(glob.glob(str(path))) if any(sign in spec for sign in "*?[") else []
    if matches:
        return [Path(match) for match in matches]
    if path.suffix.lower() in (".parquet", ".csv", ".npy", ".npz") or "/" in spec:
        raise DataError(f"There is no file or folder {spec}{'' if path.is_absolute() else f' below {os.getcwd()}'}.")
    raise DataError(f"Unknown data {spec!r}; expected {_expected()}.")


def _given(options: Options, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: options[name] for name in names if options[name] is not None}


def _check_usable(spec: str, options: Options, *usable: str) -> None:
    """Raise an error for options that this kind of data would ignore."""
    for option, value in options.items():
        if value is not None and option not in usable:
            accepted = ", ".join(map(option_of, usable)) or "no options"
            raise DataError(f"{spec} cannot use {option_name(option)}, given as {str(value)!r}; it takes {accepted}.")


def _expected() -> str:
    return EXPECTED.format(names=", ".join(DATASETS))

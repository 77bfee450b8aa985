"""One word or path → a source. Names known to `scdh datasets` come first; write ./digits for a folder of that
name.
"""

import glob
from pathlib import Path

from scdh.data.named.benchmarks import DATASETS
from scdh.data.source import Source
from scdh.errors import DataError

HUB = "hf:"
EXPECTED = (
    "a name of `scdh datasets` ({names}), a folder of images, a .parquet, .csv, .npy or .npz file (or a "
    "glob of parquet files), or hf:owner/name"
)


def open_source(
    spec: str,
    *,
    root: str | Path | None = None,
    image_column: str | None = None,
    label_column: str | None = None,
    labels: str | Path | None = None,
) -> Source:
    """``root`` is where a named data set lies (default ``data``), or what paths in a table are relative to.

    ``image_column`` and ``label_column`` ("a", "a,b", "none") choose columns of tables; ``labels`` is the
    .npy file that belongs to .npy embeddings. An option that the given kind of data cannot use is refused.
    """
    given = {"root": root, "image_column": image_column, "label_column": label_column, "labels": labels}
    columns = {"image_column": image_column, "label_column": label_column}
    if spec in DATASETS:
        return _open_named(spec, given)
    if spec.startswith(HUB):
        from scdh.data.tables.readers import open_hub

        _only(spec, given, "image_column", "label_column")
        return open_hub(spec.removeprefix(HUB), **columns)
    files = _files(spec)
    kind = files[0].suffix.lower()
    if files[0].is_dir():
        return _open_directory(files[0], given)
    if kind == ".parquet":
        from scdh.data.tables.readers import open_parquet

        _only(spec, given, "root", "image_column", "label_column")
        return open_parquet(files, folder=None if root is None else Path(root), **columns)
    if len(files) > 1:
        raise DataError(f"{spec} matches {len(files)} files; only parquet files can be opened together.")
    if kind == ".csv":
        from scdh.data.tables.readers import open_csv

        _only(spec, given, "root", "image_column", "label_column")
        return open_csv(files[0], folder=None if root is None else Path(root), **columns)
    if kind in (".npy", ".npz"):
        from scdh.data.arrays.files import open_embeddings

        _only(spec, given, "labels")
        return open_embeddings(files[0], None if labels is None else Path(labels))
    raise DataError(f"{spec} is no kind of data known here; expected {_expected()}.")


def _open_named(name: str, given: dict[str, str | Path | None]) -> Source:
    from scdh.data.named import builtin, cifar10, imagenet, nuswide

    if name in ("digits", "digits-images"):
        _only(name, given)
        return builtin.open_digits() if name == "digits" else builtin.open_digits_images()
    if name == "groceries":
        _only(name, given, "label_column")
        chosen = given["label_column"]
        return builtin.open_groceries(None if chosen is None else str(chosen))
    _only(name, given, "root")
    openers = {
        "cifar10": cifar10.open_cifar10,
        "nuswide21": nuswide.open_nuswide,
        "imagenet1k": imagenet.open_imagenet,
    }
    return openers[name](Path(given["root"] or "data"))


def _open_directory(folder: Path, given: dict[str, str | Path | None]) -> Source:
    """A folder of images, or one that holds parquet files as the hub keeps them."""
    tables = sorted(folder.glob("*.parquet"))
    if tables:
        from scdh.data.tables.readers import open_parquet

        _only(str(folder), given, "image_column", "label_column")
        return open_parquet(tables, image_column=given["image_column"], label_column=given["label_column"])
    from scdh.data.images.folder import open_folder

    _only(str(folder), given)
    return open_folder(folder)


def _files(spec: str) -> list[Path]:
    path = Path(spec).expanduser()
    if spec and path.exists():
        return [path]
    found = sorted(glob.glob(str(path))) if any(sign in spec for sign in "*?[") else []
    if found:
        return [Path(file) for file in found]
    if path.suffix.lower() in (".parquet", ".csv", ".npy", ".npz") or "/" in spec:
        raise DataError(f"There is no file or folder {spec}.")
    raise DataError(f"Unknown data {spec!r}; expected {_expected()}.")


def _only(spec: str, given: dict[str, str | Path | None], *usable: str) -> None:
    """No option is dropped silently."""
    for option, value in given.items():
        if value is not None and option not in usable:
            can = ", ".join(usable) or "no options"
            raise DataError(f"{spec} cannot use {option} ({value}); it takes {can}.")


def _expected() -> str:
    return EXPECTED.format(names=", ".join(DATASETS))

"""Store where the data of a run are, and find them again: with other paths, or by the options of a command."""

import glob
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scdh.config import DataSettings
from scdh.data.arrays.loose import IN_MEMORY
from scdh.data.named.benchmarks import DATASETS
from scdh.data.open import DEFAULT_ROOT, HUB, ROOTED
from scdh.errors import DataError

StoredPaths = Mapping[str, Mapping[str, str]]  # setting → "absolute" and "relative" path
# Settings of the data as options of a command, and what commands do without the option.
OPTIONS = {
    "root": "--root",
    "image_column": "--image-column",
    "vector_column": "--vector-column",
    "label_column": "--label-column",
    "label_separator": "--label-separator",
    "id_column": "--id-column",
    "labels": "--labels",
    "on_bad_image": "--on-bad-image",
}
USUAL = {"label_separator": "auto", "on_bad_image": "fail"}


def stored_path(path: str | os.PathLike[str], run: Path) -> dict[str, str]:
    """A path as an absolute one and relative to a run's folder, so that both may be moved together."""
    absolute = os.path.abspath(os.path.expanduser(path))
    same_drive = Path(absolute).drive == run.resolve().drive
    return {"absolute": absolute, "relative": os.path.relpath(absolute, run.resolve()) if same_drive else absolute}


def known_places(stored: Any, run: Path) -> Iterator[Path]:
    """The places where a path of :func:`stored_path` may be; none if the stored value is something else."""
    if isinstance(stored, dict):
        absolute, relative = stored.get("absolute"), stored.get("relative")
        if isinstance(absolute, str):
            yield Path(absolute)
        if isinstance(relative, str):
            yield Path(os.path.normpath(run / relative))


def stored_data_paths(data: DataSettings, run: Path) -> dict[str, dict[str, str]]:
    """The paths among the settings of the data."""
    paths = {"source": data.source, "root": data.root, "labels": data.labels, "pairs": data.pairs}
    if data.source.startswith(HUB) or data.source in DATASETS or data.source == IN_MEMORY:
        del paths["source"]
    if data.pairs == IN_MEMORY:
        del paths["pairs"]
    if data.root is None and data.source in ROOTED:
        paths["root"] = DEFAULT_ROOT
    return {name: stored_path(path, run) for name, path in paths.items() if path is not None}


def located(
    data: DataSettings,
    stored: StoredPaths,
    run: Path,
    source: str | None = None,
    root: str | os.PathLike[str] | None = None,
) -> DataSettings:
    """The settings with paths that exist.

    Raises:
        DataError: if the data are neither where they were nor at the same place relative to the run.
    """
    given = {"source": source, "root": None if root is None else os.fspath(root)}
    found = {name: path for name, path in given.items() if path is not None}
    for name, paths in stored.items():
        places = [str(place) for place in known_places(paths, run)]
        if name not in found and places:
            given_path = getattr(data, name)
            if given_path is not None and stored_path(given_path, run)["absolute"] == places[0]:
                places.insert(0, given_path)  # as short as the user wrote it
            place = next((place for place in places if _exists(place)), None)
            if place is None and name == "source":
                known = " or ".join(dict.fromkeys(places[-2:]))
                raise DataError(f"The data of the run in {str(run)!r} are not at {known}; name them with --data PATH.")
            found |= {} if place is None else {name: place}
    return data.model_copy(update=found)


def _exists(path: str) -> bool:
    return os.path.exists(path) or (any(sign in path for sign in "*?[") and bool(glob.glob(path)))


def data_options(settings: Mapping[str, Any]) -> list[str]:
    """The settings ``data.*`` of a run as options of ``scdh encode``.

    >>> data_options({"source": "shop.csv", "root": "photos", "labels": None, "on_bad_image": "fail"})
    ['--root', 'photos']
    """
    given = {name: settings.get(name) for name in OPTIONS}
    return [
        part
        for name, value in given.items()
        if value is not None and value != USUAL.get(name)
        for part in (OPTIONS[name], str(value))
    ]

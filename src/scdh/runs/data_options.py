"""The options with which a command reads a run's data as the run did."""

from collections.abc import Mapping
from typing import Any

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
USUAL = {"label_separator": "auto", "on_bad_image": "fail"}  # what commands do without the option


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

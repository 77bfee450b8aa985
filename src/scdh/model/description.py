"""The description of a model in its folder, read without torch.

``model.safetensors`` holds the description in its header, with a checksum of it and of all weights: the one file is the
whole model, and appears in one rename. ``config.json`` is a copy for people and for the hub.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdh._version import __version__
from scdh.errors import ModelError
from scdh.model.hub import DESCRIPTION, WEIGHTS
from scdh.nets.quantisation import FLOAT32, INT8, Quantisation
from scdh.settings import LARGEST_IMAGE, WIDEST_EMBEDDING
from scdh.storage.checksums import CHECKSUM, is_intact
from scdh.storage.files import read_regular
from scdh.storage.tensor_files import TensorHeader, parse_limited, read_header, short

FORMAT, VERSION = "scdh-model", 1
EMBEDDED = "description"  # the entry in the header of the weights
MOST_HIDDEN = 100  # layers; an untrusted description must not decide how much memory is allocated
REQUIRED = (
    "bits",
    "label_names",
    "multi_label",
    "preprocess",
    "feature_width",
    "config",
    "info",
    "precision",
    "fingerprint",
    "versions",
)


def read_description(folder: Path) -> dict[str, Any]:
    """The description of the model in ``folder``; the weights are not read, so not checked either.

    Raises:
        ModelError: if there is none, or it is damaged or of another version.
    """
    if not (folder / WEIGHTS).is_file():  # from the hub, `scdh info` fetches only the description
        return _from_file(folder)
    try:
        with open(folder / WEIGHTS, "rb") as handle:
            header = read_header(handle)
    except OSError as error:
        raise ModelError(f"{str(folder / WEIGHTS)!r} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise damaged_model(folder, f"{WEIGHTS}: {error}") from None
    return description_of(folder, header)


def description_of(folder: Path, header: TensorHeader) -> dict[str, Any]:
    """As :func:`read_description`, where the header of the weights was read before."""
    if EMBEDDED not in header.metadata:
        raise damaged_model(folder, f"the header of {WEIGHTS} has no description")
    description = _checked(folder, header.metadata[EMBEDDED].encode(), WEIGHTS)
    if (folder / DESCRIPTION).exists():
        _check_copy(folder)
    return description


def damaged_model(folder: Path, reason: str) -> ModelError:
    reason = " ".join(reason.split()).rstrip(".")  # torch lists tensors over many lines
    reason = reason if len(reason) <= 300 else f"{reason[:297]}…"
    return ModelError(f"The model in {str(folder)!r} is broken or of another version: {reason}.")


def without_folders(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings as a model publishes them: only the last part of each path, because folder names are private.

    >>> without_folders({"seed": 1, "data": {"source": "/home/ann/birds", "root": None, "labels": "x/y.npy"}})
    {'seed': 1, 'data': {'source': 'birds', 'root': None, 'labels': 'y.npy'}}
    """
    data = dict(settings.get("data", {}))
    for key in ("source", "root", "labels"):
        value = data.get(key)
        if isinstance(value, str) and not value.startswith("hf:"):
            data[key] = value.replace("\\", "/").rstrip("/").rpartition("/")[2] or value
    return {**settings, "data": data}


def _from_file(folder: Path) -> dict[str, Any]:
    try:
        data = read_regular(folder / DESCRIPTION)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"The model folder {str(folder)!r} has no {WEIGHTS}.") from None
    except OSError as error:
        raise ModelError(f"{str(folder / DESCRIPTION)!r} cannot be read: {error.strerror}.") from None
    description = _checked(folder, data, DESCRIPTION)
    if not _is_as_written(description):
        raise damaged_model(folder, f"{DESCRIPTION} was changed or damaged after it was written; restore it")
    return description


def _check_copy(folder: Path) -> None:
    """Reject a ``config.json`` that was changed, because an edit has no effect.

    A save that was killed between two renames leaves an intact file of other weights, which is ignored.
    """
    try:
        copy = parse_limited(read_regular(folder / DESCRIPTION))
        is_good = isinstance(copy, dict) and copy.get("format") == FORMAT and _is_as_written(copy)
    except (OSError, ValueError):
        is_good = False
    if not is_good:
        raise ModelError(
            f"{str(folder / DESCRIPTION)!r} was changed or damaged after it was written; delete it, as {WEIGHTS} holds "
            "the description too, or restore it."
        )


def _is_as_written(description: dict[str, Any]) -> bool:
    return CHECKSUM in description and is_intact(description)


def _checked(folder: Path, data: bytes, file: str) -> dict[str, Any]:
    try:
        description = parse_limited(data)
    except ValueError as error:
        raise damaged_model(folder, f"{file}: {error}") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelError(f"{str(folder)!r} does not hold a model of scdh.")
    version = description.get("version")
    if type(version) is int and version > VERSION:
        raise ModelError(
            f"The model in {str(folder)!r} has version {version} of the format, but scdh {__version__} reads only "
            f"version {VERSION}; install a newer scdh."
        )
    if type(version) is not int or version != VERSION:
        raise damaged_model(folder, f"{file}: its version is {short(version)}")
    _check_entries(folder, description, file)
    return description


def _check_entries(folder: Path, description: dict[str, Any], file: str) -> None:
    for name in REQUIRED:
        if name not in description:
            raise damaged_model(folder, f"{file} has no {name!r}")
    names = description["label_names"]
    width = description["feature_width"]
    config = description["config"]
    has_kinds = (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and isinstance(description["multi_label"], bool)
        and (width is None or (type(width) is int and width >= 1))
        and type(description["bits"]) is int
        and isinstance(description["info"], dict)
        and isinstance(description["fingerprint"], str)
        and isinstance(description["versions"], dict)
        and isinstance(config, dict)
        and all(isinstance(config.get(group), dict) for group in ("method", "net"))
    )
    if not has_kinds:
        raise damaged_model(folder, f"the entries of its description in {file} are not of the right kinds")
    _check_precision(folder, description)
    hidden, preprocess = config["net"].get("hidden"), description["preprocess"]
    if isinstance(hidden, list) and len(hidden) > MOST_HIDDEN:
        raise damaged_model(folder, f"it has {len(hidden):,} hidden layers, at most {MOST_HIDDEN} are allowed")
    sizes = [config["net"].get(key) for key in ("image_size", "evaluation_size")]
    for size in [*sizes, preprocess.get("size") if isinstance(preprocess, dict) else None]:
        if isinstance(size, int | float) and size > LARGEST_IMAGE:
            raise damaged_model(
                folder, f"its images have {short(size)} pixels per side, at most {LARGEST_IMAGE} are allowed"
            )
    if width is not None and width > WIDEST_EMBEDDING:
        raise damaged_model(
            folder, f"its embeddings have {short(width)} values, at most {WIDEST_EMBEDDING:,} are allowed"
        )


def _check_precision(folder: Path, description: dict[str, Any]) -> None:
    precision = description["precision"]
    if precision not in (FLOAT32, INT8):
        raise damaged_model(folder, f"its precision is {short(precision)}, not {FLOAT32} or {INT8}")
    if precision == INT8 and description["feature_width"] is not None:
        raise damaged_model(folder, "it takes embeddings, and only models of images are of INT8")
    try:
        quantisation_of(description)
    except ValueError as error:
        raise damaged_model(folder, str(error)) from None


def quantisation_of(description: Mapping[str, Any]) -> Quantisation | None:
    """How the network of a model is rounded; None for float32.

    Raises:
        ValueError: with a short reason.
    """
    return Quantisation.from_dict(description.get("ranges")) if description["precision"] == INT8 else None

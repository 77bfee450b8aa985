"""What a model folder says about its model, read without torch.

``model.safetensors`` holds the description in its header, with a checksum of it and of all weights: the one file is the
whole model, and appears in one rename. ``config.json`` beside it is a copy for people and for the hub. Models of
earlier versions have the description in ``config.json`` only.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scdh._version import __version__
from scdh.checksums import CHECKSUM, is_intact
from scdh.errors import ModelError
from scdh.files import read_regular
from scdh.hub import DESCRIPTION, WEIGHTS
from scdh.quantisation import FLOAT32, INT8, Quantisation
from scdh.tensor_header import TensorHeader, parse_limited, read_header, short

FORMAT, VERSION = "scdh-model", 2
FLOAT_VERSION = 1  # of float32 models, which earlier versions of scdh read too; they would take an INT8 one for float32
EMBEDDED = "description"  # the entry in the header of the weights
# Beyond any network that was trained: a stranger's description must not decide how much memory loading takes.
MOST_HIDDEN, LARGEST_IMAGE = 100, 4096
REQUIRED = ("config", "label_names", "multi_label", "feature_width", "preprocess", "info")


def read_description(folder: Path) -> dict[str, Any]:
    """The description of the model in ``folder``; the weights are not read, so not checked either.

    Raises:
        ModelError: if there is none, or it is damaged or of a newer version.
    """
    if not (folder / WEIGHTS).is_file():  # of a model on the hub, `scdh info` fetches the description alone
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
        if CHECKSUM in header.metadata:
            raise damaged_model(folder, f"the header of {WEIGHTS} has a checksum, but no description")
        return _from_file(folder)
    description = _checked(folder, header.metadata[EMBEDDED].encode(), WEIGHTS)
    if (folder / DESCRIPTION).exists():
        _check_copy(folder)
    return description


def damaged_model(folder: Path, reason: str) -> ModelError:
    reason = " ".join(reason.split()).rstrip(".")  # torch lists tensors over many lines
    reason = reason if len(reason) <= 300 else f"{reason[:297]}…"
    return ModelError(f"The model in {str(folder)!r} is broken or of another version: {reason}.")


def without_folders(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A run's settings as a model says them to others: of a path only its last part, as folders are nobody's business.

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
        missing = DESCRIPTION if (folder / WEIGHTS).exists() else WEIGHTS
        raise ModelError(f"The model folder {str(folder)!r} has no {missing}.") from None
    except OSError as error:
        raise ModelError(f"{str(folder / DESCRIPTION)!r} cannot be read: {error.strerror}.") from None
    description = _checked(folder, data, DESCRIPTION)
    if not is_intact(description):
        raise damaged_model(folder, f"{DESCRIPTION} was changed or damaged after it was written; restore it")
    return description


def _check_copy(folder: Path) -> None:
    """Refuse a ``config.json`` that was changed: whoever edited it would believe that it counts.

    An intact one of other weights is what a save leaves that was killed between two renames; it is passed over.
    """
    try:
        copy = parse_limited(read_regular(folder / DESCRIPTION))
        is_good = isinstance(copy, dict) and copy.get("format") == FORMAT and is_intact(copy)
    except (OSError, ValueError):
        is_good = False
    if not is_good:
        raise ModelError(
            f"{str(folder / DESCRIPTION)!r} was changed or damaged after it was written; delete it, as {WEIGHTS} holds "
            "the description too, or restore it."
        )


def _checked(folder: Path, data: bytes, file: str) -> dict[str, Any]:
    try:
        description = parse_limited(data)
    except ValueError as error:
        raise damaged_model(folder, f"{file}: {error}") from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelError(f"{str(folder)!r} does not hold a model of scdh.")
    version = description.get("version", 1)
    if type(version) is int and version > VERSION:
        raise ModelError(
            f"The model in {str(folder)!r} has version {version} of the format, but scdh {__version__} knows them up "
            f"to {VERSION}; install a newer scdh."
        )
    if type(version) is not int or version not in (FLOAT_VERSION, VERSION):
        raise damaged_model(folder, f"{file}: its version is {short(version)}")
    _check_entries(folder, description, file)
    return description


def _check_entries(folder: Path, description: dict[str, Any], file: str) -> None:
    for name in REQUIRED:
        if name not in description:
            raise damaged_model(folder, f"{file} has no {name!r}")
    names, width, config = description["label_names"], description["feature_width"], description["config"]
    has_kinds = (
        isinstance(names, list)
        and all(isinstance(name, str) for name in names)
        and isinstance(description["multi_label"], bool)
        and (width is None or (type(width) is int and width >= 1))
        and isinstance(description["info"], dict)
        and isinstance(config, dict)
        and all(isinstance(config.get(group), dict) for group in ("method", "net"))
    )
    if not has_kinds:
        raise damaged_model(folder, f"the entries of its description in {file} are not of the right kinds")
    _check_precision(folder, description)
    hidden, preprocess = config["net"].get("hidden"), description["preprocess"]
    if isinstance(hidden, list) and len(hidden) > MOST_HIDDEN:
        raise damaged_model(folder, f"it has {len(hidden):,} hidden layers, and no model has more than {MOST_HIDDEN}")
    sizes = [config["net"].get(key) for key in ("image_size", "evaluation_size")]
    for size in [*sizes, preprocess.get("size") if isinstance(preprocess, dict) else None]:
        if isinstance(size, int | float) and size > LARGEST_IMAGE:
            raise damaged_model(folder, f"images of {short(size)} pixels a side are more than {LARGEST_IMAGE}")


def _check_precision(folder: Path, description: dict[str, Any]) -> None:
    precision = description.get("precision", FLOAT32)
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
    is_int8 = description.get("precision", FLOAT32) == INT8
    return Quantisation.from_dict(description.get("ranges")) if is_int8 else None

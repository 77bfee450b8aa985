"""The files of a model folder: weights as safetensors, a description as JSON, and a card for people."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from scdh.errors import ModelError
from scdh.files import replacing_folder
from scdh.hub import CARD, DESCRIPTION, WEIGHTS, model_card
from scdh.nets.network import weights_fingerprint
from scdh.versions import versions

FORMAT, VERSION = "scdh-model", 1


def write_model(folder: str | Path, network: nn.Module, description: dict[str, Any], title: str) -> None:
    """Write the folder whole or not at all.

    Args:
        folder: a new folder, or an older model's, which is replaced; anything else is refused.
        network: its weights are saved.
        description: what :meth:`Hasher.load` needs beside the weights, ready for JSON.
        title: heading of the model card.
    """
    target = Path(folder)
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not (target / WEIGHTS).exists())):
        raise ModelError(f"{str(folder)!r} holds something else than a model; save into a new folder.")
    width = description["feature_width"]
    items = "images" if width is None else f"embeddings of width {width}"
    card = model_card(title, items, description["config"]["net"]["backbone"], len(description["label_names"]))
    content = {
        "format": FORMAT,
        "version": VERSION,
        **description,
        # Beside the weights, so that `scdh info` can tell which codes are this model's without loading it.
        "fingerprint": weights_fingerprint(network),
        "versions": versions(),
    }
    with replacing_folder(folder) as temporary:
        tensors = {name: t.detach().cpu().contiguous().clone() for name, t in network.state_dict().items()}
        save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
        (temporary / DESCRIPTION).write_text(json.dumps(content, indent=1), "utf-8")
        (temporary / CARD).write_text(card, "utf-8")


def read_description(folder: Path) -> dict[str, Any]:
    description = json.loads((folder / DESCRIPTION).read_text("utf-8"))
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelError(f"{str(folder)!r} does not hold a model of scdh.")
    return description


def read_weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / WEIGHTS)


@contextmanager
def model_errors(folder: Path) -> Iterator[None]:
    """Whatever goes wrong while a model is read becomes one sentence."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        name = Path(error.filename).name if error.filename else WEIGHTS  # safetensors gives no name
        raise ModelError(f"The model folder {str(folder)!r} has no {name}.") from None
    except (SafetensorError, json.JSONDecodeError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")  # torch lists tensors over many lines
        raise ModelError(f"The model in {str(folder)!r} is broken or of another version: {reason}.") from None

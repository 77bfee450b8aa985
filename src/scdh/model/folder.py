"""The files of a model folder: weights as safetensors, a description as JSON, and a card for people."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from scdh.config import RunConfig, parse_config
from scdh.errors import ModelError
from scdh.extras import versions
from scdh.methods.registry import method_names
from scdh.model.description import (
    EMBEDDED,
    FORMAT,
    VERSION,
    damaged_model,
    description_of,
    quantisation_of,
    without_folders,
)
from scdh.model.hub import CARD, DESCRIPTION, WEIGHTS, model_card
from scdh.nets.int8.layers import rounded_layers
from scdh.nets.network import Network, weights_fingerprint
from scdh.nets.quantisation import FLOAT32, INT8, Quantisation
from scdh.nets.unallocated import build_unallocated, has_unsaved_tensors
from scdh.storage.checksums import CHECKSUM, array_checksum
from scdh.storage.files import leftovers, open_regular, remove_abandoned, replacing
from scdh.storage.json_files import write_table
from scdh.storage.tensor_files import TensorHeader, read_bytes, read_header, short

if TYPE_CHECKING:
    from scdh.model.hasher import Hasher

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I32": torch.int32,
    "F32": torch.float32,
    "F64": torch.float64,
    "I64": torch.int64,
}


def model_fingerprint(network: nn.Module, quantisation: Quantisation | None) -> str:
    """16 hex digits of weights and precision."""
    of_weights = weights_fingerprint(network)
    return of_weights if quantisation is None else quantisation.fingerprint(of_weights)


def write_model(folder: str | Path, model: "Hasher") -> None:
    """Write the model; a kill or a full disk at any moment leaves the earlier one or the new one.

    The weights hold the description too, so their rename is the moment at which the new model is there. The other two
    files are copies for people, written afterwards; nothing else in the folder is touched.
    """
    target, network = Path(folder), model.network
    reject_other_content(target)
    items = "images" if model.feature_width is None else f"embeddings of width {model.feature_width}"
    title = f"{network.bits}-bit codes by {model.method.about.title}"
    card = model_card(title, items, model.config.net.backbone, len(model.label_names))
    content = _description(model)
    tensors = {name: plain_copy(tensor) for name, tensor in network.state_dict().items()}
    text = json.dumps(content)
    header = {"format": "pt", EMBEDDED: text, CHECKSUM: tensors_checksum(tensors, {EMBEDDED: text})}
    with replacing(target / WEIGHTS) as temporary:
        save_file(tensors, temporary, metadata=header)
    write_table(target / DESCRIPTION, content)
    if not _has_text(target / CARD, card):
        with replacing(target / CARD) as temporary:
            temporary.write_text(card, "utf-8")


def _description(model: "Hasher") -> dict[str, Any]:
    quantisation = model.quantisation
    return {
        "format": FORMAT,
        "version": VERSION,
        "bits": model.network.bits,
        "label_names": model.label_names,
        "multi_label": model.multi_label,
        "preprocess": None if model.preprocess is None else model.preprocess.to_dict(),
        "feature_width": model.feature_width,
        "config": without_folders(model.config.model_dump(mode="json")),
        "info": model.info,
        "precision": FLOAT32 if quantisation is None else INT8,
        **({} if quantisation is None else {"ranges": quantisation.to_dict()}),
        # Stored, so that `scdh info` can tell which codes are this model's without loading the weights.
        "fingerprint": model_fingerprint(model.network, quantisation),
        "versions": versions(),
    }


@dataclass(frozen=True)
class StoredModel:
    """A model folder open for reading: its description is in memory, its weights are still on disk."""

    folder: Path
    description: dict[str, Any]
    header: TensorHeader
    handle: BinaryIO

    def config(self) -> RunConfig:
        """The settings of the run that made the model, whose method is installed."""
        name = self.description["config"]["method"].get("name")
        if name not in method_names():  # not a misspelling, so no near name is offered: a package is missing
            raise ModelError(
                f"The model in {str(self.folder)!r} was made by method {short(name)}, which is not installed."
            )
        return parse_config(self.description["config"])

    def load(self, build: "Callable[[], Hasher]") -> "Hasher":
        """The model made by ``build``, with the stored weights."""
        model = build_unallocated(build)
        self.check_fits(model.network)  # before memory is allocated for untrusted sizes
        parts = (model.network.trunk, model.network.fc7, model.network.head, model.method)
        is_whole = not model.method.state_dict() and not any(part and has_unsaved_tensors(part) for part in parts)
        model = model if is_whole else build()
        self.load_into(model.network, take=is_whole)
        return model

    def quantisation(self, network: Network) -> Quantisation | None:
        """How ``network`` is rounded; None for float32."""
        found = quantisation_of(self.description)
        if found is not None:
            found.check_fits(rounded_layers(network))
        return found

    def check_fits(self, network: Network) -> None:
        """Raise if names, shapes or types of the weights differ from the network's; no weights are read."""
        stored, expected = self.header.tensors, network.state_dict()
        for name in [*(expected.keys() - stored.keys()), *(stored.keys() - expected.keys())]:
            where = f"{WEIGHTS} lacks" if name in expected else "the network has no place for"
            raise damaged_model(self.folder, f"{where} the tensor {short(name)}")
        for name, tensor in expected.items():
            shape, dtype = stored[name].shape, DTYPES.get(stored[name].dtype)
            if (shape, dtype) != (tuple(tensor.shape), tensor.dtype):
                raise damaged_model(
                    self.folder,
                    f"tensor {short(name)} is {list(shape)} of {stored[name].dtype} in {WEIGHTS}, but the network has "
                    f"{list(tensor.shape)} of {tensor.dtype}",
                )

    def load_into(self, network: Network, *, take: bool = False) -> None:
        """Read the weights into a network that they fit, and compare them with their checksum.

        Args:
            network: that the description describes.
            take: the network has no memory of its own yet, and takes the tensors that were read.
        """
        self.check_fits(network)
        tensors = {name: self._read(name) for name in self.header.tensors}
        metadata = self.header.metadata
        if metadata.get(CHECKSUM) != tensors_checksum(tensors, {EMBEDDED: metadata[EMBEDDED]}):
            raise damaged_model(self.folder, f"{WEIGHTS} does not match its checksum; restore it from a copy")
        network.load_state_dict(tensors, assign=take)

    def _read(self, name: str) -> Tensor:
        """A tensor in its own memory: if another program shortens a mapped file, the process crashes."""
        stored = self.header.tensors[name]
        tensor = torch.empty(stored.shape, dtype=DTYPES[stored.dtype])
        if tensor.numel():
            read_bytes(self.handle, stored, tensor.reshape(-1).view(torch.uint8).numpy().data)
        return tensor


@contextmanager
def open_model(folder: Path) -> Iterator[StoredModel]:
    """Open a model folder; any error until it is closed becomes one sentence."""
    try:
        with open(folder / WEIGHTS, "rb", opener=open_regular) as handle:
            header = read_header(handle)
            yield StoredModel(folder, description_of(folder, header), header, handle)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"The model folder {str(folder)!r} has no {WEIGHTS}.") from None
    except OSError as error:
        raise ModelError(f"{str(folder / WEIGHTS)!r} cannot be read: {error.strerror}.") from None
    except ModelError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OverflowError, RecursionError) as error:
        raise damaged_model(folder, str(error)) from None


def reject_other_content(folder: Path) -> None:
    """Raise if a folder is not empty and holds no model."""
    if not folder.exists():
        return
    if folder.is_dir():
        ours = {left for name in (WEIGHTS, DESCRIPTION, CARD) for left in leftovers(folder / name)}
        for name in (WEIGHTS, DESCRIPTION, CARD):
            remove_abandoned(folder / name)
        if (folder / WEIGHTS).exists() or not set(folder.iterdir()) - ours:
            return
    raise ModelError(f"{str(folder)!r} holds other files and no model; save into a new folder.")


def plain_copy(tensor: Tensor) -> Tensor:
    """On the CPU and in row order; a copy, because safetensors rejects tensors that share memory."""
    plain = tensor.detach().cpu().contiguous()
    return plain.clone() if plain.data_ptr() == tensor.data_ptr() else plain


def tensors_checksum(tensors: Mapping[str, Tensor], description: Mapping[str, str]) -> str:
    """As :func:`array_checksum`, of tensors in row order on the CPU."""
    arrays: dict[str, np.ndarray] = {}
    for name, tensor in tensors.items():
        # numpy has no bfloat16: its bytes count instead.
        arrays[name] = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array_checksum(arrays, description)


def _has_text(file: Path, text: str) -> bool:
    try:
        return file.read_text("utf-8") == text
    except (OSError, ValueError):
        return False

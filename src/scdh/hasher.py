"""A model: images or embeddings in, codes out. On disk it is a folder of safetensors and JSON."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from scdh.codes import HAMMING, RANKING, Codes
from scdh.config import RunConfig, parse_config
from scdh.data.arrays.loose import ItemsSource
from scdh.data.batches.loaders import Batch, OnBadImage, evaluation_batches
from scdh.data.images.transforms import Preprocess
from scdh.data.source import Source
from scdh.encode import run_network
from scdh.errors import ConfigError, DataError, ModelError
from scdh.files import replacing_folder
from scdh.hub import DESCRIPTION, WEIGHTS, find_model_folder, model_card
from scdh.methods.base import Method
from scdh.methods.declared import method_names
from scdh.methods.registry import make_method
from scdh.nets.backbones import build_backbone, width_at
from scdh.nets.folding import fold_batch_norm
from scdh.nets.memory import keep_freed_memory
from scdh.nets.network import Network, weights_fingerprint
from scdh.nets.small import FeatureTrunk
from scdh.progress import track
from scdh.versions import versions

FORMAT = "scdh-model"
_KINDS = {"images": "images", "features": "embeddings"}  # as users call them


@dataclass
class Hasher:
    """A model: network, method, preprocessing and label names.

    Attributes:
        network: trunk, hidden layers and the method's head.
        method: how the network is trained and codes are read from it.
        config: the settings of the run that made the model.
        label_names: names of the C labels it was trained on.
        multi_label: whether an item may have several labels.
        preprocess: how images are brought to the network's input; None for a model of embeddings.
        feature_width: width d of the embeddings; None for a model of images.
        info: protocol, data fingerprint, epochs and scores of the run, as saved with the model.
    """

    network: Network
    method: Method
    config: RunConfig
    label_names: list[str]
    multi_label: bool
    preprocess: Preprocess | None = None
    feature_width: int | None = None
    info: dict[str, Any] = field(default_factory=dict)
    _folded: tuple[Any, Network] | None = field(default=None, init=False, repr=False, compare=False)
    _fingerprint: tuple[Any, str] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def bits(self) -> int:
        return self.network.bits

    @property
    def centres(self) -> np.ndarray | None:
        """The semantic cluster centres [C, r], where the method has them."""
        centres = self.method.centres(self.network)
        return None if centres is None else centres.detach().cpu().numpy()

    def encoder(self) -> Network:
        """The network as it encodes: a copy with batch-norm folded away, made anew when the weights have changed."""
        if self.preprocess is None:
            return self.network
        state = self._weights_state()
        if self._folded is None or self._folded[0] != state:
            self._folded = (state, fold_batch_norm(self.network, self.preprocess.size))
        return self._folded[1]

    def fingerprint(self) -> str:
        """16 hex digits of the weights, computed again only when they have changed; the command line writes them
        beside codes and refuses to mix those of two models.
        """
        state = self._weights_state()
        if self._fingerprint is None or self._fingerprint[0] != state:
            self._fingerprint = (state, weights_fingerprint(self.network))
        return self._fingerprint[1]

    def _weights_state(self) -> list[tuple[int, int, torch.device]]:
        """Differs when a tensor was replaced, changed in place or moved."""
        tensors = [*self.network.parameters(), *self.network.buffers()]
        return [(id(tensor), tensor._version, tensor.device) for tensor in tensors]

    @classmethod
    def build(
        cls,
        config: RunConfig,
        label_names: list[str],
        multi_label: bool,
        feature_width: int | None,
        pretrained: bool | None = None,
    ) -> "Hasher":
        """An untrained model as ``config`` describes it.

        Args:
            config: settings of the run; ``net`` and ``method`` matter here.
            label_names: names of the C labels.
            multi_label: whether an item may have several labels.
            feature_width: width d of the embeddings, None where the data are images.
            pretrained: whether the trunk starts from pretrained weights (default: ``config.net.pretrained``).
        """
        keep_freed_memory()
        method = make_method(config.method.name, config.method.own, config.method.bits, len(label_names), multi_label)
        # A fitted method reads the trunk's features, or the embeddings, as they are: hidden layers would stay random.
        net_settings = config.net if method.learns_by_gradient else config.net.model_copy(update={"hidden": []})
        backbone = build_backbone(net_settings, feature_width, pretrained)
        preprocess = backbone.preprocess
        if config.net.evaluation_size is not None:
            if preprocess is None:
                raise ConfigError("net.evaluation_size is for images; the data are embeddings.")
            preprocess = replace(preprocess, size=config.net.evaluation_size)
            width_at(config.net.backbone, backbone.trunk, preprocess.size)  # refuses a size that a transformer lacks
        colours = {} if preprocess is None else {"mean": preprocess.mean, "std": preprocess.std}
        network: Network = Network(
            backbone.trunk,
            backbone.width,
            method.code_bits,
            frozen_batch_norm=config.net.frozen_batch_norm,
            hidden=[] if preprocess is None else net_settings.hidden,  # of embeddings they are the trunk
            dropout=config.net.dropout or 0.0,
            **colours,
        )
        method.build(network)
        return cls(network, method, config, label_names, multi_label, preprocess, feature_width)

    def with_network(self, network: Network) -> "Hasher":
        """The same model with another network, such as averaged weights; one without trunk
        (:meth:`Network.on_features`) gets this model's trunk.
        """
        if self.preprocess is not None and isinstance(network.trunk, FeatureTrunk):
            network = network.with_trunk(self.network.trunk)
        return replace(self, network=network, info=dict(self.info))

    @classmethod
    def train(
        cls,
        config: RunConfig | Mapping[str, Any],
        folder: str | Path | None = None,
        *,
        resume: bool = False,
        quiet: bool = False,
    ) -> "Hasher":
        """Train as ``config`` (or a nested mapping of settings) says.

        ``folder`` receives logs, checkpoints and the model; without one nothing is written.
        """
        from scdh.training.run import train

        config = config if isinstance(config, RunConfig) else parse_config(config)
        return train(config, None if folder is None else Path(folder), resume=resume, quiet=quiet)

    def encode(
        self,
        items: Any,
        *,
        batch_size: int = 128,
        workers: int | None = None,
        on_bad_image: OnBadImage = "fail",
        progress: bool = False,
    ) -> Codes:
        """Codes of images or embeddings.

        Args:
            items: paths, PIL images or uint8 arrays (one, a sequence, or any iterator), or embeddings float [n, d].
                An iterator is read a few batches at a time, so it may be longer than memory.
            batch_size: items in one pass of the network.
            workers: processes that decode images; None: chosen by the machine.
            on_bad_image: "fail", or "skip" to leave unreadable images out.
            progress: show a bar.

        Returns:
            Codes whose ``ids`` are positions in ``items``.
        """
        batches = self._batches(items, batch_size, workers, on_bad_image)
        if progress:
            total = len(items) if hasattr(items, "__len__") else None
            batches = track(batches, total or 0, "encoding", "items", lambda batch: len(batch.rows))
        return self.encode_outputs(run_network(self.encoder(), batches, self.method.hash_outputs))

    def encode_rows(
        self,
        source: Source,
        rows: np.ndarray,
        *,
        batch_size: int = 128,
        workers: int | None = None,
        on_bad_image: OnBadImage = "fail",
        progress: str | None = None,
    ) -> Codes:
        """Codes of some rows of a source, with the row numbers as ids; ``progress`` is the bar's title."""
        outputs = self.hash_outputs_of_rows(
            source, rows, batch_size=batch_size, workers=workers, on_bad_image=on_bad_image, progress=progress
        )
        return self.encode_outputs(outputs)

    def encode_outputs(self, outputs: Iterable[tuple[np.ndarray, np.ndarray]], network: Network | None = None) -> Codes:
        """Codes of (rows [B], u [B, r]) pairs, with the row numbers as ids.

        Args:
            outputs: what :meth:`hash_outputs_of_rows` gives.
            network: the network that gave them, where it is not this model's own.
        """
        network = network or self.network
        metadata = {} if self.method.ranking == HAMMING else {RANKING: self.method.ranking}
        pieces = [Codes.from_signs(self.method.signs(network, u), rows, metadata) for rows, u in outputs]
        if not pieces:
            return Codes.from_signs(np.zeros((0, self.bits), np.float32), np.zeros(0, np.int64), metadata)
        return Codes.concatenate(pieces)

    def hash_outputs(self, items: Any, *, batch_size: int = 128, workers: int | None = None) -> np.ndarray:
        """u float32 [n, r], the real outputs whose signs are the codes; ``items`` as for :meth:`encode`."""
        batches = self._batches(items, batch_size, workers, "fail")
        pieces = [u for _, u in run_network(self.encoder(), batches, self.method.hash_outputs)]
        return np.concatenate(pieces) if pieces else np.zeros((0, self.bits), np.float32)

    def hash_outputs_of_rows(
        self,
        source: Source,
        rows: np.ndarray,
        *,
        batch_size: int = 128,
        workers: int | None = None,
        on_bad_image: OnBadImage = "fail",
        progress: str | None = None,
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(rows [B], u [B, r]) of some rows of a source, batch by batch."""
        self.check_fits(source)
        batches: Iterable[Batch] = evaluation_batches(
            source,
            rows,
            preprocess=self.preprocess,
            batch_size=batch_size,
            workers=workers,
            on_bad_image=on_bad_image,
        )
        if progress is not None:
            batches = track(batches, len(rows), progress, "items", lambda batch: len(batch.rows))
        return run_network(self.encoder(), batches, self.method.hash_outputs)

    def hash_outputs_of_features(self, features: np.ndarray, batch_size: int = 8192) -> np.ndarray:
        """u [n, r] of features [n, trunk_width] that the trunk gave before: only hidden layers and head run."""
        self.network.eval()
        with torch.inference_mode():
            batches = (part.to(self.network.device) for part in torch.from_numpy(features).split(batch_size))
            outputs = [self.method.hash_outputs(self.network.read_features(batch)) for batch in batches]
            return torch.cat([u.float().cpu() for u in outputs]).numpy()

    def check_fits(self, source: Source) -> None:
        """Refuse data of the wrong kind or width before any work is done."""
        wanted = "images" if self.feature_width is None else "features"
        if source.kind != wanted:
            raise DataError(f"This model encodes {_KINDS[wanted]}, but {source.name} holds {_KINDS[source.kind]}.")
        if self.feature_width is not None and source.features.shape[1] != self.feature_width:
            raise DataError(
                f"This model encodes embeddings of width {self.feature_width}, but {source.name} has width "
                f"{source.features.shape[1]}."
            )

    def _batches(self, items: Any, batch_size: int, workers: int | None, on_bad_image: OnBadImage) -> Iterator[Batch]:
        """Batches whose ``rows`` are positions in ``items``."""

        def batches_of(chunk: Any, start: int) -> Iterator[Batch]:
            source = ItemsSource(chunk, start=start)
            self.check_fits(source)
            for batch in evaluation_batches(
                source,
                np.arange(len(source)),
                preprocess=self.preprocess,
                batch_size=batch_size,
                workers=workers,
                on_bad_image=on_bad_image,
            ):
                batch.rows.add_(start)
                yield batch

        if isinstance(items, (str, os.PathLike, Image.Image)):
            items = [items]
        if isinstance(items, np.ndarray):
            items = items[None] if self._is_single_item(items) else items
            if len(items):
                yield from batches_of(items, 0)
            return
        stream, start = iter(items), 0
        while chunk := list(islice(stream, batch_size * 8)):
            yield from batches_of(chunk, start)
            start += len(chunk)

    def _is_single_item(self, array: np.ndarray) -> bool:
        return array.ndim == 1 if self.feature_width is not None else array.ndim == 3 and array.shape[2] in (1, 3)

    def save(self, folder: str | Path) -> None:
        """Write the folder whole or not at all: weights as safetensors, everything else as JSON, and a model card.

        An older model there is replaced; a folder (or file) with anything else in it is refused, not emptied.
        """
        target = Path(folder)
        if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not (target / WEIGHTS).exists())):
            raise ModelError(f"{str(folder)!r} holds something else than a model; save into a new folder.")
        description = {
            "format": FORMAT,
            "version": 1,
            "bits": self.bits,
            "label_names": self.label_names,
            "multi_label": self.multi_label,
            "preprocess": None if self.preprocess is None else self.preprocess.to_dict(),
            "feature_width": self.feature_width,
            "config": self.config.model_dump(mode="json"),
            "versions": versions(),
            "info": self.info,
        }
        with replacing_folder(folder) as temporary:
            tensors = {k: v.detach().cpu().contiguous().clone() for k, v in self.network.state_dict().items()}
            save_file(tensors, temporary / WEIGHTS, metadata={"format": "pt"})
            (temporary / DESCRIPTION).write_text(json.dumps(description, indent=1), "utf-8")
            items = "images" if self.feature_width is None else f"embeddings of width {self.feature_width}"
            title = f"{self.bits}-bit codes by {self.method.about.title}"
            card = model_card(title, items, self.config.net.backbone, len(self.label_names))
            (temporary / "README.md").write_text(card, "utf-8")

    @classmethod
    def load(cls, folder_or_hub_id: str | Path, *, device: str | None = None) -> "Hasher":
        """A folder that :meth:`save` wrote, a run's folder, or the id of a model on the Hugging Face hub.

        Weights are safetensors and the rest is JSON: loading never unpickles.
        """
        folder = find_model_folder(folder_or_hub_id)
        try:
            description = json.loads((folder / DESCRIPTION).read_text("utf-8"))
            if description.get("format") != FORMAT:
                raise ModelError(f"{str(folder)!r} does not hold a model of scdh.")
            name = description["config"]["method"]["name"]
            if name not in method_names():  # not a misspelling, so no near name is offered: a package is missing
                raise ModelError(f"The model in {str(folder)!r} was made by method {name!r}, which is not installed.")
            model = cls.build(
                parse_config(description["config"]),
                description["label_names"],
                description["multi_label"],
                description["feature_width"],
                pretrained=False,
            )
            model.network.load_weights(load_file(folder / WEIGHTS))
            preprocess = description["preprocess"]
            model.preprocess = None if preprocess is None else Preprocess.from_dict(preprocess)
            model.info = description["info"]
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ModelError(f"The model folder {str(folder)!r} has no {Path(error.filename).name}.") from None
        except (SafetensorError, json.JSONDecodeError, KeyError, TypeError, AttributeError, RuntimeError) as error:
            reason = " ".join(str(error).split()).rstrip(".")  # torch lists tensors over many lines
            raise ModelError(f"The model in {str(folder)!r} is broken or of another version: {reason}.") from None
        model.network.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model.network.eval()
        return model

    save_pretrained = save
    from_pretrained = load

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the folder to the Hugging Face hub and return its address; ``Hasher.load(repo_id)`` reads it back."""
        import tempfile

        from huggingface_hub import HfApi

        api = HfApi(token=token)
        api.create_repo(repo_id, private=private, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            self.save(Path(scratch) / "model")
            return str(api.upload_folder(repo_id=repo_id, folder_path=str(Path(scratch) / "model")))

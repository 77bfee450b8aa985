"""A trained model: images or embeddings in, codes out. On disk it is a folder of safetensors and JSON."""

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

from scdh.codes import Codes
from scdh.config import RunConfig, parse_config
from scdh.data.arrays.loose import ItemsSource
from scdh.data.batches.loaders import Batch, OnBadImage, evaluation_batches
from scdh.data.images.transforms import Preprocess
from scdh.data.source import Source
from scdh.encode import encode_batches, run_network
from scdh.errors import ConfigError, DataError, ModelError
from scdh.files import replacing_folder
from scdh.hub import DESCRIPTION, WEIGHTS, find_model_folder, model_card
from scdh.methods.registry import method_class, method_names, method_settings
from scdh.nets.backbones import build_backbone, width_at
from scdh.nets.folding import fold_batch_norm
from scdh.nets.memory import keep_freed_memory
from scdh.nets.network import Network, weights_fingerprint
from scdh.progress import track
from scdh.versions import versions

FORMAT = "scdh-model"


@dataclass
class Hasher:
    """Network, preprocessing and label names together. ``info`` carries versions, protocol and scores along."""

    network: Network
    config: RunConfig
    label_names: list[str]
    multi_label: bool
    preprocess: Preprocess | None = None
    feature_width: int | None = None
    info: dict[str, Any] = field(default_factory=dict)
    _folded: tuple[Any, Network] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def bits(self) -> int:
        return self.network.bits

    @property
    def centres(self) -> np.ndarray | None:
        """The semantic cluster centres [C, r], where the method has them."""
        return None if self.network.centres is None else self.network.centres.detach().cpu().numpy()

    def encoder(self) -> Network:
        """The network as it encodes: a copy with batch-norm folded away, made anew when the weights have changed."""
        if self.preprocess is None:
            return self.network
        tensors = [*self.network.parameters(), *self.network.buffers()]
        state = [(id(tensor), tensor._version, tensor.device) for tensor in tensors]
        if self._folded is None or self._folded[0] != state:
            self._folded = (state, fold_batch_norm(self.network, self.preprocess.size))
        return self._folded[1]

    def fingerprint(self) -> str:
        """16 hex digits of the weights; the command line writes them beside codes and refuses to mix two models'."""
        return weights_fingerprint(self.network)

    @classmethod
    def build(
        cls,
        config: RunConfig,
        label_names: list[str],
        multi_label: bool,
        feature_width: int | None,
        pretrained: bool | None = None,
    ) -> "tuple[Hasher, Any]":
        """An untrained model and its method, wired as ``config`` says."""
        keep_freed_memory()
        backbone = build_backbone(config.net, feature_width, pretrained)
        pre = backbone.preprocess
        if config.net.evaluation_size is not None:
            if pre is None:
                raise ConfigError("net.evaluation_size is for images; the data are embeddings.")
            pre = replace(pre, size=config.net.evaluation_size)
            width_at(config.net.backbone, backbone.trunk, pre.size)  # transformers take one size only: say so now
        shades = {} if pre is None else {"mean": pre.mean, "std": pre.std}
        net = Network(
            backbone.trunk,
            backbone.width,
            config.method.bits,
            frozen_batch_norm=config.net.frozen_batch_norm,
            hidden=[] if pre is None else config.net.hidden,  # embeddings have them as their trunk
            dropout=config.net.dropout or 0.0,
            **shades,
        )
        settings = method_settings(config.method.name, config.method.own)
        method = method_class(config.method.name)(settings, config.method.bits, len(label_names), multi_label)
        method.build(net)
        return cls(net, config, label_names, multi_label, pre, feature_width), method

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
        """Codes of paths, PIL images or uint8 arrays (one, a sequence, or any iterator), or of embeddings [n, d].

        An iterator is read a few batches at a time, so it may be longer than memory. ``ids`` of the codes are positions
        in what was given; with ``on_bad_image="skip"`` unreadable ones are left out.
        """
        batches = self._batches(items, batch_size, workers, on_bad_image)
        if progress:
            total = len(items) if hasattr(items, "__len__") else None
            batches = track(batches, total or 0, "encoding", "items", lambda b: len(b.rows))
        return encode_batches(self.encoder(), batches, self._real_codes)

    def real_outputs(self, items: Any, *, batch_size: int = 128, workers: int | None = None) -> np.ndarray:
        """u [n, r] before the sign, for looking at how far outputs are from 0."""
        parts = [
            u
            for _, u in run_network(self.encoder(), self._batches(items, batch_size, workers, "fail"), self._real_codes)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.bits), np.float32)

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
            batches = track(batches, len(rows), progress, "items", lambda b: len(b.rows))
        return encode_batches(self.encoder(), batches, self._real_codes)

    def outputs_of_features(self, features: np.ndarray, rows: int = 8192) -> np.ndarray:
        """u [n, r] from features that the trunk gave before (see ``training.features``): runs the heads only."""
        self.network.eval()
        device = next(self.network.parameters()).device
        with torch.inference_mode():
            parts = [self.network.read(part.to(device)) for part in torch.from_numpy(features).split(rows)]
            return torch.cat([self._real_codes(part).float().cpu() for part in parts]).numpy()

    def check_fits(self, source: Source) -> None:
        """Refuse data of the wrong kind or width before any work is done."""
        wanted = "images" if self.feature_width is None else "features"
        if source.kind != wanted:
            raise DataError(f"This model encodes {_word(wanted)}, but {source.name} holds {_word(source.kind)}.")
        if self.feature_width is not None and source.features.shape[1] != self.feature_width:
            raise DataError(
                f"This model encodes embeddings of width {self.feature_width}, but {source.name} has width "
                f"{source.features.shape[1]}."
            )

    def _real_codes(self, outputs: Any) -> torch.Tensor:
        return method_class(self.config.method.name).real_codes(outputs)

    def _batches(self, items: Any, batch_size: int, workers: int | None, on_bad_image: OnBadImage) -> Iterator[Batch]:
        def of(chunk: Any, start: int) -> Iterator[Batch]:
            source = ItemsSource(chunk, start=start)
            self.check_fits(source)
            kwargs: dict[str, Any] = {
                "batch_size": batch_size,
                "workers": workers,
                "on_bad_image": on_bad_image,
            }
            for batch in evaluation_batches(source, np.arange(len(source)), preprocess=self.preprocess, **kwargs):
                batch.rows.add_(start)
                yield batch

        if isinstance(items, (str, os.PathLike, Image.Image)) or (
            isinstance(items, np.ndarray) and self._single(items)
        ):
            items = [items] if not isinstance(items, np.ndarray) else items[None]
        if isinstance(items, np.ndarray):
            if len(items):
                yield from of(items, 0)
            return
        stream, start = iter(items), 0
        while chunk := list(islice(stream, batch_size * 8)):
            yield from of(chunk, start)
            start += len(chunk)

    def _single(self, array: np.ndarray) -> bool:
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
            what = "images" if self.feature_width is None else f"embeddings of width {self.feature_width}"
            title = f"{self.bits}-bit codes by {method_class(self.config.method.name).about.title}"
            card = model_card(title, what, self.config.net.backbone, len(self.label_names))
            (temporary / "README.md").write_text(card, "utf-8")

    @classmethod
    def load(cls, folder_or_hub_id: str | Path, *, device: str | None = None) -> "Hasher":
        """A folder that :meth:`save` wrote, a run's folder, or the id of a model on the Hugging Face hub.

        Weights are safetensors and the rest is JSON: loading never unpickles.
        """
        folder = find_model_folder(folder_or_hub_id)
        try:
            said = json.loads((folder / DESCRIPTION).read_text("utf-8"))
            if said.get("format") != FORMAT:
                raise ModelError(f"{str(folder)!r} does not hold a model of scdh.")
            name = said["config"]["method"]["name"]
            if name not in method_names():  # no slip of the pen, so no near name: a package is missing
                raise ModelError(f"The model in {str(folder)!r} was made by method {name!r}, which is not installed.")
            config = parse_config(said["config"])
            model, _ = cls.build(
                config, said["label_names"], said["multi_label"], said["feature_width"], pretrained=False
            )
            model.network.load_state_dict(load_file(folder / WEIGHTS))
            pre = said["preprocess"]
            model.preprocess = None if pre is None else Preprocess.from_dict(pre)
            model.info = said["info"]
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


def _word(kind: str) -> str:
    return "embeddings" if kind == "features" else "images"

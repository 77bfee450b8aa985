"""A model: images or embeddings in, codes out. On disk it is a folder of safetensors and JSON."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from scdh.codes import Codes, ranking_metadata
from scdh.config import RunConfig, parse_config
from scdh.data.arrays.loose import item_count, item_sources
from scdh.data.batches.loaders import Batch, OnBadImage, check_loading
from scdh.data.images.transforms import Preprocess
from scdh.data.source import Source
from scdh.errors import ModelError
from scdh.methods.base import Method
from scdh.methods.registry import make_method
from scdh.model import Engine
from scdh.model.encode import check_source, item_batches
from scdh.model.engine import Engines
from scdh.model.folder import model_fingerprint, open_model, write_model
from scdh.model.hub import find_model_folder, upload_saved
from scdh.nets.build import build_network
from scdh.nets.device import find_device
from scdh.nets.int8.calibration import calibrate
from scdh.nets.network import Network, weights_state
from scdh.nets.quantisation import Quantisation
from scdh.nets.small import FeatureTrunk
from scdh.nets.stages import LateStages, frozen_part, learned_part
from scdh.progress import track


@dataclass(repr=False)
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
        quantisation: of an INT8 model, how its network is rounded when it encodes; None: float32.
    """

    network: Network
    method: Method
    config: RunConfig
    label_names: list[str]
    multi_label: bool
    preprocess: Preprocess | None = None
    feature_width: int | None = None
    info: dict[str, Any] = field(default_factory=dict)
    quantisation: Quantisation | None = None
    _engines: Engines = field(default_factory=Engines, init=False, repr=False, compare=False)
    _fingerprint: tuple[Any, str] | None = field(default=None, init=False, repr=False, compare=False)

    def __repr__(self) -> str:
        labels = f"{len(self.label_names):,} labels" if self.label_names else "no labels"
        takes = f"embeddings of width {self.feature_width}"
        if self.preprocess is not None:
            takes = f"images of {self.preprocess.size}² by {self.config.net.backbone}"
        return f"Hasher({self.config.method.name}, {self.bits} bits, {labels}, {takes})"

    @property
    def bits(self) -> int:
        return self.network.bits

    @property
    def centres(self) -> np.ndarray | None:
        """The semantic cluster centres [C, r], if the method has them."""
        centres = self.method.centres(self.network)
        return None if centres is None else centres.detach().cpu().numpy()

    def encoder(self) -> Network:
        """The network as it encodes, rebuilt when the weights have changed: with folded batch-norm and, for INT8,
        rounded weights.
        """
        return self._engines.folded(self)

    def run(
        self, batches: Iterable[Batch], *, engine: Engine = "torch", images: int | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(rows [B], u [B, r]) of every batch.

        Args:
            batches: of images or embeddings.
            engine: as for :meth:`encode`.
            images: their total number; None: many.
        """
        return self._engines.run(self, batches, engine, images)

    def fingerprint(self) -> str:
        """16 hex digits of weights and precision; stored with codes, so that codes of two models are not mixed."""
        state = weights_state(self.network)
        if self._fingerprint is None or self._fingerprint[0] != state:
            self._fingerprint = (state, model_fingerprint(self.network, self.quantisation))
        return self._fingerprint[1]

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
            feature_width: width d of the embeddings, None if the data are images.
            pretrained: whether the trunk starts from pretrained weights (default: ``config.net.pretrained``).
        """
        method = make_method(config.method.name, config.method.own, config.method.bits, len(label_names), multi_label)
        net = config.net if method.learns_by_gradient else config.net.without_layers()
        network, preprocess = build_network(net, method.code_bits, feature_width, pretrained)
        method.build(network)
        return cls(network, method, config, label_names, multi_label, preprocess, feature_width)

    def with_network(self, network: Network) -> "Hasher":
        """The same model with a different network, for example with averaged weights.

        Args:
            network: of the same method; one without a trunk (:meth:`Network.on_features`) gets this model's, and one
                of late stages alone gets this model's early stages.
        """
        if isinstance(network.trunk, LateStages):
            network = network.with_trunk(network.trunk.put_into(self.network.trunk))
        if self.preprocess is not None and isinstance(network.trunk, FeatureTrunk):
            network = network.with_trunk(self.network.trunk)
        return replace(self, network=network, info=dict(self.info))

    def frozen_part(self) -> "Hasher":
        """The part of the model that ``net.freeze`` keeps as it is: its features are cached for training."""
        stages = self._frozen_stages()
        if stages is None or self.preprocess is None:
            return self
        part = frozen_part(self.network, stages, self.preprocess.size)
        return replace(self, network=part, info=dict(self.info))

    def learned_part(self) -> Network:
        """The network that reads the features of :meth:`frozen_part`; it shares the model's weights."""
        stages = self._frozen_stages()
        if stages is None or self.preprocess is None:
            return self.network.on_features()
        return learned_part(self.network, stages, self.preprocess.size)

    def _frozen_stages(self) -> int | None:
        """Number of stages at which the trunk is cut; None: all of it is frozen, or the method is fitted to it."""
        freeze = self.config.net.freeze
        return None if isinstance(freeze, bool) or not self.method.learns_by_gradient else freeze

    @classmethod
    def train(
        cls,
        config: RunConfig | Mapping[str, Any],
        folder: str | Path | None = None,
        *,
        resume: bool = False,
        quiet: bool = False,
        device: str | None = None,
    ) -> "Hasher":
        """Train a model as :func:`scdh.train` does, with the settings of a config.

        Args:
            config: what :func:`scdh.load_config` gives, or a nested mapping of settings. Settings that it leaves open
                are chosen to suit the data; a preset or a file leaves none open.
            folder: run folder that receives logs, checkpoints and the model; None: nothing is written.
            resume: continue the run in ``folder``.
            quiet: no progress bars and no lines of epochs.
            device: as for :meth:`load`. It is not a setting of the run, which may be resumed on another one.
        """
        from scdh.training.train import train_config

        config = config if isinstance(config, RunConfig) else parse_config(config)
        return train_config(config, folder, resume=resume, quiet=quiet, device=device)

    @overload
    def encode(self, items: Any, *, outputs: Literal[False] = False, **options: Any) -> Codes: ...
    @overload
    def encode(self, items: Any, *, outputs: Literal[True], **options: Any) -> tuple[Codes, np.ndarray]: ...
    def encode(  # type: ignore[misc]  # **options stands for the arguments between
        self,
        items: Any,
        *,
        batch_size: int = 128,
        workers: int | None = None,
        on_bad_image: OnBadImage = "fail",
        progress: bool = False,
        outputs: bool = False,
        engine: Engine = "auto",
    ) -> Codes | tuple[Codes, np.ndarray]:
        """Codes of images or embeddings.

        Args:
            items: images (one, a sequence, or any iterator, which may be longer than memory) as paths, bytes of image
                files, PIL images, or arrays [H, W] or [H, W, C] of 8 or 16 bits or from 0 to 1; or embeddings float
                [n, d]. The same picture has the same code in every form.
            batch_size: items that are read at once; a GPU takes them in one pass, a CPU in pieces.
            workers: processes that decode images; None: chosen by the machine.
            on_bad_image: "fail", or "skip" to leave out unreadable images.
            progress: show a bar.
            outputs: also give the real outputs, for ``index.search(codes, weights=abs(u))`` or :meth:`distance_tables`.
            engine: "torch"; "openvino", which is faster on a CPU; "auto": openvino if it saves time.

        Returns:
            Codes whose ``ids`` are positions in ``items``; with ``outputs`` a pair of codes and u float32 [n, r].
        """
        count = item_count(items, is_vectors=self.feature_width is not None)
        batches = self._batches(items, batch_size, workers, on_bad_image)
        if progress:
            batches = track(batches, count or 0, "encoding", "items", lambda batch: len(batch.rows))
        found = self.run(batches, engine=engine, images=count)
        if not outputs:
            return self.encode_outputs(found)
        kept = list(found)
        u = np.concatenate([part for _, part in kept]) if kept else np.zeros((0, self.bits), np.float32)
        return self.encode_outputs(kept), u

    def quantised(
        self, images: Any, *, batch_size: int = 32, workers: int | None = None, on_bad_image: OnBadImage = "fail"
    ) -> "Hasher":
        """An INT8 model of this one, which OpenVINO runs faster on CPUs; its codes must not be mixed with this model's.

        Args:
            images: as for :meth:`encode`, 100 or more, similar to those to be encoded; training images, never queries.
            batch_size: images that go through the network at once.
            workers, on_bad_image: as for :meth:`encode`.
        """
        return self.quantised_on(self._batches(images, batch_size, workers, on_bad_image))

    def quantised_on(self, batches: Iterable[Batch]) -> "Hasher":
        """As :meth:`quantised`, on ``batches`` of images."""
        if self.preprocess is None:
            raise ModelError("INT8 is for models of images; this model takes embeddings.")
        if self.quantisation is not None:
            raise ModelError("This model is an INT8 model already; quantise the float32 model that it was made of.")
        network, quantisation = calibrate(self.network, self.preprocess.size, (batch.inputs for batch in batches))
        return replace(self, network=network, quantisation=quantisation, info=dict(self.info))

    def _batches(self, items: Any, batch_size: int, workers: int | None, on_bad_image: OnBadImage) -> Iterable[Batch]:
        check_loading(batch_size, workers, on_bad_image)
        sources = item_sources(items, 8 * batch_size, is_vectors=self.feature_width is not None)
        return item_batches(self.check_fits, sources, self.preprocess, batch_size, workers, on_bad_image)

    def encode_outputs(self, outputs: Iterable[tuple[np.ndarray, np.ndarray]], network: Network | None = None) -> Codes:
        """Codes of (rows [B], u [B, r]) pairs, with the row numbers as ids.

        Args:
            outputs: such as :func:`scdh.runs.encoding.hash_outputs_of_rows` gives.
            network: the network that computed them; None: this model's own.
        """
        network = network or self.network
        metadata = ranking_metadata(self.method.ranking)
        pieces = [Codes.from_signs(self.method.signs(network, u), rows, metadata) for rows, u in outputs]
        if not pieces:
            return Codes.from_signs(np.zeros((0, self.bits), np.float32), np.zeros(0, np.int64), metadata)
        return Codes.concatenate(pieces)

    def hash_outputs(self, items: Any, *, batch_size: int = 128, workers: int | None = None) -> np.ndarray:
        """u float32 [n, r], the real outputs whose signs are the codes (for DQN [n, bottleneck], whose words are).

        Args:
            items: as for :meth:`encode`.
            batch_size, workers: as for :meth:`encode`.
        """
        return self.encode(items, batch_size=batch_size, workers=workers, outputs=True)[1]

    def distance_tables(self, queries: np.ndarray | Codes) -> Callable[[slice], np.ndarray]:
        """For a method with a distance of its own, such as DQN: the ``byte_tables`` of ``HammingIndex.search``.

        Args:
            queries: u [q, r] as :meth:`hash_outputs` gives it; or codes, if their outputs are unknown.

        Returns:
            A function of a slice of the queries that gives their tables [m, bytes, 256].
        """
        u = self.method.outputs_of_codes(self.network, queries) if isinstance(queries, Codes) else queries
        return lambda rows: self.method.distance_tables(self.network, u[rows])

    def check_fits(self, source: Source) -> None:
        """Raise a DataError if ``source`` has the wrong kind or width, before any work is done."""
        check_source(source, self.feature_width)

    def save(self, folder: str | Path) -> None:
        """Write a model folder: weights as safetensors, everything else as JSON, and a model card.

        Args:
            folder: a new folder, or one with an older model, which is replaced in one step; other folders raise an
                error.
        """
        write_model(folder, self)

    @classmethod
    def load(cls, folder_or_hub_id: str | Path, *, device: str | None = None) -> "Hasher":
        """Read a model; weights are safetensors and the rest is JSON, so loading never unpickles.

        Args:
            folder_or_hub_id: a folder that :meth:`save` wrote, a run's folder, or ``hf:owner/name`` on the hub.
            device: "cpu", "cuda", "cuda:1" … or "mps"; None or "auto": a GPU if there is one.
        """
        target, folder = find_device(device), find_model_folder(folder_or_hub_id)
        with open_model(folder) as stored:
            description = stored.description
            given = {entry: description[entry] for entry in ("label_names", "multi_label", "feature_width")}
            model = stored.load(partial(cls.build, stored.config(), **given, pretrained=False))
            preprocess, model.info = description["preprocess"], description["info"]
            model.preprocess = None if preprocess is None else Preprocess.from_dict(preprocess)
            model.quantisation = stored.quantisation(model.network)
        model.network.to(target).eval()
        return model

    save_pretrained = save
    from_pretrained = load

    def push_to_hub(self, repo_id: str, *, private: bool = False, token: str | None = None) -> str:
        """Upload the model folder to the Hugging Face hub; ``Hasher.load("hf:owner/name")`` reads it back.

        Args:
            repo_id: "owner/name" of the repository, with or without ``hf:``.
            private: whether a new repository is private.
            token: of the hub account; None: of the account that is logged in.

        Returns:
            The address of the upload.
        """
        return upload_saved(self.save, repo_id, private, token)

"""The engines that compute codes: torch, or the same network exported to OpenVINO, which is faster on CPUs.

The exported network is used if OpenVINO is installed, its codes agree with those of torch, and there are enough images
to pay for the export, or for reading a cached one. Codes of both engines have the same fingerprint and can be mixed: at
most 0.1 % of their bits may differ, and almost none do. For INT8 models the limit is 3 %, and 0.5 % differ on photos.
"""

import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch

from scdh.data.batches.batch import Batch
from scdh.errors import ConfigError, unknown_name
from scdh.extras import lack_message, missing_packages, versions
from scdh.model import Engine
from scdh.model.encode import run_exported, run_network
from scdh.nets.export.agreement import differing_bits, most_differing, trial_images
from scdh.nets.export.cache import CachedGraph
from scdh.nets.export.graph import ExportedNetwork, ExportError, convert
from scdh.nets.folding import fold_batch_norm
from scdh.nets.int8.layers import round_layers
from scdh.nets.network import Network, weights_state

if TYPE_CHECKING:
    from scdh.model.hasher import Hasher

# The numbers of images from which "auto" exports a network, or reads an earlier export. With efficientnet_lite0 at 224²
# on two cores that takes 3.6 and 0.5 s, and each image then takes 3 ms less than in torch.
ENOUGH_TO_EXPORT, ENOUGH_TO_READ = 1000, 200
TRIALS, FEW_TRIALS = 64, 4  # images on which codes are compared after exporting, and after reading a cached export


class Engines:
    """The forms in which the network of a model encodes, each rebuilt when the weights have changed."""

    def __init__(self) -> None:
        self._folded: tuple[Any, Network] | None = None
        self._exported: tuple[Any, ExportedNetwork | str] | None = None  # or the reason why it cannot be used

    def run(
        self, model: "Hasher", batches: Iterable[Batch], engine: Engine, images: int | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(rows [B], u [B, r]) of every batch."""
        exported = self.exported(model, engine, images)
        if exported is None:
            return run_network(self.folded(model), batches, model.method.hash_outputs)
        return run_exported(exported, batches)

    def folded(self, model: "Hasher") -> Network:
        """A copy of the network with batch-norm folded away, and rounded if it is INT8; for embeddings the network
        itself."""
        if model.preprocess is None:
            return model.network
        state = weights_state(model.network)
        if self._folded is None or self._folded[0] != state:
            folded = fold_batch_norm(model.network, model.preprocess.size)
            rounded = folded if model.quantisation is None else round_layers(folded, model.quantisation)
            self._folded = (state, rounded)
        return self._folded[1]

    def exported(self, model: "Hasher", engine: Engine = "auto", images: int | None = None) -> ExportedNetwork | None:
        """The network in OpenVINO; None if torch computes.

        Raises:
            ConfigError: if ``engine`` is "openvino" and it cannot be used.
        """
        if engine not in get_args(Engine):
            raise ConfigError(unknown_name("engine", engine, get_args(Engine)))
        if engine == "torch":
            return None
        state = weights_state(model.network), model.preprocess, torch.get_num_threads()
        if self._exported is None or self._exported[0] != state:
            if problem := _unsuited(model):
                if engine == "openvino":
                    raise ConfigError(problem)
                return None
            cached = CachedGraph(_about(model))
            enough = ENOUGH_TO_READ if cached.exists() else ENOUGH_TO_EXPORT
            if engine == "auto" and images is not None and images < enough:
                return None
            self._exported = state, self._export(model, cached)
            if engine == "auto" and isinstance(self._exported[1], str):
                warnings.warn(f"{self._exported[1]}; torch computes instead.", stacklevel=2)
        found = self._exported[1]
        if engine == "openvino" and isinstance(found, str):
            raise ConfigError(f"{found}.")
        return None if isinstance(found, str) else found

    def _export(self, model: "Hasher", cached: CachedGraph) -> ExportedNetwork | str:
        """The exported network, or the reason why not, as a sentence without its full stop."""
        assert model.preprocess is not None  # _unsuited() checks it
        size, threads = model.preprocess.size, torch.get_num_threads()
        # A float network is exported unfolded, because OpenVINO folds it itself.
        net = model.network if model.quantisation is None else self.folded(model)
        most = most_differing(is_int8=model.quantisation is not None)
        if (graph := cached.read()) is not None:
            try:
                found = ExportedNetwork(graph, size, threads)
                # With few images a single bit exceeds the allowed share, so more images decide, as after exporting.
                if any(_differing_bits(model, net, found, count) <= most for count in (FEW_TRIALS, TRIALS)):
                    return found
            except ExportError:
                pass
            cached.remove()  # the code has changed, or checksums miss the damage
        try:
            graph = convert(net, model.method.hash_outputs, size)
            found = ExportedNetwork(graph, size, threads)
            share = _differing_bits(model, net, found, TRIALS)
        except ExportError as error:
            return f"This network cannot be exported to OpenVINO ({error})"
        if share > most:
            return f"The network exported to OpenVINO gives other codes than torch ({share:.2%} of the bits differ)"
        cached.write(graph)
        return found


def _unsuited(model: "Hasher") -> str | None:
    """The reason why torch must compute a model; None if there is none."""
    if model.preprocess is None:
        return "The engine openvino is for images; this model takes embeddings."
    if model.network.device.type != "cpu":
        return f"The engine openvino computes on CPUs; this model is on {model.network.device}."
    if missing := missing_packages("openvino"):
        return lack_message("The engine openvino", *missing)
    return None


def _about(model: "Hasher") -> dict[str, Any]:
    """Everything that determines the graph. Code counts by its version only, so cached graphs are compared with torch
    again.
    """
    assert model.preprocess is not None
    return {
        "weights": model.fingerprint(),
        "preprocess": model.preprocess.to_dict(),
        "net": model.config.net.model_dump(mode="json"),
        "method": model.config.method.model_dump(mode="json"),
        "versions": {**versions(), "openvino": version("openvino")},
    }


def _differing_bits(model: "Hasher", net: Network, exported: ExportedNetwork, count: int) -> float:
    """Share of the bits of ``count`` images in which the exported network and ``net`` in torch differ."""
    assert model.preprocess is not None
    images, rows = trial_images(model.preprocess.size, count), torch.arange(count)
    batch, was_training = Batch(images, torch.full_like(rows, -1), rows), net.training
    (_, expected), *_ = run_network(net, [batch], model.method.hash_outputs)
    net.train(was_training)
    (_, found), *_ = run_exported(exported, [batch])
    return differing_bits(*(model.method.signs(model.network, u) for u in (expected, found)))

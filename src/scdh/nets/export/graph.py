"""A network as a graph of OpenVINO: converted from torch once, and run by OpenVINO on CPUs.

OpenVINO was faster than onnxruntime. Measured with efficientnet_lite0 and its head in float32, batches of 32, on two
cores of an AMD EPYC (Zen 4) under other load, each in its best setting, as images per second relative to eager torch:
OpenVINO 1.8 at 128², 1.9 at 160², 1.9 at 224²; onnxruntime 1.3, 1.3, 1.4; the folded network in torch 0.6 to 1.2. A
single image of 224²: 2.6 and 2.1. OpenVINO compiles its kernels for the processor (SSE4.2, AVX2 or AVX-512; measured on
the last only), has the Apache licence, and converts torch networks without further packages, whereas onnxruntime needs
onnx. It takes 180 MB of disk; onnxruntime and onnx take 100 MB.

Several threads with a piece of the batch each are faster than several threads within each layer. Only if there are
fewer images than threads do all threads work on each layer. Pieces of a fixed size run 5 % faster than those of any
size.
"""

import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from scdh.nets.network import Network, Outputs

PIXELS = 8 * 128 * 128  # per piece of a thread; larger pieces do not fit the processor's cache
_TELEMETRY = "openvino_telemetry"
_import_lock = threading.Lock()


def import_openvino() -> Any:
    """The module ``openvino``, imported without its telemetry.

    ``import openvino`` by itself sends an event with an id of the user to Google Analytics and writes that id to the
    home folder, unless the user has opted out. If the package ``openvino_telemetry`` is missing, it does neither, so
    that package is hidden during the import. If the user's own program has imported OpenVINO before, nothing changes.
    """
    with _import_lock:
        if "openvino" in sys.modules:
            return import_module("openvino")
        hidden: dict[str, ModuleType] = {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if name == _TELEMETRY or name.startswith(f"{_TELEMETRY}.")
        }
        sys.modules[_TELEMETRY] = None  # type: ignore[assignment]  # makes the import of it fail
        try:
            return import_module("openvino")
        finally:
            del sys.modules[_TELEMETRY]
            sys.modules.update(hidden)


@cache
def _core() -> Any:
    """The one OpenVINO core of the process, which is never freed.

    A core replaces the stack on which the signal handlers of the thread run, and frees it when it is freed itself. If
    two cores are freed in the order in which they were made, the thread is left with a freed stack, and the next signal
    that Python handles (Ctrl-C, the end of a loader's process) is a segmentation fault.
    """
    return import_openvino().Core()


class ExportError(Exception):
    """A network cannot be exported, or its graph cannot be run; the text says why, as a part of a sentence."""


@dataclass(frozen=True, eq=False)
class Graph:
    """A network as OpenVINO stores it: ``structure`` is XML as uint8 [n], ``weights`` uint8 [m] belong to it."""

    structure: np.ndarray
    weights: np.ndarray


class _WithReading(nn.Module):
    """uint8 images with the channels last → what a method reads from the network's outputs."""

    def __init__(self, net: Network, read: Callable[[Outputs], Tensor]) -> None:
        super().__init__()
        self.net, self.read = net, read

    def forward(self, images: Tensor) -> Tensor:
        return self.read(self.net(images.permute(0, 3, 1, 2))).float()


def convert(net: Network, read: Callable[[Outputs], Tensor], size: int) -> Graph:
    """The graph of uint8 images [B, size, size, 3] → ``read(net(images))`` as float32 [B, r].

    Raises:
        ExportError: if OpenVINO cannot do what the network does.
    """
    with _as_export_error(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing warns that sizes are treated as constants, which they are
        openvino = import_openvino()
        from openvino.frontend import FrontEndManager
        from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder
        from openvino.passes import ConstantFolding, Manager

        example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
        frontend = FrontEndManager().load_by_framework("pytorch")
        was_training = net.training
        try:
            with torch.no_grad():
                traced = TorchScriptPythonDecoder(_WithReading(net, read).eval(), example_input=(example,))
                model = frontend.convert(frontend.load(traced))
        finally:
            net.train(was_training)
        if len(model.inputs) != 1 or len(model.outputs) != 1:
            raise ExportError("its graph has not one input and one output")
        model.reshape([-1, size, size, 3])
        # The limits between which an INT8 network rounds must be constants, else OpenVINO computes with floats.
        passes = Manager()
        passes.register_pass(ConstantFolding())
        passes.run_passes(model)
        with tempfile.TemporaryDirectory() as folder:  # it writes only to files
            structure, weights = Path(folder, "graph.xml"), Path(folder, "graph.bin")
            openvino.serialize(model, structure, weights)
            return Graph(np.fromfile(structure, np.uint8), np.fromfile(weights, np.uint8))


class ExportedNetwork:
    """A graph that is ready to run; several threads may call it at once.

    Raises:
        ExportError: if the graph cannot be read.
    """

    def __init__(self, graph: Graph, size: int, threads: int) -> None:
        self.size, self.threads = size, threads
        self.piece = max(1, 1 << (PIXELS // (size * size)).bit_length() - 1)
        with _as_export_error():
            self._model = _core().read_model(graph.structure.tobytes(), import_openvino().Tensor(graph.weights))
            self._weights = graph.weights  # the model does not copy them

    def __call__(self, images: Tensor) -> np.ndarray:
        """uint8 images [B, 3, size, size] → float32 [B, r]."""
        pixels = np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy())
        if len(pixels) == self.piece:
            return self._full_pieces.run(pixels)
        return self._other_pieces.run(pixels)

    def alone(self, images: Tensor) -> np.ndarray:
        """As ``__call__``, with all threads in each layer: for a few images."""
        return self._single.run(np.ascontiguousarray(images.permute(0, 2, 3, 1).numpy()))

    @cached_property
    def _full_pieces(self) -> "_Requests":
        return self._compiled(self.piece, self.threads)

    @cached_property
    def _other_pieces(self) -> "_Requests":
        return self._compiled(-1, self.threads)

    @cached_property
    def _single(self) -> "_Requests":
        return self._compiled(-1, 1)

    def _compiled(self, batch: int, streams: int) -> "_Requests":
        settings = {
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": streams,
            # By default it computes with 16 bits if the processor can, which changes about 1 % of the bits.
            "INFERENCE_PRECISION_HINT": "f32",
        }
        with _as_export_error():
            model = self._model.clone()
            model.reshape([batch, self.size, self.size, 3])
            return _Requests(_core().compile_model(model, "CPU", settings), streams)


class _Requests:
    """The requests that may run at once; each has its own memory."""

    def __init__(self, compiled: Any, count: int) -> None:
        self._free: SimpleQueue[Any] = SimpleQueue()
        for _ in range(count):
            self._free.put(compiled.create_infer_request())

    def run(self, pixels: np.ndarray) -> np.ndarray:
        request = self._free.get()
        try:
            return np.array(request.infer({0: pixels}, share_inputs=True)[0], np.float32)
        finally:
            self._free.put(request)


@contextmanager
def _as_export_error() -> Iterator[None]:
    """OpenVINO raises many classes of errors, with many lines about its own source files."""
    try:
        yield
    except (ExportError, MemoryError):
        raise
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        useful = [line for line in lines if not line.startswith(("Exception from", "Check '"))] or lines
        raise ExportError((useful[0] if useful else type(error).__name__)[:200].rstrip(".:")) from error

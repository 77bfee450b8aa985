"""Encode images or embeddings: decode in separate processes, then run the network in micro-batches."""

import asyncio
import io
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import torch
from PIL import Image

from scdh.codes import HAMMING, Codes, ranking_metadata
from scdh.data.batches.batch import Batch
from scdh.data.source import BadImage
from scdh.errors import CodesError, ConfigError
from scdh.index.kernels.threads import usable_cores
from scdh.model import Engine
from scdh.model.hasher import Hasher
from scdh.nets.quantisation import FLOAT32, INT8
from scdh.serve.admission import Admission
from scdh.serve.batching import Batcher
from scdh.serve.decoding import Decoders
from scdh.serve.request_errors import bad_image, invalid
from scdh.serve.settings import MOST_QUERIES, Limits

DECODERS = min(4, usable_cores())


@dataclass(frozen=True, eq=False)
class Encoded:
    """Codes of n inputs, and the real outputs u float32 [n, r] they were read from; None where these are not known."""

    codes: Codes
    outputs: np.ndarray | None


class Encoder:
    """A model that encodes the inputs of requests.

    Args:
        hasher: the model.
        limits: of images and pixels.
        observe_batch: is called with the size of each batch.
        observe_queue: is called with the number of images that are waiting or being encoded.
        engine: what computes, as for :meth:`scdh.Hasher.encode`.
        bits: how many first bits of the codes are searched; None: all.
    """

    def __init__(
        self,
        hasher: Hasher,
        limits: Limits,
        observe_batch: Callable[[int], object] = lambda _: None,
        observe_queue: Callable[[int], object] = lambda _: None,
        engine: Engine = "auto",
        bits: int | None = None,
    ) -> None:
        self.hasher = hasher
        self.bits = bits or hasher.bits
        self._limits = limits
        self._engine = engine
        self.takes_images, self.ranking = hasher.preprocess is not None, hasher.method.ranking
        self.code_metadata = ranking_metadata(self.ranking)
        self._decoders = None if hasher.preprocess is None else Decoders(hasher.preprocess, limits.pixels, DECODERS)
        self._waiters = ThreadPoolExecutor(DECODERS, thread_name_prefix="decode")  # each waits for one process
        self._runner = ThreadPoolExecutor(1, thread_name_prefix="encode")
        self._admission = Admission(limits.waiting_images, "images", observe_queue)
        self._batcher: Batcher[np.ndarray, np.ndarray] = Batcher(
            self._run, self._runner, limits.batch if self.takes_images else MOST_QUERIES, observe_batch
        )

    async def images(self, files: Sequence[BinaryIO]) -> Encoded:
        """Codes of the image files of one request; RequestError if one cannot be used, or too many are waiting."""
        if not self.takes_images:
            raise invalid("This model takes embeddings, not images; send vectors as JSON.")
        if not 1 <= len(files) <= self._limits.images:
            raise invalid(f"Send 1 to {self._limits.images} images in the field 'image', got {len(files)}.")
        loop = asyncio.get_running_loop()
        with self._admission.admit(len(files)):
            decoding = [
                loop.run_in_executor(
                    self._waiters, self._decoded, file, f"number {number}" if files[1:] else "that was sent"
                )
                for number, file in enumerate(files, start=1)
            ]
            return self._encoded(await self._batcher.run(await _all(decoding)))

    async def vectors(self, vectors: Sequence[Sequence[float]]) -> Encoded:
        """Codes of the embeddings of one request."""
        width = self.hasher.feature_width
        if width is None:
            raise invalid("This model takes images, not embeddings; send them to /v1/search/image.")
        for number, vector in enumerate(vectors, start=1):
            if len(vector) != width:
                raise invalid(f"Vectors must have {width} numbers, but vector {number} has {len(vector)}.")
        with np.errstate(over="ignore"):
            rows = np.asarray(vectors, np.float32)
        if not np.isfinite(rows).all():
            raise invalid("Vectors must have finite numbers that fit into 32 bits.")
        with self._admission.admit():
            return self._encoded(await self._batcher.run(list(rows)))

    def stored(self, codes: Codes) -> Encoded:
        """Queries known by their codes only; with the outputs that the codes stand for, if the method has its own
        distance.
        """
        codes = Codes(codes.packed, codes.bits, metadata=self.code_metadata)
        if self.ranking == HAMMING:
            return Encoded(codes, None)
        try:
            return Encoded(codes, self.hasher.method.outputs_of_codes(self.hasher.network, codes))
        except ConfigError as error:  # a method that gives none
            raise invalid(str(error)) from None

    def describe(self) -> dict[str, Any]:
        """The public description of the model."""
        hasher = self.hasher
        return {
            "method": hasher.config.method.name,
            "bits": self.bits,
            "ranking": self.ranking,
            "backbone": hasher.config.net.backbone if self.takes_images else None,
            "fingerprint": hasher.fingerprint(),
            "input": "images" if self.takes_images else "embeddings",
            "width": hasher.feature_width,
            "learned_labels": hasher.method.needs_labels,
            "precision": FLOAT32 if hasher.quantisation is None else INT8,
        }

    def warm(self) -> None:
        """Start the decoders, and run the network as requests will: on one input, on a batch that is not a whole number
        of pieces, and on a full batch. The engine may have separate code for each.
        """
        if self.hasher.preprocess is None:
            example = np.zeros(self.hasher.feature_width or 1, np.float32)
        else:
            file = io.BytesIO()
            Image.new("RGB", (64, 64)).save(file, "JPEG")
            files = [io.BytesIO(file.getvalue()) for _ in range(DECODERS)]
            example = next(iter(self._waiters.map(self._decoded, files, ["to warm up with"] * DECODERS)))
        for count in (1, min(5, self._limits.batch), self._limits.batch):
            self._encoded(self._runner.submit(self._run, [example] * count).result())

    async def close(self) -> None:
        await self._batcher.finish()
        self._waiters.shutdown(wait=False, cancel_futures=True)
        if self._decoders is not None:
            self._decoders.close()
        self._runner.shutdown(wait=False)

    def _decoded(self, file: BinaryIO, where: str) -> np.ndarray:
        """The input of the network, uint8 [3, size, size]; ``where`` says which image it is."""
        assert self._decoders is not None
        try:
            return self._decoders.decode(file.read(), where)
        except BadImage as error:
            raise bad_image(str(error)) from None

    def _run(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """u [r] of each input."""
        if self.takes_images:  # with the channels last in memory, which convolutions prefer
            values = torch.from_numpy(np.stack([image.transpose(1, 2, 0) for image in inputs])).permute(0, 3, 1, 2)
        else:
            values = torch.from_numpy(np.stack(inputs))
        rows = torch.arange(len(inputs))
        batch = Batch(values, torch.full_like(rows, -1), rows)
        outputs = self.hasher.run([batch], engine=self._engine)  # compiled: a service runs for long
        return [u for _, values_of_batch in outputs for u in values_of_batch]

    def _encoded(self, outputs: list[np.ndarray]) -> Encoded:
        u = np.stack(outputs)
        try:
            codes = self.hasher.encode_outputs([(np.arange(len(u)), u)]).truncate(self.bits)
        except CodesError as error:
            raise invalid(f"The model gives no code for this input ({str(error).rstrip('.')}).") from None
        u = u[:, : self.bits] if self.ranking == HAMMING else u
        return Encoded(Codes(codes.packed, codes.bits, metadata=codes.metadata), u)


async def _all(futures: "list[asyncio.Future[np.ndarray]]") -> list[np.ndarray]:
    """All results; after an error, does not wait for the rest."""
    try:
        return list(await asyncio.gather(*futures))
    except BaseException:
        for future in futures:
            future.cancel()
        raise

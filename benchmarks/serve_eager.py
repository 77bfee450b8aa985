"""Torch as people call it: the network as its training left it, one photo after the other.

``python -m benchmarks.serve_eager MODEL PHOTOS SECONDS THREADS`` prints JSON: the code of each photo of the folder, and
the seconds of each call for as long as was asked for. A process of its own, with no other library's threads in it.
"""

import io
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from scdh.model.hasher import Hasher


class EagerModel:
    """A model without anything that makes it faster."""

    def __init__(self, folder: str | Path) -> None:
        hasher = Hasher.load(folder)
        self.method, self.network = hasher.method, hasher.network.eval()
        assert hasher.preprocess is not None
        self.preprocess = hasher.preprocess

    def packed(self, content: bytes) -> np.ndarray:
        """The code of an image file, uint8 [1, bytes]."""
        pixels = self.preprocess.evaluation_image(Image.open(io.BytesIO(content)).convert("RGB"))
        with torch.inference_mode():
            u = self.method.hash_outputs(self.network(torch.from_numpy(pixels.copy())[None]))
        return np.packbits(u.numpy() >= 0, axis=1)


def main(model: str, folder: str, seconds: float, threads: int) -> None:
    torch.set_num_threads(threads)
    eager = EagerModel(model)
    photos = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    codes = [eager.packed(content)[0].tobytes().hex() for content in photos]  # also warms it up
    latencies: list[float] = []
    begun = time.perf_counter()
    while (start := time.perf_counter()) - begun < seconds:
        eager.packed(photos[len(latencies) % len(photos)])
        latencies.append(time.perf_counter() - start)
    print(json.dumps({"codes": codes, "latencies": latencies, "seconds": time.perf_counter() - begun}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))

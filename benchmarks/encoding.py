"""Photos to codes with decoding: OpenVINO against eager torch as people write it, and against torch as scdh runs it.

All decode the same JPEGs in the same way (large ones at a fraction of their size); eager torch decodes and
computes in turn in one process, with all threads within each layer. They take turns; the ratio of the medians counts.
"""

import io
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image

from benchmarks.timing import Row, Table, print_row
from scdh.config import load_config
from scdh.data.images.decode import decode
from scdh.model.hasher import Hasher
from scdh.nets.export.agreement import differing_bits

EAGER_BATCH = 64


@dataclass(frozen=True)
class Plan:
    """``photos``: (width, height, how many) of JPEGs."""

    photos: tuple[tuple[int, int, int], ...] = ((160, 160, 1024), (4000, 3000, 256))
    size: int = 160
    repeats: int = 3


QUICK = Plan(photos=((160, 160, 128), (4000, 3000, 8)), repeats=1)


def photo(width: int, height: int, seed: int) -> bytes:
    """A JPEG with detail at every scale and some noise, so that it has the bytes of a photo: about 2 bits a pixel."""
    rng = np.random.default_rng(seed)
    values = rng.normal(128, 4, (height, width, 3)).astype(np.float32)
    for scale in (8, 32, 128, 512):
        rows = max(2, min(height, height * scale // width))
        coarse = rng.normal(0, 60 / (scale / 8) ** 0.5, (3, rows, min(scale, width))).astype(np.float32)
        channels = [Image.fromarray(c).resize((width, height), Image.Resampling.BICUBIC) for c in coarse]
        values += np.stack([np.asarray(channel) for channel in channels], axis=-1)
    buffer = io.BytesIO()
    Image.fromarray(values.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def eager_codes(hasher: Hasher, photos: list[bytes]) -> np.ndarray:
    """u [n, r] as people write it."""
    preprocess, found = hasher.preprocess, []
    assert preprocess is not None
    model = hasher.network.eval()
    for start in range(0, len(photos), EAGER_BATCH):
        images = [decode(data, "", preprocess.needed_side()) for data in photos[start : start + EAGER_BATCH]]
        pixels = np.stack([preprocess.evaluation_image(image) for image in images])
        with torch.inference_mode():
            found.append(model(preprocess.normalise(torch.from_numpy(pixels))).u.numpy())
    return np.concatenate(found)


def measure(plan: Plan) -> list[Table]:
    rows = [row for photos in plan.photos for row in speed(plan, *photos)]
    about = (
        f"efficientnet_lite0 at {plan.size}², 64 bits, JPEGs in memory, with decoding; median of {plan.repeats} turns. "
        "Eager torch: one process, a batch of 64, batch-norm as it is."
    )
    return [Table("Photos to codes", about, rows)]


def speed(plan: Plan, width: int, height: int, count: int) -> list[Row]:
    torch.manual_seed(0)
    settings = {"net.image_size": plan.size, "method.bits": 64}
    hasher = Hasher.build(load_config(overrides=settings), ["a", "b"], False, None)
    hasher.network.eval()
    different = [photo(width, height, seed) for seed in range(max(2, min(count, 10**6 // (width * height))))]
    photos = [different[number % len(different)] for number in range(count)]
    outputs: dict[str, np.ndarray] = {}

    def keep(name: str, u: np.ndarray) -> None:
        outputs[name] = u

    ways: dict[str, Callable[[], None]] = {
        "eager torch": lambda: keep("eager torch", eager_codes(hasher, photos)),
        "scdh, torch, no processes": lambda: keep(
            "torch", hasher.encode(photos, engine="torch", workers=0, outputs=True)[1]
        ),
        "scdh, torch": lambda: keep("torch", hasher.encode(photos, engine="torch", outputs=True)[1]),
        "scdh, openvino": lambda: keep("openvino", hasher.encode(photos, engine="openvino", outputs=True)[1]),
    }
    begun = time.perf_counter()
    hasher.encode(photos[:2], engine="openvino")
    export = time.perf_counter() - begun
    eager_codes(hasher, photos[:2])
    hasher.encode(photos[:2], engine="torch")
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(plan.repeats):
        for name, work in ways.items():
            begun = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - begun)
    rates = {name: count / statistics.median(taken) for name, taken in times.items()}
    rows: list[Row] = []
    for name in ways:
        row: Row = {"photos": f"{width}×{height}", "who": name, "images/s": rates[name]}
        row["ratio"] = rates[name] / rates["eager torch"]
        row["bits that differ from eager torch, %"] = 100 * differing_bits(
            outputs["eager torch"], outputs[name.removeprefix("scdh, ").partition(",")[0]]
        )
        row["first export, s"] = export if name == "scdh, openvino" else "-"
        rows.append(row)
        print_row("encode", row)
    return rows

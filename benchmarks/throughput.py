"""Does the data path brake the network? Images per second of training and encoding against the bare network.

The rival is the same network fed with tensors that are already decoded, resized and normalised. Both take turns in one
process, so that other work on the machine hits both; the ratio of the medians is the result.
"""

import io
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from scdh.config import load_config
from scdh.data.batches.loaders import Batch, evaluation_batches, training_batches
from scdh.data.batches.sampling import steps_per_epoch
from scdh.data.open import open_source
from scdh.data.source import Source
from scdh.methods.base import START, MethodData
from scdh.model.hasher import Hasher
from scdh.runs.encoding import encode_rows
from scdh.training.device import make_accelerator
from scdh.training.loop import TrainingStep, train_epochs
from scdh.training.optim import build_optimiser


def made_up_photos(folder: Path, count: int) -> Source:
    """JPEGs of 32×32 in a parquet file as CIFAR-10 comes: smooth pictures, so that they compress like photos."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    encoded = []
    for _ in range(count):
        coarse = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
        buffer = io.BytesIO()
        Image.fromarray(coarse).resize((32, 32), Image.Resampling.BICUBIC).save(buffer, "JPEG")
        encoded.append({"bytes": buffer.getvalue(), "path": None})
    pq.write_table(pa.table({"image": encoded, "label": [i % 10 for i in range(count)]}), folder / "photos.parquet")
    return open_source(str(folder / "photos.parquet"))


def measure(
    data: str | None = None, root: str | None = None, size: int = 128, images: int = 640, repeats: int = 5
) -> list[dict[str, float | str]]:
    with tempfile.TemporaryDirectory() as scratch:
        source = made_up_photos(Path(scratch), images) if data is None else open_source(data, root=root)
        rows = np.random.default_rng(0).choice(len(source), images, replace=False)
        return [training(source, rows, size, repeats), *encoding(source, rows, size, repeats)]


def training(source: Source, rows: np.ndarray, size: int, repeats: int) -> dict[str, float | str]:
    config = load_config(
        overrides={
            "net.image_size": size,
            "train.epochs": 1,
            "train.batch_size": 64,
            "train.augmentation": "shift",
            "train.optimiser": "adamw",
            "train.lr_trunk": 1e-5,
            "train.lr_head": 1e-5,
        }
    )
    hasher = Hasher.build(config, source.label_names, source.multi_label, None)
    accelerator, batch_size = make_accelerator("fp32"), config.train.batch_size
    count = steps_per_epoch(len(rows), batch_size)

    def batches(epoch: int):
        return training_batches(
            source,
            rows,
            preprocess=hasher.preprocess,
            augmentation="shift",
            batch_size=batch_size,
            seed=0,
            epoch=epoch,
            workers=config.train.workers,
        )

    ready = [Batch(hasher.preprocess.normalise(b.inputs), b.labels, b.rows) for b in batches(0)]
    net, method = hasher.network.channels_last(), hasher.method
    optimiser, step = build_optimiser(net, method, config.train), TrainingStep(net, method)
    data = MethodData(source.labels[rows], rows)

    def bare() -> None:
        net.train()
        for batch in ready:
            optimiser.zero_grad(set_to_none=True)
            step(batch, START)["loss"].backward()
            optimiser.step()

    def whole() -> None:
        train_epochs(net, method, data, batches, count, config.train, accelerator=accelerator, quiet=True)

    return _compare(f"training, {size}²", count * batch_size, bare, whole, repeats)


def encoding(source: Source, rows: np.ndarray, size: int, repeats: int) -> list[dict[str, float | str]]:
    """Against the plain network, and against one with batch-norm folded into convolutions, as in scdh's encoding."""
    config = load_config(overrides={"net.image_size": size})
    hasher = Hasher.build(config, source.label_names, source.multi_label, None)
    net = hasher.network.channels_last().eval()
    loaded = evaluation_batches(source, rows, preprocess=hasher.preprocess, batch_size=128)
    ready = [hasher.preprocess.normalise(b.inputs) for b in loaded]

    def bare(rival: torch.nn.Module) -> None:
        with torch.inference_mode():
            for inputs in ready:
                rival(inputs)

    return [
        _compare(what, len(rows), partial(bare, rival), lambda: encode_rows(hasher, source, rows), repeats)
        for what, rival in (
            (f"encoding, {size}², rival plain", net),
            (f"encoding, {size}², rival folded too", hasher.encoder()),
        )
    ]


def _compare(
    what: str, images: int, bare: Callable[[], None], whole: Callable[[], object], repeats: int
) -> dict[str, float | str]:
    bare(), whole()  # warm up: first calls build kernels and caches
    times: dict[str, list[float]] = {"bare": [], "whole": []}
    for _ in range(repeats):
        for name, work in (("bare", bare), ("whole", whole)):
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    bare_rate, whole_rate = (images / statistics.median(times[n]) for n in ("bare", "whole"))
    return {
        "what": what,
        "bare network, images/s": bare_rate,
        "whole path, images/s": whole_rate,
        "ratio": whole_rate / bare_rate,
    }

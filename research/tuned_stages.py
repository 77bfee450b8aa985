"""SCDH against MT-SCDH on CIFAR-10 with tuned convolutions: ``python -m research.tuned_stages --root CIFAR_FOLDER``.

The early stages of a pretrained efficientnet_lite0 stay frozen, and their outputs are computed once: for each image as
it is, and for a few random augmentations. The last two stages, the final convolution and the head learn on them, which
makes a step about eight times as fast as training the whole network. Student and teacher see different augmentations.
Methods, optimiser and training loop are those of ``scdh train``; both methods see the same labelled rows in every step.
A run that was stopped continues with the same command.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import scdh
from scdh.config import RunConfig
from scdh.data.batches.batch import Batch
from scdh.data.batches.loaders import evaluation_batches
from scdh.data.batches.sampling import epoch_batches
from scdh.data.batches.views import draw_versions
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.methods.base import Method, MethodData
from scdh.methods.registry import method_class
from scdh.model.hasher import Hasher
from scdh.nets.network import Network
from scdh.progress import track
from scdh.runs.protocol import protocol_of, source_of
from scdh.storage.files import replacing
from scdh.training.device import make_accelerator
from scdh.training.loop import train_epochs

FROZEN_STAGES = 5  # of seven
LABELLED_BATCH = 64
EPOCH_STEPS = 80  # about one pass over 5,000 labelled images
SETTINGS: dict[str, Any] = {
    "net.image_size": 96,
    "net.evaluation_size": None,
    "train.ema": 0.0,
    "train.recalibrate": False,
    "train.validate_every": 5,
    "train.epoch_steps": EPOCH_STEPS,
    "method.alpha": 1.0,
}


class LateStages(nn.Module):
    """The stages that learn: outputs of the frozen ones [B, C, H, W] → features [B, width]."""

    def __init__(self, trunk: Any) -> None:
        super().__init__()
        self.stages = nn.Sequential(
            *trunk.blocks[FROZEN_STAGES:], trunk.conv_head, trunk.bn2, trunk.global_pool, nn.Dropout(trunk.drop_rate)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.stages(x.float())


def build(config: RunConfig, source: Source) -> tuple[Hasher, nn.Module]:
    """The model with its late stages as trunk, and the frozen stages below them."""
    torch.manual_seed(config.seed)
    hasher = Hasher.build(config, source.label_names, source.multi_label, None)
    trunk: Any = hasher.network.trunk
    early = nn.Sequential(trunk.conv_stem, trunk.bn1, *trunk.blocks[:FROZEN_STAGES])
    hasher.network.trunk = LateStages(trunk)
    return hasher, early


def early_outputs(config: RunConfig, source: Source, folder: Path, views: int) -> list[np.ndarray]:
    """Outputs of the frozen stages [n, H, W, C] as float16: the images as they are, then augmented ones."""
    hasher, early = build(config, source)
    net = hasher.network.with_trunk(early).eval()
    rows, found = np.arange(len(source.labels)), []
    for view in range(views):
        file = folder / f"view{view}.npy"
        if not file.exists():
            batches = evaluation_batches(
                source,
                rows,
                preprocess=hasher.preprocess,
                batch_size=256,
                augmentation=config.train.augmentation if view else "none",
                random_key=(0, view) if view else None,
            )
            parts = []
            with torch.inference_mode():
                for batch in track(batches, len(rows), f"view {view + 1}/{views}", "images", len):
                    parts.append(net.features(batch.inputs).permute(0, 2, 3, 1).half().numpy())
            with replacing(file) as temporary, open(temporary, "wb") as handle:
                np.save(handle, np.concatenate(parts))
        found.append(np.load(file, mmap_mode="r"))
    return found


class EarlyBatches:
    """Batches of cached outputs, in the order in which ``scdh train`` would draw the images."""

    def __init__(
        self, config: RunConfig, method: Method, source: Source, protocol: Protocol, versions: list[np.ndarray]
    ) -> None:
        self.config = config
        self.versions = versions
        self.protocol = protocol
        self.labels = np.full(len(source.labels), -1, np.int64)
        self.labels[protocol.train] = source.labels[protocol.train]
        self.unlabelled = protocol.unlabelled if method.learns_from_unlabelled else None
        self.views = method.views

    def __call__(self, epoch: int) -> Iterator[Batch]:
        train, seed = self.config.train, self.config.seed
        order, uses = epoch_batches(
            self.labels,
            self.protocol.train,
            batch_size=train.batch_size,
            seed=seed,
            epoch=epoch,
            unlabelled=self.unlabelled,
            labelled_share=LABELLED_BATCH / train.batch_size if self.unlabelled is not None else 0.5,
            steps=train.epoch_steps,
        )
        for rows, earlier in zip(order, uses, strict=True):
            inputs = [self._view(rows, earlier, (seed, epoch), view) for view in range(self.views)]
            labels = torch.from_numpy(self.labels[rows])
            yield Batch(inputs[0], labels, torch.from_numpy(rows), tuple(inputs[1:]))

    def _view(self, rows: np.ndarray, earlier: np.ndarray, key: tuple[int, int], view: int) -> Tensor:
        drawn = draw_versions(len(self.versions), rows, earlier, key, view)
        values = np.stack([self.versions[version][row] for version, row in zip(drawn, rows, strict=True)])
        return torch.from_numpy(values).permute(0, 3, 1, 2).float()


def encode(net: Network, outputs: np.ndarray, rows: np.ndarray) -> scdh.Codes:
    net.eval()
    parts = []
    with torch.inference_mode():
        for start in range(0, len(rows), 512):
            values = torch.from_numpy(outputs[rows[start : start + 512]]).permute(0, 3, 1, 2)
            parts.append(net(values).u.numpy())
    return scdh.Codes.from_signs(np.concatenate(parts))


def run(config: RunConfig, source: Source, versions: list[np.ndarray], *, scores_queries: bool) -> dict[str, Any]:
    """Train one model; MAP of the validation rows by epoch, and at the end of the queries, if asked for."""
    protocol = protocol_of(config, source)
    hasher, _ = build(config, source)
    labels = source.labels

    def validate(net: Network) -> float:
        codes = encode(net, versions[0], protocol.validation)
        return scdh.evaluate(codes, labels[protocol.validation], codes, labels[protocol.validation]).map

    data = EarlyBatches(config, hasher.method, source, protocol, versions)
    trained = train_epochs(
        hasher.network,
        hasher.method,
        MethodData(labels[protocol.train], protocol.train),
        data,
        EPOCH_STEPS,
        config.train,
        accelerator=make_accelerator(config.train.precision),
        validate=validate if len(protocol.validation) else None,
        quiet=False,
    )
    result: dict[str, Any] = {"history": trained.progress.history}
    if scores_queries:
        database = encode(trained.net, versions[0], protocol.database)
        query = encode(trained.net, versions[0], protocol.query)
        result["map"] = scdh.evaluate(query, labels[protocol.query], database, labels[protocol.database]).map
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--root", required=True, help="folder with CIFAR-10's binary files")
    parser.add_argument("--out", type=Path, default=Path("runs/tuned-stages"))
    parser.add_argument("--methods", nargs="+", default=["scdh", "mt_scdh"])
    parser.add_argument("--bits", type=int, nargs="+", default=[12, 24, 32, 48])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--views", type=int, default=5)
    parser.add_argument(
        "--validation", type=int, default=0, help="rows per class held out; queries are not scored then"
    )
    parser.add_argument("--set", dest="settings", nargs="*", default=[], help="settings such as method.weight=5")
    options = parser.parse_args()
    for bits in options.bits:
        for seed in options.seeds:
            for method in options.methods:
                semi = method_class(method).learns_from_unlabelled
                own = scdh.load_config(overrides=[f"method.name={method}", *options.settings]).method.own
                values = {
                    **SETTINGS,
                    **{"data.root": options.root, "data.validation_per_class": options.validation, "seed": seed},
                    **{"method.name": method, "method.bits": bits, "train.epochs": options.epochs},
                    "train.batch_size": LABELLED_BATCH * (2 if semi else 1),
                }
                overrides = [f"{key}={'none' if value is None else value}" for key, value in values.items()]
                config = scdh.load_config("cifar10-lite0", overrides=[*overrides, *options.settings])
                text = ",".join(sorted(options.settings)) + (
                    f",validation={options.validation}" * bool(options.validation)
                )
                file = options.out / f"{method}-{bits}-{seed}-{options.epochs}-{text or 'usual'}.json"
                if not file.exists():
                    source = source_of(config)
                    versions = early_outputs(config, source, options.out / "early", options.views)
                    result = run(config, source, versions, scores_queries=not options.validation)
                    with replacing(file) as temporary:
                        temporary.write_text(json.dumps({"own": own, **result}), "utf-8")
                found = json.loads(file.read_text("utf-8"))
                score = found.get("map", found["history"][-1].get("validation_map"))
                print(f"{method:8} {bits:3} bits  seed {seed}  MAP {score:.4f}  {text}", flush=True)


if __name__ == "__main__":
    main()

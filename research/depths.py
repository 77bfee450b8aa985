"""How much of the network to train: ``python -m research.depths --cifar10 FOLDER``.

One model per depth at the defaults of ``scdh train`` without trials: a frozen network, its last stages on cached
outputs or on new augmentations, and the whole network. Seconds are processor time of training with one thread, cached
outputs included, in bf16. Finished runs are kept, so the same command continues.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import scdh
from scdh.runs.encoding import encode_rows
from scdh.runs.protocol import protocol_of, source_of
from scdh.storage.files import replacing

DEPTHS: dict[str, dict[str, Any]] = {
    "frozen": {"net.freeze": True},
    "last two stages, 4 cached copies": {"net.freeze": 5},
    "last two stages": {"net.freeze": 5, "net.views": 0},
    "last four stages": {"net.freeze": 3, "net.views": 0},
    "whole": {"net.freeze": False},
}
DATA: dict[str, dict[str, Any]] = {
    "groceries": {"data.label_column": "finegrained_cat", "net.image_size": 128},
    "cifar10": {"net.image_size": 96, "data.train_per_class": 500, "data.query_per_class": 100, "train.epochs": 10},
}


def run(data: str, settings: dict[str, Any], seed: int, root: str | None) -> dict[str, float]:
    values = {"seed": seed, "train.workers": 0, "train.precision": "bf16", "data.root": root, **DATA[data], **settings}
    if data == "cifar10":
        values |= {"data.source": data, "data.split": "draw"}
    arguments = {key.replace(".", "__"): value for key, value in values.items()}
    started = time.process_time()
    with tempfile.TemporaryDirectory() as cache:  # of its own, so that every run pays for its features
        hasher = scdh.train(data, trials=False, feature_cache=cache, **arguments)
    seconds = time.process_time() - started
    config = hasher.config.with_values({"data.root": root})
    source = source_of(config)
    protocol = protocol_of(config, source)
    query, database = (encode_rows(hasher, source, rows)[0] for rows in (protocol.query, protocol.database))
    scores = scdh.evaluate(query, source.labels[protocol.query], database, source.labels[protocol.database])
    return {"map": scores.map, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cifar10", help="folder with CIFAR-10's binary files")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/depths"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for data in ("groceries", *(["cifar10"] if options.cifar10 else [])):
        for name, settings in DEPTHS.items():
            found = []
            for seed in range(options.seeds):
                file = options.out / f"{data}-{name.replace(' ', '-')}-{seed}.json"
                if not file.exists():
                    result = run(data, settings, seed, options.cifar10 if data == "cifar10" else None)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with replacing(file) as temporary:
                        temporary.write_text(json.dumps(result), "utf-8")
                found.append(json.loads(file.read_text("utf-8")))
            scores = [result["map"] for result in found]
            seconds = np.mean([result["seconds"] for result in found])
            print(f"{data:10} {name:34} MAP {np.mean(scores):.3f} ± {np.std(scores):.3f}  {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()

"""SCDH against MT-SCDH on CIFAR-10 with tuned convolutions: ``python -m research.tuned_stages --root CIFAR_FOLDER``.

The first stages of a pretrained network stay frozen, and the later ones learn on new augmentations (``net.views=0``).
One run gives codes of all lengths (``method.nested``). Both methods start from the same weights and have the same
labelled rows. Queries are scored once, after the last epoch. With ``--validation`` rows are held out for choosing
settings, and queries are not scored. A run that was stopped continues with the same command.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import scdh
from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.model.hasher import Hasher
from scdh.runs.encoding import encode_rows
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import protocol_of, source_of
from scdh.storage.files import replacing

LENGTHS = (12, 24, 32, 48)
SETTINGS: dict[str, Any] = {
    "method.bits": max(LENGTHS),
    "method.nested": list(LENGTHS[:-1]),
    "train.precision": "bf16",
}


def settings_of(method: str, seed: int, options: argparse.Namespace) -> RunConfig:
    values: dict[str, Any] = {
        **SETTINGS,
        "method.name": method,
        "seed": seed,
        "data.root": options.root,
        "data.validation_per_class": options.validation,
        "net.image_size": options.size,
        "net.evaluation_size": options.evaluation_size,
        "train.epochs": options.epochs,
    }
    return scdh.load_config(
        "cifar10-lite0", overrides=[f"{key}={value}" for key, value in values.items()] + options.set
    )


def codes_of(hasher: Hasher, source: Source, rows: np.ndarray, engine: Any) -> np.ndarray:
    """Bits [n, r] of some rows."""
    return encode_rows(hasher, source, rows, engine=engine)[0].unpack()


def score(hasher: Hasher, source: Source, protocol: Protocol) -> dict[str, dict[str, float]]:
    """MAP, and precision within radius 2, by length: of the queries, or of held-out rows among each other."""
    query_rows, database_rows = protocol.query, protocol.database
    if len(protocol.validation):
        query_rows = database_rows = protocol.validation
    query = codes_of(hasher, source, query_rows, "torch")
    database = query if database_rows is query_rows else codes_of(hasher, source, database_rows, "torch")
    found = {}
    for bits in LENGTHS:
        prefixes = [scdh.Codes.from_bits(part[:, :bits]) for part in (query, database)]
        scores = scdh.evaluate(prefixes[0], source.labels[query_rows], prefixes[1], source.labels[database_rows])
        found[str(bits)] = {"map": scores.map, "precision_at_radius_2": scores.precision_at_radius}
    return found


def run(config: RunConfig, folder: Path) -> dict[str, dict[str, float]]:
    """Train, or continue, one run; its scores are kept in its folder."""
    file = folder / "lengths.json"
    if not file.exists():
        source = source_of(config)
        has_started = RunFolder(folder).config_file.exists()
        hasher = scdh.Hasher.train(config, folder, resume=has_started)
        found = score(hasher, source, protocol_of(config, source))
        with replacing(file) as temporary:
            temporary.write_text(json.dumps(found, indent=1), "utf-8")
    return json.loads(file.read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--root", required=True, help="folder with CIFAR-10's binary files")
    parser.add_argument("--out", type=Path, default=Path("runs/tuned-stages"))
    parser.add_argument("--methods", nargs="+", default=["scdh", "mt_scdh"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--epochs", type=int, default=16, help="passes over the labelled rows")
    parser.add_argument("--size", type=int, default=144, help="side of training images")
    parser.add_argument("--evaluation-size", type=int, default=160, help="side of whole images")
    parser.add_argument("--validation", type=int, default=0, help="rows per class to hold out; queries are not scored")
    parser.add_argument("--set", nargs="*", default=[], help="settings such as method.weight=3")
    options = parser.parse_args()
    for seed in options.seeds:
        for method in options.methods:
            name = "-".join([method, str(seed), str(options.epochs), str(options.size), *options.set])
            found = run(
                settings_of(method, seed, options), options.out / (name + "-validation" * bool(options.validation))
            )
            scores = "  ".join(f"{bits} bits {score['map']:.4f}" for bits, score in found.items())
            print(f"{method:8} seed {seed}  MAP: {scores}", flush=True)


if __name__ == "__main__":
    main()

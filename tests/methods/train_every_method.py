"""Trains methods one after the other in this process, or in all processes of ``torchrun``: run by test_two_processes.

``python -m tests.methods.train_every_method OUT METHOD …`` leaves a run folder for each method in OUT and, for each
process, ``weights-RANK.json`` with a digest of what it ended with: weights, and tables that methods keep.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch

from scdh.model.hasher import Hasher
from scdh.training import fitting
from tests.methods.harness import digits

# Few rows, and no dropout, whose draws differ between processes.
SETTINGS = {"data.train_per_class": 20, "train.batch_size": 40, "train.epoch_steps": 3, "method.bits": 16}
# What begins later in longer runs, tables of all rows above all, begins after the first epoch.
OWN_SETTINGS = {
    "cnnbh": {"method.dropout": 0.0},
    "dish": {"method.code_dropout": 0.0},
    "dpsh": {"method.batch_epochs": 0},
    "dsdh": {"method.batch_epochs": 1},
    "ftde": {"method.triplets": 20},
    "mdsh": {"method.pair_epoch": 1},
    "mt_scdh": {"method.noise": 0.0, "method.input_dropout": 0.0},
}


def main(out: Path, names: list[str]) -> None:
    digests: dict[str, str] = {}
    train_epochs = fitting.train_epochs

    def watched(net, method, *arguments, **options):  # of every process; only the first writes a model
        trained = train_epochs(net, method, *arguments, **options)
        digests[name] = digest_of(net, method)
        return trained

    fitting.train_epochs = watched
    for name in names:
        config = digits(name, 3, **{**SETTINGS, "net.dropout": 0.0, **OWN_SETTINGS.get(name, {})})
        hasher = Hasher.train(config, out / name, quiet=True)
        digests.setdefault(name, digest_of(hasher.network, hasher.method))  # of a method that is fitted
    (out / f"weights-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(digests))


def digest_of(*modules: torch.nn.Module) -> str:
    """Of all parameters, tables of codes and codebooks; not of batch-norm, whose statistics are each process's own."""
    digest = hashlib.sha256()
    for module in modules:
        for name, tensor in module.state_dict().items():
            if not name.endswith(("running_mean", "running_var", "num_batches_tracked")):
                digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

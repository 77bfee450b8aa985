"""Trains methods one after the other in this process, or in all processes of ``torchrun``: run by test_two_processes.

``python -m tests.methods.train_every_method OUT METHOD …`` leaves a run folder for each method in OUT and, for each
process, ``weights-RANK.json`` with a digest of the weights that it ended with.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch

from scdh.hasher import Hasher
from scdh.training import run as training_run
from tests.methods.harness import digits

# Few rows, and no dropout, whose draws differ between processes.
SETTINGS = {"data.train_per_class": 20, "train.batch_size": 40, "train.epoch_steps": 5, "method.bits": 16}
OWN_SETTINGS = {
    "cnnbh": {"method.dropout": 0.0},
    "dish": {"method.code_dropout": 0.0},
    "ftde": {"method.triplets": 20},
}


def main(out: Path, names: list[str]) -> None:
    digests: dict[str, str] = {}
    train_epochs = training_run.train_epochs

    def watched(net, *arguments, **options):  # the weights of every process, of which only the first writes a model
        trained = train_epochs(net, *arguments, **options)
        digests[name] = digest_of(net)
        return trained

    training_run.train_epochs = watched
    for name in names:
        config = digits(name, 3, **{**SETTINGS, "net.dropout": 0.0, **OWN_SETTINGS.get(name, {})})
        Hasher.train(config, out / name, quiet=True)
    (out / f"weights-{os.environ.get('RANK', '0')}.json").write_text(json.dumps(digests))


def digest_of(net: torch.nn.Module) -> str:
    digest = hashlib.sha256()
    for tensor in net.parameters():
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""Toy methods, and how a test makes one of them the method "toy"."""

from types import SimpleNamespace

import torch
from torch import nn

from scdh.config import load_config
from scdh.losses import softmax_loss
from scdh.methods import registry
from scdh.methods.base import About, Method, Settings

ABOUT = About(
    "Toy", "unary", 2026, "none", cost="O(B·C·r)", fidelity="variant", differs="a toy", labels=("single", "multi")
)


class Toy(Method):
    """A classifier on u, whose weights are parameters of the method and not of the network."""

    about = ABOUT
    Settings = Settings

    def build(self, net):
        super().build(net)
        self.classifier = nn.Parameter(0.1 * torch.randn(self.num_classes, net.bits))

    def step(self, net, batch, moment):
        return {"loss": softmax_loss(net(batch.inputs).u @ self.classifier.T, batch.labels)}


def use_as_toy(monkeypatch, method):
    """Until the test ends the class is the method "toy"."""
    entry = SimpleNamespace(name="toy", dist=None, load=lambda: method)
    monkeypatch.setattr(registry, "_offered", lambda: {"toy": (entry,)})


def digits(**overrides):
    small = {"data.train_per_class": 12, "data.query_per_class": 5, "train.epochs": 3, "train.batch_size": 40}
    return load_config("demo-digits", overrides={**small, "method.name": "toy", "method.bits": 8, **overrides})

"""What a method learns beyond the plain network, in any layer, and in runs of versions that counted otherwise."""

from pathlib import Path
from typing import Any

import pytest

from scdh.config import load_config
from scdh.experiments.compare.own_weights import own_weights
from scdh.experiments.compare.results import SummaryRow
from scdh.experiments.compare.tables import _weights
from scdh.hasher import Hasher
from scdh.methods.base import Method
from scdh.nets.network import Network
from scdh.training import run as training
from scdh.training.optim import count_learned, parameter_groups

HIDDEN, BITS, CLASSES = 8, 16, 10
PLAIN = 64 * HIDDEN + HIDDEN + HIDDEN * BITS + BITS
CLASSIFIER = HIDDEN * CLASSES + CLASSES
BEYOND = {
    "dpsh": 0,
    "hashnet": 0,
    "greedyhash": BITS * CLASSES,
    "scdh": CLASSIFIER + BITS * CLASSES,  # fc8 and centres
    "orthohash": BITS,  # batch-norm has a scale and a shift for each bit, in place of the bias
    "ninh": HIDDEN * 50 * BITS + 50 * BITS + 50 * BITS + BITS - (HIDDEN * BITS + BITS),  # 50 units for each bit
    "dqn": HIDDEN * 300 + 300 - (HIDDEN * BITS + BITS),  # a bottleneck of 300
    "cls_onehot": CLASSIFIER - (HIDDEN * BITS + BITS),  # one output a class in place of one a bit
    "cls_lsh": CLASSIFIER - (HIDDEN * BITS + BITS),  # a classifier is all that learns
}


def digits(method: str) -> Any:
    settings = {"method.name": method, "method.bits": BITS, "net.hidden": [HIDDEN], "train.epochs": 1}
    return load_config(preset="demo-digits", overrides=settings)


def counted_before(net: Network, method: Method) -> dict[str, int]:
    """As earlier versions did: any hash layer counted as shared, however large it was."""
    named = [entry for group in parameter_groups(net, method).values() for entry in group]
    own = [p for name, p in named if not name.startswith(("trunk.", "fc7.", "head.hash_layer."))]
    return {"all": sum(p.numel() for _, p in named), "own": sum(p.numel() for p in own)}


@pytest.mark.parametrize("method", BEYOND)
def test_what_a_method_learns_beyond_the_plain_network(method: str) -> None:
    hasher = Hasher.build(digits(method), [str(n) for n in range(CLASSES)], False, 64)
    learned = count_learned(hasher.network, hasher.method)
    assert learned == {"all": PLAIN + BEYOND[method], "plain": PLAIN}
    assert own_weights({"info": {"learned_weights": learned}}) == BEYOND[method]


@pytest.mark.parametrize("method", ["dpsh", "ninh", "dqn", "cls_lsh", "scdh"])
def test_runs_of_earlier_versions_are_counted_alike(method: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(training, "count_learned", counted_before)
    hasher = training.train(digits(method), quiet=True)
    description = {
        "config": hasher.config.model_dump(mode="json"),
        "label_names": hasher.label_names,
        "multi_label": hasher.multi_label,
        "feature_width": hasher.feature_width,
        "info": hasher.info,
    }
    assert "plain" not in description["info"]["learned_weights"]
    assert own_weights(description) == BEYOND[method]


def test_runs_that_nobody_counted_have_no_number() -> None:
    assert own_weights({}) is None
    assert own_weights({"info": {"best_epoch": 3}}) is None


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (7630, "+7,630"), (-9234, "−9,234"), (None, "–")])
def test_the_table_tells_more_from_fewer(number: int | None, text: str) -> None:
    row = SummaryRow.model_construct(learned_weights=672_288, own_weights=number)
    assert _weights(row) == ["672,288", text]

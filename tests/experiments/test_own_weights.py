"""What a method learns beyond the plain network, in any layer."""

from typing import Any

import pytest

from scdh.config import load_config
from scdh.experiments.compare.cell import _training_facts
from scdh.experiments.compare.results import SummaryRow
from scdh.experiments.compare.tables import _weights
from scdh.model.hasher import Hasher
from scdh.training.optim import count_learned

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


@pytest.mark.parametrize("method", BEYOND)
def test_what_a_method_learns_beyond_the_plain_network(method: str) -> None:
    hasher = Hasher.build(digits(method), [str(n) for n in range(CLASSES)], False, 64)
    learned = count_learned(hasher.network, hasher.method)
    assert learned == {"all": PLAIN + BEYOND[method], "plain": PLAIN}
    assert _training_facts({"learned_weights": learned})["own_weights"] == BEYOND[method]


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (7630, "+7,630"), (-9234, "−9,234"), (None, "–")])
def test_the_table_tells_more_from_fewer(number: int | None, text: str) -> None:
    row = SummaryRow.model_construct(learned_weights=672_288, own_weights=number)
    assert _weights(row) == ["672,288", text]

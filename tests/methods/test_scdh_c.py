"""SCDH-C against plain loops, and how its centres learn."""

import numpy as np
import pytest

from scdh.config import load_config
from scdh.methods.registry import method_class
from scdh.model.hasher import Hasher
from scdh.training.optim import build_optimiser
from tests.methods.harness import build, digits, draw_batch
from tests.reference.slow_losses import label_set, own_softmax_loss, quantization
from tests.reference.slow_methods import dot, inner_products, labelled_rows, mean, squared_distance

ALL_ROW_PARTS = {"l_q"}


def slow_centre(us, ys, centres):
    """‖u − w_s‖², mean over the labels s of a row and over the labelled rows."""
    return mean([mean([squared_distance(u, centres[s]) for s in label_set(y)]) for u, y in labelled_rows(us, ys)])


def slow_loss(net, method, batch, moment):
    s, us, ys = method.settings, net(batch.inputs).u.tolist(), batch.labels.tolist()
    pull = s.lam * slow_centre(us, ys, net.head.centres.tolist())
    return inner_products(us, ys, net.head.classifier.tolist()) + pull + s.alpha * quantization(us, s.p)


def test_the_form_without_competing_labels_equals_the_slow_twin():
    net, method = build("scdh_c", 13, True, {"form": "own", "lam": 0.0, "alpha": 0.0})
    batch = draw_batch("mixed", True)
    scores = [[dot(c, u) for c in net.head.classifier.tolist()] for u in net(batch.inputs).u.tolist()]
    expected = own_softmax_loss(scores, batch.labels.tolist())
    assert method.step(net, batch)["loss"].item() == pytest.approx(expected, rel=1e-9)


def test_centres_have_no_weight_decay_and_follow_their_class_without_lambda():
    net, method = build("scdh_c", 12, settings={"lam": 0.0})
    assert not hasattr(net.head, "fc8")
    method.step(net, draw_batch("mixed", False))["loss"].backward()
    head = net.head
    assert head.centres.grad.abs().sum() > 0
    groups = build_optimiser(net, method, load_config().train).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert decay[id(head.centres)] == decay[id(head.classifier)] == 0 < decay[id(head.hash_layer.weight)]


def test_its_centres_are_w_and_not_the_classifier():
    hasher = Hasher.build(digits("scdh_c"), ["a", "b"], False, 4)
    np.testing.assert_array_equal(hasher.centres, hasher.network.head.centres.detach().numpy())
    assert (hasher.centres != hasher.network.head.classifier.detach().numpy()).any()


def test_the_variants_have_what_suits_scdh_where_they_have_the_setting():
    """Otherwise a comparison of the three would be one of α."""
    for kind, values in method_class("scdh").suited_settings.items():
        for name in ("scdh_c", "scdh_s"):
            own = {key: value for key, value in values.items() if key in method_class(name).Settings.model_fields}
            assert method_class(name).suited_settings.get(kind, {}) == own

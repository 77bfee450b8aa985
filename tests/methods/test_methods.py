"""Every peer method against its slow twin, in the corners, through a real training, and after a resume."""

import csv

import numpy as np
import pytest
import torch
import torch.distributed as dist
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from scdh import losses
from scdh.config import load_config
from scdh.data.batches.batch import Batch
from scdh.errors import ConfigError, DataError, TrainingError
from scdh.evaluation import evaluate
from scdh.hasher import Hasher
from scdh.losses.labels import similar
from scdh.methods.base import About, Method, Moment
from scdh.methods.dpsh import Dpsh
from scdh.methods.ninh import piecewise_threshold
from scdh.methods.registry import method_class, method_settings
from scdh.nets.hash_centres import hash_centres, voted_targets
from scdh.nets.network import Network
from scdh.nets.small import FeatureTrunk
from scdh.nets.stored import StoredOutputs
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.optim import build_optimiser
from tests.cli.commands import run_on_two_processes
from tests.reference import slow_methods as slow

METHODS = ["scdh_s", "scdh_c", "dsh", "dpsh", "ninh", "csq"]
BITS = [1, 12, 13, 48]
CASES = ["mixed", "one class", "one row", "nothing similar", "nothing dissimilar", "no label"]
CLASSES, WIDTH = 5, 6


def labels_of(case, many, generator):
    y = torch.tensor([0, 1, -1, 0, 4, 1, -1, 2])
    if case == "one class":
        y = torch.tensor([3, 3, -1, 3])
    if case == "one row":
        y = torch.tensor([2])
    if case == "nothing similar":
        y = torch.tensor([4, 2, -1, 0, 1])
    if case == "nothing dissimilar":
        y = torch.tensor([1, 1, 1])
    if case == "no label":
        y = torch.full((4,), -1)
    if not many:
        return y
    hot = (y.unsqueeze(1) == torch.arange(CLASSES)).to(torch.uint8)
    if case == "mixed":
        more = (torch.rand(hot.shape, generator=generator) < 0.3) & (y >= 0).unsqueeze(1)
        hot = hot | more.to(torch.uint8)
    return hot


def build(name, bits, many, own=None, classes=CLASSES):
    """A network on vectors and its method, in double precision, with outputs of size 1."""
    torch.manual_seed(bits)
    net = Network(FeatureTrunk(WIDTH, []), WIDTH, bits)
    method = method_class(name)(method_settings(name, own or {}), bits, classes, many)
    method.build(net)
    with torch.no_grad():
        for parameter in net.hash_layer.parameters():
            parameter.normal_(std=0.4)
    return net.double(), method.double()


def draw(case, many, bits, seed=0):
    generator = torch.Generator().manual_seed(100 * seed + bits)
    y = labels_of(case, many, generator)
    inputs = torch.randn(len(y), WIDTH, generator=generator, dtype=torch.float64)
    return Batch(inputs, y, 10 * torch.arange(len(y)))


def prepared(method, batch):
    """Training rows in a shuffled order: those of the batch but the last, and three that are not in it."""
    rows = torch.cat([batch.rows[:-1].flip(0), torch.tensor([3, 15, 1007])])
    known = {int(row): y for row, y in zip(batch.rows, batch.labels, strict=True)}
    blank = torch.zeros_like(batch.labels[0]) if method.multi_label else torch.tensor(1)
    labels = torch.stack([known.get(int(row), blank if row == 3 else batch.labels[0]) for row in rows])
    method.prepare(labels.numpy(), rows.numpy())
    method.double()
    method.stored.update(torch.tensor([3, 1007]), torch.randn(2, method.bits, dtype=torch.float64))
    return labels


def extra_of(name, net, method, batch, labels):
    if name in ("scdh_s", "scdh_c"):
        found = {"c": net.centres.tolist()}
        return found | ({"w": net.get_parameter("cluster_centres").tolist()} if name == "scdh_c" else {})
    if name == "csq":
        return {"centres": method.hash_centres.tolist(), "ties": method.ties.tolist()}
    if name == "dpsh":
        table = method.stored.outputs
        return {"table": table.tolist(), "table_ys": labels.tolist(), "seen": table.any(1).tolist()}
    return {}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_steps_equal_their_slow_twins(name, many, case):
    for bits in BITS:
        net, method = build(name, bits, many, {"batch_epochs": 0} if name == "dpsh" else {})
        batch = draw(case, many, bits)
        labels = prepared(method, batch) if name == "dpsh" else None
        found = method.step(net, batch)
        out = net(batch.inputs)
        logits = None if out.logits is None else out.logits.tolist()
        extra = extra_of(name, net, method, batch, labels)
        us, ys = out.u.tolist(), batch.labels.tolist()
        expected = slow.loss_of(name, method.settings, us, ys, logits=logits, extra=extra)
        assert found["loss"].item() == pytest.approx(expected, rel=1e-6, abs=1e-9)
        if case == "no label" and name not in ("scdh_s", "scdh_c"):  # those two have l_q, which asks for no label
            assert found["loss"].item() == 0
        found["loss"].backward()
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in net.parameters())
        if case == "mixed" and expected > 0:
            assert all(p.grad.any() for p in net.parameters())


def test_dpsh_starts_on_batches_and_stores_only_training_rows():
    net, method = build("dpsh", 12, False)
    batch = draw("mixed", False, 12)
    prepared(method, batch)
    u = net(batch.inputs).u
    early = method.step(net, batch, Moment(9.9))["pairs"].item()
    us, ys = u.tolist(), batch.labels.tolist()
    assert early == pytest.approx(slow.dpsh_pairs(us, ys, us, ys, [True] * len(us)))
    assert method.step(net, batch, Moment(10.0))["pairs"].item() != pytest.approx(early)
    torch.testing.assert_close(method.stored.outputs[:-3], u.detach()[:-1].flip(0))
    assert method.stored.seen.tolist() == [True] * (len(u) - 1) + [True, False, True]
    fresh = method_class("dpsh")(method_settings("dpsh", {}), 12, CLASSES, False)
    with pytest.raises(TrainingError, match="call prepare"):
        fresh.step(net, batch)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("name", ["dsh", "dpsh", "ninh", "csq"])
def test_unlabelled_rows_change_nothing(name, many):
    net, method = build(name, 13, many)
    whole = draw("mixed", many, 13)
    keep = (whole.labels > 0).any(1) if many else whole.labels >= 0
    part = Batch(whole.inputs[keep], whole.labels[keep], whole.rows[keep])
    if name == "dpsh":
        method.prepare(part.labels.numpy(), part.rows.numpy())
        method.double()
    for moment in (Moment(), Moment(99.0)):
        found = [method.step(net, batch, moment)["loss"].item() for batch in (part, whole)]
        assert found[0] == pytest.approx(found[1], rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from([1, 12, 13]), st.booleans(), st.floats(0, 30))
def test_losses_of_any_batch_equal_their_twins_in_any_order(seed, rows, bits, many, margin):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(rows, bits, generator=generator, dtype=torch.float64)
    y = torch.randint(-1, 3, (rows,), generator=generator)
    if many:
        y = (torch.rand(rows, 4, generator=generator) < 0.3).to(torch.uint8)
    order = torch.randperm(rows, generator=generator)
    us, ys = u.tolist(), y.tolist()
    expected = {
        "dsh": slow.dsh_pairs(us, ys, margin),
        "dpsh": slow.dpsh_pairs(us, ys, us, ys, [True] * rows),
        "triplet": slow.triplets(us, ys, margin),
    }
    for v, labels in ((u, y), (u[order], y[order])):
        found = {
            "dsh": losses.contrastive_loss(v, labels, margin),
            "dpsh": losses.pair_likelihood_loss(v, labels, v, labels),
            "triplet": losses.triplet_hinge_loss(v, labels, margin),
        }
        assert {k: x.item() for k, x in found.items()} == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("loss", ["dsh", "dpsh", "triplet", "inner", "centre", "central", "corner"])
def test_gradients_by_finite_differences(loss):
    generator = torch.Generator().manual_seed(3)
    u = torch.randn(6, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    c = torch.randn(5, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 1, 0, -1, 1, 4])
    function = {
        "dsh": lambda u, c: losses.contrastive_loss(u, y, 8.0),
        "dpsh": lambda u, c: losses.pair_likelihood_loss(u, y, torch.ones(2, 4), torch.tensor([0, 1])),
        "triplet": lambda u, c: losses.triplet_hinge_loss(u, y, 2.0),
        "inner": lambda u, c: losses.inner_product_loss(u, y, c),
        "centre": lambda u, c: losses.centre_loss(u, y, c),
        "central": lambda u, c: losses.central_similarity_loss(u, y, torch.ones(6, 4)),
        "corner": lambda u, c: losses.sign_distance_loss(u, y, 2) + losses.sign_distance_loss(u, y, 1),
    }[loss]
    assert torch.autograd.gradcheck(lambda u, c: function(u, c) + 0 * c.sum(), (u, c))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 1e-25, 1e15])
def test_zero_and_huge_outputs_stay_finite(size, dtype):
    u = (torch.randn(6, 16) * size).to(dtype).requires_grad_()
    c = torch.randn(4, 16, requires_grad=True)
    for y in (torch.tensor([0, 1, 0, -1, 1, 3]), torch.full((6,), -1), torch.zeros(6, 4, dtype=torch.uint8)):
        total = losses.contrastive_loss(u, y, 32.0) + losses.pair_likelihood_loss(u, y, u, y)
        total = total + losses.sign_distance_loss(u, y, 1)
        total = total + losses.triplet_hinge_loss(u, y, 2.0) + losses.sign_distance_loss(u, y, 2)
        total = total + losses.inner_product_loss(u, y, c) + losses.centre_loss(u, y, c)
        total = total + losses.central_similarity_loss(u, y, torch.ones(6, 16))
        u.grad = c.grad = None
        total.backward()
        assert total.dtype == torch.float32
        assert torch.isfinite(total)
        assert torch.isfinite(u.grad).all()
        assert torch.isfinite(c.grad).all()
        if (y <= 0).all() and y.ndim == 2:
            assert total.item() == 0
            assert not u.grad.any()


def test_an_empty_batch_has_no_loss():
    u, y = torch.zeros(0, 4, requires_grad=True), torch.zeros(0, dtype=torch.int64)
    total = losses.contrastive_loss(u, y, 8.0) + losses.pair_likelihood_loss(u, y, u, y)
    total = total + losses.triplet_hinge_loss(u, y, 1.0)
    total.backward()
    assert total.item() == 0


@pytest.mark.parametrize("name", METHODS)
def test_mixed_precision_computes_the_losses_in_float32(name):
    net, method = build(name, 16, False)
    net.float(), method.float()
    batch = draw("mixed", False, 16)
    batch = Batch(batch.inputs.float(), batch.labels, batch.rows)
    method.prepare(batch.labels.numpy(), batch.rows.numpy())
    plain = method.step(net, batch, Moment(99.0))["loss"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = method.step(net, batch, Moment(99.0))["loss"]
    assert cast.dtype == torch.float32
    assert cast.item() == pytest.approx(plain.item(), rel=0.05)


def test_similar_knows_labels_sets_and_nothing():
    y = torch.tensor([0, 1, -1, 0])
    assert similar(y, y).int().tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    hot = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0]], dtype=torch.uint8)
    assert similar(hot, hot).int().tolist() == [[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    with pytest.raises(DataError, match="cannot be compared"):
        similar(y, hot)


@pytest.mark.parametrize(("classes", "bits"), [(2, 1), (5, 1), (10, 32), (64, 32), (65, 32), (10, 12), (9, 13)])
def test_hash_centres_are_far_apart_and_balanced(classes, bits):
    torch.manual_seed(0)
    found = hash_centres(classes, bits)
    assert found.shape == (classes, bits)
    assert found.abs().eq(1).all()
    gaps = (bits - found @ found.T) / 2 + bits * torch.eye(classes)
    if bits == 32 and classes <= 64:
        assert gaps.min() == 16
    elif bits > 1:
        assert (found.sum(1).abs() <= 1).all()
        assert gaps.min() >= 1
    torch.manual_seed(0)
    assert torch.equal(found, hash_centres(classes, bits))


def test_many_labels_vote_and_ties_are_broken_the_same_way():
    centres = torch.tensor([[1.0, 1, -1, -1], [1, -1, -1, 1], [1, 1, 1, -1]])
    ties = torch.tensor([-1.0, 1, -1, 1])
    y = torch.tensor([[1, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.uint8)
    assert voted_targets(y, centres, ties).tolist() == [[1, 1, -1, -1], [1, 1, -1, 1], [1, 1, -1, -1]]
    assert torch.equal(voted_targets(torch.tensor([2, 0]), centres, ties), centres[[2, 0]])


def test_ninhs_bits_share_no_features_and_its_threshold_is_flat_outside():
    net, method = build("ninh", 12, False)
    x = torch.randn(3, WIDTH, dtype=torch.float64)
    before = net(x).u
    with torch.no_grad():
        net.hash_layer.divide.weight[:50] += 1  # the slice of the first bit
    changed = (net(x).u != before).any(0).tolist()
    assert changed == [True] + [False] * 11
    assert torch.equal(method.real_codes(net(x)) >= 0, net(x).u.sigmoid() >= 0.5)
    h = torch.tensor([0.1, 0.45, 0.5, 0.55, 0.9], requires_grad=True)
    cut = piecewise_threshold(h, 0.1)
    cut.sum().backward()
    assert cut.tolist() == pytest.approx([0, 0.45, 0.5, 0.55, 1])
    assert h.grad.tolist() == [0, 1, 1, 1, 0]
    net, method = build("ninh", 12, False, {"piecewise": 0.2})
    assert torch.isfinite(method.step(net, draw("mixed", False, 12))["loss"])


def test_a_method_refuses_labels_it_cannot_use():
    class OneLabel(Method):
        about = About("OneLabel", "unary", 2000, "none", cost="none", faithful="no", labels=("single",))

    with pytest.raises(ConfigError, match=r"^OneLabel learns from single-label data only, not multi-label data\.$"):
        OneLabel(None, 8, 3, multi_label=True)


def test_centres_are_spared_from_weight_decay_and_follow_their_class_without_lambda():
    net, method = build("scdh_c", 12, False, {"lam": 0.0})
    assert net.fc8 is None
    method.step(net, draw("mixed", False, 12))["loss"].backward()
    w = net.get_parameter("cluster_centres")
    assert w.grad.abs().sum() > 0
    groups = build_optimiser(net, load_config().train).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    assert decay[id(w)] == decay[id(net.centres)] == 0 < decay[id(net.hash_layer.weight)]


def digits(name, epochs=2, **more):
    return load_config("demo-digits", overrides={"method.name": name, "train.epochs": epochs, **more})


def score(codes_of, config):
    source = source_of(config)
    protocol = protocol_of(config, source)
    query, database = codes_of(source, protocol.query), codes_of(source, protocol.database)
    return evaluate(query, source.labels[protocol.query], database, source.labels[protocol.database]).map


@pytest.mark.slow
@pytest.mark.parametrize("name", [*METHODS, "scdh"])
def test_short_training_on_digits_beats_random_projections_by_far(name):
    config = digits(name, 20 if name == "dpsh" else 10, **({"method.form": "hinge"} if name == "scdh" else {}))
    floor = method_class("lsh")(None, 32, 10, False).fit(source_of(config).features, None, seed=0)
    lsh = score(lambda source, rows: floor.encode(source.features[rows]), config)
    found = score(Hasher.train(config, quiet=True).encode_rows, config)
    assert found > lsh + 0.1, f"{found:.3f} against {lsh:.3f}"


@pytest.mark.parametrize("name", METHODS)
def test_many_labels_train_and_models_come_back_from_disk(name, tmp_path):
    rng = np.random.default_rng(0)
    labels = (rng.random((200, 4)) < 0.4).astype(np.uint8)
    vectors = (labels @ rng.normal(size=(4, 8)) + rng.normal(size=(200, 8))).astype(np.float32)
    np.save(tmp_path / "x.npy", vectors)
    np.save(tmp_path / "y.npy", labels)
    data = {"data.source": str(tmp_path / "x.npy"), "data.labels": str(tmp_path / "y.npy"), "data.query_per_class": 5}
    hasher = Hasher.train(digits(name, **data, **{"method.bits": 13}), tmp_path / "run", quiet=True)
    assert hasher.multi_label
    assert Hasher.load(tmp_path / "run").encode(vectors) == hasher.encode(vectors)
    if name == "csq":
        with safe_open(tmp_path / "run" / "last.safetensors", framework="pt") as file:
            assert {"method.hash_centres", "method.ties"} <= set(file.keys())


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_images_train_whole_and_on_cached_features(name):
    images = {
        "data.source": "digits-images",
        "data.query_per_class": 20,
        "data.train_per_class": 10,
        "net.backbone": "small_conv",
        "net.image_size": 8,
        "net.views": 2,
        "train.epochs": 2,
        "train.augmentation": "shift",
        "train.workers": 0,
        "method.name": name,
        "method.bits": 12,
    }
    for freeze in (True, False):
        hasher = Hasher.train(load_config(overrides=images | {"net.freeze": freeze}), quiet=True)
        assert hasher.encode([np.zeros((8, 8), np.uint8)]).bits == 12


@pytest.mark.slow
def test_dpsh_resumed_equals_dpsh_in_one_go(tmp_path, monkeypatch):
    config = digits("dpsh", 3, **{"method.batch_epochs": 0})
    Hasher.train(config, tmp_path / "whole", quiet=True)
    original = Dpsh.step

    def stops(self, net, batch, moment):
        if moment.epoch >= 1.5:
            raise KeyboardInterrupt
        return original(self, net, batch, moment)

    monkeypatch.setattr(Dpsh, "step", stops)
    with pytest.raises(KeyboardInterrupt):
        Hasher.train(config, tmp_path / "stopped", quiet=True)
    monkeypatch.setattr(Dpsh, "step", original)
    with safe_open(tmp_path / "stopped" / "last.safetensors", framework="pt") as file:
        assert file.get_tensor("method.stored.outputs").any(1).float().mean() > 0.9
    Hasher.train(config, tmp_path / "stopped", resume=True, quiet=True)
    for part in ("model/model.safetensors", "steps.csv"):
        assert (tmp_path / "whole" / part).read_bytes() == (tmp_path / "stopped" / part).read_bytes()


def test_a_table_keeps_the_last_output_of_each_row():
    table = StoredOutputs(3, 2, np.array([40, 7, 12]))
    table.update(torch.tensor([12, 5, 40, 99]), torch.arange(8).reshape(4, 2).half() + 1)
    assert table.outputs.tolist() == [[5, 6], [0, 0], [1, 2]]
    assert table.seen.tolist() == [True, False, True]
    table.update(torch.tensor([7]), torch.tensor([[9.0, 9.0]], requires_grad=True))
    assert table.outputs[1].tolist() == [9, 9]
    assert not table.outputs.requires_grad
    assert list(table.state_dict()) == ["outputs"]
    StoredOutputs(0, 2).update(torch.tensor([1]), torch.ones(1, 2))


@pytest.mark.slow
def test_dpsh_on_two_processes_gives_the_same_losses(tmp_path):
    options = ["net.dropout=0.0", "method.batch_epochs=0", "method.name=dpsh", "train.epochs=2"]
    Hasher.train(load_config("demo-digits", overrides=options), tmp_path / "one", quiet=True)
    chosen = [word for option in options for word in ("--set", option)]
    run_on_two_processes(["train", "--preset", "demo-digits", *chosen, "--out", str(tmp_path / "two")])
    curves = []
    for name in ("one", "two"):
        with open(tmp_path / name / "steps.csv", newline="") as handle:
            curves.append([[float(row[k]) for k in ("loss", "pairs", "corners")] for row in csv.DictReader(handle)])
    assert len(curves[0]) > 30
    np.testing.assert_allclose(*curves, rtol=2e-4, atol=2e-5)


def test_processes_with_batches_of_unequal_length_store_the_rows_of_all(monkeypatch):
    theirs = iter([torch.tensor([1]), torch.tensor([12, 0]), torch.tensor([1]), torch.tensor([[7.0, 7.0], [0.0, 0.0]])])

    def all_gather(parts, mine):
        parts[0].copy_(mine)
        parts[1].copy_(next(theirs))

    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "all_gather", all_gather)
    table = StoredOutputs(4, 2, np.array([0, 40, 7, 12]))
    table.update(torch.tensor([40, 7]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert table.outputs.tolist() == [[0, 0], [1, 2], [3, 4], [7, 7]]


def test_another_method_takes_only_its_own_settings_from_a_preset(tmp_path):
    assert load_config("demo-digits").method.own == {"alpha": 0.5}
    for name, own in (("dsh", {}), ("scdh_s", {"alpha": 0.5}), ("scdh", {"alpha": 0.5})):
        method = load_config("demo-digits", overrides=[f"method.name={name}"]).method
        assert (method.name, method.bits, method.own) == (name, 32, own)
    file = tmp_path / "mine.toml"
    file.write_text('[method]\nname = "scdh_c"\nalpha = 2.0\n')
    assert load_config("imagenet1k", file).method.own == {"lam": 0.001, "alpha": 2.0}
    assert load_config("imagenet1k", file, {"method.name": "scdh_s"}).method.own == {"mu": 0.1, "alpha": 2.0}
    with pytest.raises(ConfigError, match="Unknown dsh setting 'alpha'"):
        load_config("demo-digits", overrides={"method.name": "dsh", "method.alpha": 1.0})
    with pytest.raises(ConfigError, match=r"Unknown method 'dshh'; did you mean 'dsh'\?"):
        load_config("demo-digits", overrides={"method.name": "dshh"})

"""MT-SCDH: its teacher, its ramp-up and its losses against numbers worked out by hand, and what it must never do."""

import copy
import json
import math

import numpy as np
import pytest
import torch

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.data.batches.batch import Batch
from scdh.data.open import open_source
from scdh.errors import ConfigError, ModelError
from scdh.hasher import Hasher
from scdh.losses import consistency_loss
from scdh.methods.base import Moment
from scdh.methods.mt_scdh import MtScdh, MtScdhSettings, ramp_up
from scdh.methods.scdh import Scdh, ScdhSettings
from scdh.nets.network import Network
from scdh.nets.small import FeatureTrunk
from scdh.runs.encoding import load_model
from scdh.runs.protocol import protocol_of
from scdh.training.run import train
from scdh.training.teacher import MovingAverage
from tests.cli.commands import must, run_json, run_on_two_processes
from tests.reference import slow_losses

STILL = {"noise": 0.0, "input_dropout": 0.0}  # nothing random, so that numbers can be worked out


def digits(**overrides):
    few = {"train.epochs": 2, "data.labelled_per_class": 5, "method.name": "mt_scdh"}
    return load_config(preset="demo-digits", overrides={**few, **overrides})


def built(bits=6, classes=4, many=False, trunk=None, **settings):
    torch.manual_seed(0)
    method = MtScdh(MtScdhSettings(**settings), bits, classes, many)
    net = Network(trunk or FeatureTrunk(5, [8], 0.0), 8, bits)
    method.build(net)
    return method, net


def drawn(rows=7, classes=4, many=False, unlabelled=3):
    generator = torch.Generator().manual_seed(1)
    x, other = torch.randn(2, rows, 5, generator=generator)
    if many:
        y = (torch.rand(rows, classes, generator=generator) < 0.4).to(torch.uint8)
        y[:, 0], y[rows - unlabelled :] = 1, 0
    else:
        y = torch.randint(classes, (rows,), generator=generator)
        y[rows - unlabelled :] = -1
    return Batch(x, y, torch.arange(rows), (other,))


def test_ramp_up_by_hand():
    assert ramp_up(0, 5) == pytest.approx(math.exp(-5))
    assert ramp_up(2.5, 5) == pytest.approx(0.28650479686)
    assert ramp_up(4, 5) == pytest.approx(0.81873075308)
    assert ramp_up(5, 5) == ramp_up(70, 5) == ramp_up(0, 0) == 1.0


def test_consistency_and_its_gradient_by_hand():
    # softmax (0, ln 3) = (1/4, 3/4) against (1/2, 1/2): both differ by 1/4, so the mean square is 1/16;
    # ∂/∂x_k = 2/C Σ_j (p_j − q_j) p_j (δ_jk − p_k) = ∓ 2/2 · (1/4 · 1/4 · 3/4 + 1/4 · 3/4 · 1/4) = ∓ 3/32.
    student = torch.tensor([[0.0, math.log(3.0)]], requires_grad=True)
    value = consistency_loss(student, torch.zeros(1, 2))
    value.backward()
    assert value.item() == pytest.approx(1 / 16)
    assert student.grad.tolist() == [[pytest.approx(-3 / 32), pytest.approx(3 / 32)]]


@pytest.mark.parametrize("many", [False, True])
def test_the_step_equals_the_papers_sum_in_plain_loops(many):
    method, net = built(many=many, lam=0.1, mu=0.3, alpha=0.7, weight=20.0, **STILL)
    _, teacher = built(many=many)
    with torch.no_grad():
        for weight in teacher.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    batch = drawn(many=many)
    parts = method.step(net.train(), batch, Moment(2.0, teacher.train()))
    mine, theirs = net(batch.inputs), teacher(batch.other_views[0])
    u, y, c = mine.u.tolist(), batch.labels.tolist(), net.centres.tolist()
    far = [[-slow_losses.distance(row, centre) for centre in c] for row in u]
    their_far = [[-slow_losses.distance(row, t) for t in teacher.centres.tolist()] for row in theirs.u.tolist()]
    agree = slow_losses.consistency(far, their_far)
    agree_fc8 = slow_losses.consistency(mine.logits.tolist(), theirs.logits.tolist())
    expected = slow_losses.scul(u, y, c, 0.1) + 0.3 * slow_losses.softmax_loss(mine.logits.tolist(), y)
    expected += 0.7 * slow_losses.quantization(u, 3.0)  # over all rows: labelled and not
    expected += 20 * math.exp(-5 * (1 - 2 / 5) ** 2) * (0.3 * agree_fc8 + agree)
    assert parts["loss"].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("many", [False, True])
def test_the_student_learns_everywhere_and_the_teacher_nowhere(many):
    method, net = built(many=many)
    teacher = MovingAverage(net, 0.9, own_passes=True).net
    before = copy.deepcopy(teacher.state_dict())
    method.step(net.train(), drawn(many=many), Moment(9.0, teacher))["loss"].backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None, name
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.abs().sum() > 0, name
    assert all(weight.grad is None and not weight.requires_grad for weight in teacher.parameters())
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())


def test_only_unlabelled_rows_still_give_a_finite_step():
    method, net = built()
    teacher = MovingAverage(net, 0.9, own_passes=True).net
    parts = method.step(net.train(), drawn(unlabelled=7), Moment(9.0, teacher))
    parts["loss"].backward()
    assert parts["scul"].item() == parts["l_1"].item() == 0.0
    assert all(torch.isfinite(weight.grad).all() for weight in net.parameters() if weight.grad is not None)


def test_perturbations_are_independent_and_follow_each_features_spread():
    method, _ = built(noise=0.5, input_dropout=0.0)
    x = torch.stack([torch.randn(4000), 100 * torch.randn(4000), torch.full((4000,), 7.0)], 1)
    one, two = method._changed(x) - x, method._changed(x) - x
    assert one.std(0)[:2].tolist() == [pytest.approx(0.5, rel=0.1), pytest.approx(50, rel=0.1)]
    assert one[:, 2].abs().max() == 0
    assert abs(np.corrcoef(one[:, 0], two[:, 0])[0, 1]) < 0.06
    dropped = built(noise=0.0, input_dropout=0.25)[0]._changed(torch.ones(100, 100))
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.03)
    pictures = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    assert method._changed(pictures) is pictures


@pytest.mark.slow
def test_weight_0_is_scdh_to_the_last_bit():
    shared = {"train.epochs": 2, "method.alpha": 0.5}  # every labelled row trains, so none is left without label
    plain = Hasher.train(load_config(preset="demo-digits", overrides=shared), quiet=True)
    taught = {**shared, "method.name": "mt_scdh", "method.weight": 0.0}
    same = Hasher.train(load_config(preset="demo-digits", overrides=taught), quiet=True)
    assert plain.fingerprint() == same.fingerprint()
    # And with unlabelled rows in the batch its step is SCDH's step on that batch.
    method, net = built(weight=0.0, alpha=0.7)
    scdh = Scdh(ScdhSettings(alpha=0.7), 6, 4, False)
    assert method.teacher_decay == 0
    batch = drawn()
    assert method.step(net, batch)["loss"].item() == scdh.step(net, batch)["loss"].item()


def test_teachers_batch_norm_is_its_own():
    torch.manual_seed(0)
    trunk = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8))
    method, net = built(trunk=trunk, **STILL)
    average = MovingAverage(net, 0.5, own_passes=True)
    batch = drawn(unlabelled=0)
    method.step(net.train(), batch, Moment(9.0, average.net))
    seen = average.net.trunk[0](batch.other_views[0]).mean(0)  # the teacher's own view of the batch
    torch.testing.assert_close(average.net.trunk[1].running_mean, 0.1 * seen)
    average.update(net)
    torch.testing.assert_close(average.net.trunk[1].running_mean, 0.1 * seen)
    copied = MovingAverage(net, 0.5)
    with torch.no_grad():
        net.trunk[1].running_mean.add_(1)
    copied.update(net)
    torch.testing.assert_close(copied.net.trunk[1].running_mean, net.trunk[1].running_mean)


@pytest.mark.slow
def test_poisoned_labels_of_unlabelled_rows_change_nothing(monkeypatch):
    source, config = open_source("digits"), digits()
    protocol = protocol_of(config, source)
    poisoned = source.labels.copy()
    poisoned[protocol.unlabelled] = np.random.default_rng(0).permutation(poisoned[protocol.unlabelled])
    assert (poisoned != source.labels).mean() > 0.5
    monkeypatch.setattr("scdh.training.run.protocol_of", lambda *_: protocol)
    prints = set()
    removed = source.labels.copy()
    removed[protocol.unlabelled] = -1
    for labels in (source.labels, poisoned, removed):
        altered = ArraySource(source.features, labels, source.label_names, name="digits")
        prints.add(train(config, None, quiet=True, source=altered).fingerprint())
    assert len(prints) == 1


@pytest.mark.slow
def test_teacher_and_student_are_both_kept_and_scored(tmp_path):
    config = digits(**{"data.validation_per_class": 5})
    teacher = Hasher.train(config, tmp_path, quiet=True)
    student = load_model(tmp_path, "student")
    assert load_model(tmp_path).fingerprint() == load_model(tmp_path, "teacher").fingerprint() == teacher.fingerprint()
    assert student.fingerprint() != teacher.fingerprint()
    header = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert "validation_map," in header
    assert "validation_map_student" in header
    both = run_json(f"evaluate {tmp_path} --json")
    alone = run_json(f"evaluate {tmp_path} --from student --json")
    assert both["network"], both["student"]["network"] == ("teacher", "student")
    assert alone["map"] == both["student"]["map"] != both["map"]
    assert json.loads((tmp_path / "scores.json").read_text())["map"] == both["map"]
    assert json.loads((tmp_path / "scores_student.json").read_text())["map"] == alone["map"]
    plain = tmp_path / "plain"
    Hasher.train(load_config(preset="demo-digits", overrides={"train.epochs": 1}), plain, quiet=True)
    with pytest.raises(ModelError, match="holds one network only"):
        load_model(plain, "student")


def test_a_second_average_is_refused():
    with pytest.raises(ConfigError, match="averages the weights itself"):
        Hasher.train(digits(**{"train.ema": 0.9}), quiet=True)


@pytest.mark.slow
def test_resume_gives_the_same_teacher_and_student(tmp_path):
    whole = digits(**{"train.epochs": 3})
    Hasher.train(whole, tmp_path / "whole", quiet=True)
    # A run that stops in the third epoch has a checkpoint of two; the third is then done again.
    original, calls = MtScdh.end_epoch, []

    def stops(self, net, epoch):
        calls.append(epoch)
        if epoch == 2 and calls.count(2) == 1:
            raise KeyboardInterrupt
        return original(self, net, epoch)

    MtScdh.end_epoch = stops
    try:
        with pytest.raises(KeyboardInterrupt):
            Hasher.train(whole, tmp_path / "parts", quiet=True)
        Hasher.train(whole, tmp_path / "parts", resume=True, quiet=True)
    finally:
        MtScdh.end_epoch = original
    for name in ("model", "student"):
        one, two = (Hasher.load(tmp_path / run / name).fingerprint() for run in ("whole", "parts"))
        assert one == two, name


@pytest.mark.slow
def test_two_processes_give_the_same_losses(tmp_path):
    still = ["--set", "method.noise=0", "--set", "method.input_dropout=0", "--set", "net.dropout=0"]
    options = ["--preset", "demo-digits", "--method", "mt_scdh", "--epochs", "1", *still]
    options += ["--set", "data.labelled_per_class=10"]
    must(["train", *options, "--out", str(tmp_path / "one")])
    run_on_two_processes(["train", *options, "--out", str(tmp_path / "two")])
    one, two = (np.genfromtxt(tmp_path / run / "steps.csv", delimiter=",", names=True) for run in ("one", "two"))
    assert len(one) == len(two) > 30
    for name in ("loss", "scul", "l_1", "l_q", "consistency_centres"):
        np.testing.assert_allclose(one[name], two[name], rtol=2e-3, atol=2e-5)


def test_many_labels_and_pictures_train_too(tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    for part in ("a", "b", "unlabelled"):
        (tmp_path / "photos" / part).mkdir(parents=True)
        for i in range(8):
            shade = {"a": 40, "b": 200}.get(part, 40 + 160 * (i % 2))
            pixels = rng.integers(shade - 30, shade + 30, (16, 16, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / part / f"{i}.png")
    small = {"net.backbone": "small_conv", "net.pretrained": False, "net.image_size": 16, "train.augmentation": "shift"}
    short = {"train.epochs": 2, "train.batch_size": 8, "data.query_per_class": 2, "method.bits": 8}
    photos = {"data.source": str(tmp_path / "photos"), "method.name": "mt_scdh"}
    hasher = Hasher.train(load_config(overrides={**small, **short, **photos}), tmp_path / "run", quiet=True)
    assert hasher.label_names == ["a", "b"]
    assert "consistency_centres" in (tmp_path / "run" / "steps.csv").read_text()
    labels = (rng.random((60, 3)) < 0.5).astype(np.uint8)
    labels[40:] = 0
    np.savez(tmp_path / "v.npz", X=rng.normal(size=(60, 6)).astype(np.float32), y=labels)
    many = {"data.source": str(tmp_path / "v.npz"), "net.backbone": "features", "train.augmentation": "none"}
    more = {"method.name": "mt_scdh", "data.split": "all"}
    assert Hasher.train(load_config(overrides={**short, **many, **more}), quiet=True).multi_label

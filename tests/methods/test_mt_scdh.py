"""MT-SCDH against plain loops, its ramp-up and perturbations by hand, and who learns from whom."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.data.batches.batch import Batch
from scdh.losses import NearestLabels, consistency_loss, target_loss, teacher_targets
from scdh.methods.base import MethodData, Moment
from scdh.methods.mt_scdh import ramp_up
from scdh.model.hasher import Hasher
from scdh.nets.perturbation import perturbed
from scdh.runs.protocol import protocol_of
from scdh.training.collapse import CollapseWarning
from scdh.training.teacher import MovingAverage
from tests.methods.harness import CLASSES, WIDTH, build, draw_batch, moment_for, prepare
from tests.reference.slow_losses import consistency, distance, quantization, scul, softmax_loss
from tests.training.settled import train

TWIN_SETTINGS = {"lam": 0.1, "mu": 0.3, "alpha": 0.7, "weight": 20.0, "noise": 0.0, "input_dropout": 0.0}
PAPER = {**TWIN_SETTINGS, "consistency": "softmax"}
ALL_ROW_PARTS = {"l_q", "consistency_fc8", "consistency_centres"}
TRAINING = {"method.decay": 0.99, "train.epochs": 20}


def slow_loss(net, method, batch, moment):
    """The mean of SCDH's and R's losses over the lengths; fc8's parts are equal for all."""
    losses = [slow_loss_at(b, net, method, batch, moment) for b in {*method.settings.nested, method.bits}]
    return sum(losses) / len(losses)


def slow_loss_at(b, net, method, batch, moment):
    s, ys, teacher = method.settings, batch.labels.tolist(), moment.teacher
    outputs, teacher_outputs = net(batch.inputs), teacher(batch.other_views[0])
    us, logits = outputs.u[:, :b].tolist(), net.head.fc8(outputs.hidden).tolist()
    teacher_logits = teacher.head.fc8(teacher_outputs.hidden).tolist()
    centres = net.head.centres[:, :b].tolist()
    taught_bits = b if s.consistency == "softmax" else method.bits  # the teacher assigns by the whole code
    taught_us, taught_centres = teacher_outputs.u[:, :taught_bits], teacher.head.centres[:, :taught_bits]
    nearness = [[-distance(u, c) for c in centres] for u in us]
    teacher_nearness = [[-distance(u, c) for c in taught_centres.tolist()] for u in taught_us.tolist()]
    loss = scul(us, ys, centres, s.lam) + s.mu * softmax_loss(logits, ys)
    loss += s.alpha * quantization(us, s.p)  # over all rows: labelled and not
    done = (moment.epoch + moment.step / moment.steps_per_epoch) / moment.epochs
    weight = s.weight * (math.exp(-5 * (1 - done / s.ramp_up) ** 2) if done < s.ramp_up else 1.0)
    if s.consistency == "softmax":
        return loss + weight * (s.mu * consistency(logits, teacher_logits) + consistency(nearness, teacher_nearness))
    if method.multi_label:
        return loss + weight * slow_labels_loss(method, centres, ys, us, teacher_nearness, logits)
    return loss + weight * slow_targets_loss(method, ys, nearness, teacher_nearness, logits)


def slow_labels_loss(method, centres, ys, us, teacher_nearness, logits):
    """SCDH's loss of unlabelled rows, with the labels whose centres are nearer than the thresholds."""
    s, thresholds = method.settings, method.targets.threshold.tolist()
    rows = [i for i, y in enumerate(ys) if not any(y)]
    labels = [[int(-near < limit) for near, limit in zip(teacher_nearness[i], thresholds, strict=True)] for i in rows]
    u, scores = [us[i] for i in rows], [logits[i] for i in rows]
    return scul(u, labels, centres, s.lam) + s.mu * softmax_loss(scores, labels)


def slow_targets_loss(method, ys, nearness, teacher_nearness, logits):
    """Cross-entropy with the teacher's assignments, sharpened and corrected by share and mean, of unlabelled rows."""
    s, classes = method.settings, range(method.num_classes)
    rows = [i for i, y in enumerate(ys) if (y < 0 if isinstance(y, int) else not any(y))]
    if not rows:
        return 0.0
    sharp = [softmax([x / s.temperature for x in teacher_nearness[i]]) for i in rows]
    # The step has moved the mean by a hundredth before its targets are computed.
    mean, share = method.targets.mean.tolist(), method.targets.share.tolist()
    total = 0.0
    for i, assigned in zip(rows, sharp, strict=True):
        q = [assigned[j] * (share[j] / max(mean[j], 1e-4)) ** s.alignment for j in classes]
        q = [x / sum(q) for x in q]
        near, scores = softmax(nearness[i]), softmax(logits[i])
        total += sum(q[j] * (-math.log(near[j]) - s.lam * nearness[i][j] - s.mu * math.log(scores[j])) for j in classes)
    return total / len(rows)


def softmax(values):
    powers = [math.exp(value - max(values)) for value in values]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("settings", [TWIN_SETTINGS, PAPER], ids=["targets", "softmax"])
@pytest.mark.parametrize("nested", [[], [4, 2]])
@pytest.mark.parametrize("multi_label", [False, True])
def test_both_losses_of_unlabelled_rows_equal_their_twins(settings, multi_label, nested):
    net, method = build("mt_scdh", 6, multi_label, settings={**settings, "nested": nested})
    batch, moment = draw_batch("mixed", multi_label), moment_for(net, method)
    prepare(net, method, batch)
    if multi_label:  # thresholds of this network's distances, so that some labels are near and others are not
        method.targets.threshold.fill_(4.0)
    value = method.step(net, batch, moment)["loss"].item()
    assert value == pytest.approx(slow_loss(net, method, batch, moment), rel=1e-6)


def test_share_of_labels_by_hand():
    _, method = build("mt_scdh", 6, classes=3)
    method.prepare(None, MethodData(np.array([0, 0, 2, -1]), np.arange(4)))
    assert method.targets.share.tolist() == pytest.approx([2 / 3, 0, 1 / 3])
    _, method = build("mt_scdh", 6, True, classes=3)
    method.prepare(None, MethodData(np.array([[1, 1, 0], [0, 1, 0], [0, 0, 0]], np.uint8), np.arange(3)))
    assert method.targets.share.tolist() == pytest.approx([0.5, 1, 0])  # of the two rows with labels


def test_targets_by_hand():
    # softmax of (0, ln 3) is (1/4, 3/4), at temperature 1/2 it is (1/10, 9/10); times (9, 1) both are 9/10.
    scores = torch.tensor([[0.0, math.log(3.0)]])
    assert teacher_targets(scores, 1.0, torch.ones(2))[0].tolist() == pytest.approx([0.25, 0.75])
    assert teacher_targets(scores, 0.5, torch.ones(2))[0].tolist() == pytest.approx([0.1, 0.9])
    assert teacher_targets(scores, 0.5, torch.tensor([9.0, 1.0]))[0].tolist() == pytest.approx([0.5, 0.5])
    # Cross-entropy: −0.5 ln 1/4 − 0.5 ln 3/4; its gradient is softmax − q.
    student = scores.clone().requires_grad_()
    value = target_loss(student, torch.tensor([[0.5, 0.5]]))
    value.backward()
    assert value.item() == pytest.approx(-0.5 * math.log(3 / 16))
    assert student.grad[0].tolist() == pytest.approx([-0.25, 0.25])
    assert target_loss(torch.zeros(0, 3), torch.zeros(0, 3)).item() == 0


def test_labels_by_distance_go_to_their_share_of_rows():
    labels = NearestLabels(3, certain=0.6)
    labels.set_share(torch.tensor([[1, 0, 1], [1, 1, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0]]))
    assert labels.share.tolist() == [1, 0.25, 0.25]
    rng, found = torch.Generator().manual_seed(0), []
    for _ in range(2000):
        distances = torch.randn(32, 3, generator=rng) * torch.tensor([1.0, 5.0, 0.1]) + torch.tensor([3.0, 40.0, 9.0])
        found.append(labels(distances).float().mean(0))
    share = torch.stack(found[500:]).mean(0)
    assert share.tolist() == pytest.approx([0.6, 0.15, 0.15], abs=0.01)
    assert labels(torch.zeros(0, 3)).shape == (0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["targets", "softmax"])
def test_unlabelled_rows_keep_their_codes_with_few_labels(form):
    """5 labels per class, 2,000 steps on weakly separated features: the paper's loss with w = 50 collapses, with a
    warning; the default does not."""
    rng, labels = np.random.default_rng(0), np.repeat(np.arange(10), 200)
    features = np.maximum(0, 0.25 * rng.normal(size=(10, 256))[labels] + rng.normal(size=(2000, 256)) - 0.3)
    source = ArraySource(features.astype(np.float32), labels)
    few = {"data.labelled_per_class": 5, "data.query_per_class": 10, "net.dropout": 0.5, "method.name": "mt_scdh"}
    steps = {"train.epoch_steps": 200, "train.epochs": 10, "method.consistency": form}
    paper = {"method.decay": 0.999, "method.ramp_up": 0.1} if form == "softmax" else {}
    config = load_config("demo-digits", overrides={**few, **steps, **paper})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CollapseWarning)
        hasher = train(config, None, quiet=True, source=source)
    rows = protocol_of(config, source).unlabelled
    codes = len(np.unique(hasher.encode(source.features[rows]).packed, axis=0))
    if form == "targets":
        assert codes > 200
        assert not caught
    else:
        assert codes < 100
        assert "Unlabelled rows are collapsing" in str(caught[0].message)
        assert "method.consistency=targets" in str(caught[0].message)


def test_ramp_up_by_hand():
    assert ramp_up(0, 5) == pytest.approx(math.exp(-5))
    assert ramp_up(2.5, 5) == pytest.approx(0.28650479686)
    assert ramp_up(4, 5) == pytest.approx(0.81873075308)
    assert ramp_up(0.3, 0.3) == ramp_up(1, 0.3) == ramp_up(0, 0) == 1.0


def test_the_teacher_averages_over_a_twentieth_of_a_short_run():
    _, method = build("mt_scdh", 6)
    assert [method.teacher_decay(steps) for steps in (1, 100, 400, 2000, 100_000)] == [0.5, 0.8, 0.95, 0.99, 0.99]
    _, method = build("mt_scdh", 6, settings={"decay": 0.999})
    assert method.teacher_decay(10) == 0.999


def test_consistency_and_its_gradient_by_hand():
    # softmax (0, ln 3) = (1/4, 3/4) against (1/2, 1/2): both differ by 1/4, so the mean square is 1/16;
    # ∂/∂x_k = 2/C Σ_j (p_j − q_j) p_j (δ_jk − p_k) = ∓ 2/2 · (1/4 · 1/4 · 3/4 + 1/4 · 3/4 · 1/4) = ∓ 3/32.
    student = torch.tensor([[0.0, math.log(3.0)]], requires_grad=True)
    value = consistency_loss(student, torch.zeros(1, 2))
    value.backward()
    assert value.item() == pytest.approx(1 / 16)
    assert student.grad.tolist() == [[pytest.approx(-3 / 32), pytest.approx(3 / 32)]]


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_student_learns_everywhere_and_the_teacher_nowhere(multi_label):
    net, method = build("mt_scdh", 6, multi_label)
    teacher = MovingAverage(net, 0.9, own_passes=True).net
    before = copy.deepcopy(teacher.state_dict())
    method.step(net.train(), draw_batch("mixed", multi_label), Moment(9, teacher=teacher))["loss"].backward()
    for name, weight in net.named_parameters():
        assert weight.grad is not None, name
        assert torch.isfinite(weight.grad).all(), name
        assert weight.grad.abs().sum() > 0, name
    assert all(weight.grad is None and not weight.requires_grad for weight in teacher.parameters())
    assert all(torch.equal(before[name], value) for name, value in teacher.state_dict().items())


def test_perturbations_are_independent_and_follow_each_features_deviation():
    x = torch.stack([torch.randn(4000), 100 * torch.randn(4000), torch.full((4000,), 7.0)], 1)
    one, two = perturbed(x, 0.5, 0.0) - x, perturbed(x, 0.5, 0.0) - x
    assert one.std(0)[:2].tolist() == [pytest.approx(0.5, rel=0.1), pytest.approx(50, rel=0.1)]
    assert one[:, 2].abs().max() == 0
    assert abs(np.corrcoef(one[:, 0], two[:, 0])[0, 1]) < 0.06
    dropped = perturbed(torch.ones(100, 100), 0.0, 0.25)
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.03)
    some = torch.arange(4000) % 2 == 0
    changed = perturbed(x, 0.5, 0.25, some) != x
    assert not changed[~some].any()
    assert changed[some, 0].all()
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    assert perturbed(images, 0.5, 0.25) is images


@pytest.mark.parametrize(("form", "student_rows"), [("targets", [False, False, True]), ("softmax", [True] * 3)])
def test_which_rows_see_noise(form, student_rows):
    """Targets: the student's unlabelled rows only. The paper's loss: all rows of both networks."""
    net, method = build("mt_scdh", 6, settings={"consistency": form, "noise": 1.0})
    teacher, inputs = MovingAverage(net, 0.9, own_passes=True).net, []
    for network in (net, teacher):
        network.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    x = torch.randn(3, WIDTH, dtype=torch.float64)
    method.step(net.train(), Batch(x, torch.tensor([0, 1, -1]), torch.arange(3)), Moment(9, teacher=teacher))
    student, taught = ((seen != x).any(1).tolist() for seen in inputs)
    assert student == student_rows
    assert taught == [form == "softmax"] * 3


@pytest.mark.slow
def test_weight_0_is_scdh_to_the_last_bit():
    shared = {"train.epochs": 1, "method.alpha": 0.5}  # every labelled row trains, so no row is without a label
    scdh = Hasher.train(load_config(preset="demo-digits", overrides=shared), quiet=True)
    weight_0 = {**shared, "method.name": "mt_scdh", "method.weight": 0.0}
    mt_scdh = Hasher.train(load_config(preset="demo-digits", overrides=weight_0), quiet=True)
    assert scdh.fingerprint() == mt_scdh.fingerprint()
    # And with unlabelled rows in the batch its step is SCDH's step on that batch.
    net, method = build("mt_scdh", 6, settings={"weight": 0.0, "alpha": 0.7})
    _, plain = build("scdh", 6, settings={"alpha": 0.7})
    assert method.teacher_decay(100) == 0
    batch = draw_batch("mixed", False)
    assert method.step(net, batch)["loss"].item() == plain.step(net, batch)["loss"].item()


def test_the_teachers_batch_norm_is_its_own():
    trunk = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.BatchNorm1d(WIDTH)).double()
    net, method = build("mt_scdh", 6, settings=TWIN_SETTINGS, classes=CLASSES)
    net = net.with_trunk(trunk)
    average = MovingAverage(net, 0.5, own_passes=True)
    batch = draw_batch("nothing dissimilar", False)
    method.step(net.train(), batch, Moment(9, teacher=average.net))
    mean = average.net.trunk[0](batch.other_views[0]).mean(0)  # of the teacher's own view of the batch
    torch.testing.assert_close(average.net.trunk[1].running_mean, 0.1 * mean)
    average.update(net)
    torch.testing.assert_close(average.net.trunk[1].running_mean, 0.1 * mean)
    copied = MovingAverage(net, 0.5)
    with torch.no_grad():
        net.trunk[1].running_mean.add_(1)
    copied.update(net)
    torch.testing.assert_close(copied.net.trunk[1].running_mean, net.trunk[1].running_mean)

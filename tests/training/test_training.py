"""Runs survive kill -9, give the same on two nodes, stop on NaN or without a gain, and notice collapse; MT-SCDH."""

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.data.batches.batch import Batch
from scdh.data.open import open_source
from scdh.errors import ConfigError, ModelError, TrainingError
from scdh.losses import SemanticClusterUnaryLoss
from scdh.methods.scdh import Scdh, ScdhSettings
from scdh.model.hasher import Hasher
from scdh.nets.heads import HashHead, Head
from scdh.nets.network import Network
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import protocol_of
from scdh.training import data as data_module
from scdh.training.checkpoint import load_checkpoint
from scdh.training.collapse import CollapseWarning, CollapseWatch
from scdh.training.data import TrainingData
from scdh.training.fitting import suited_threads
from scdh.training.log import RunLog
from scdh.training.optim import build_optimiser, build_schedule
from scdh.training.run import recalibrate_batch_norm
from scdh.training.teacher import MovingAverage
from tests.cli.commands import must, run_json, run_on_two_nodes
from tests.methods import harness
from tests.methods.harness import checkpoint_tensors, same_results
from tests.training.settled import as_settings, train


def digits(**overrides):
    return load_config(preset="demo-digits", overrides={"train.epochs": 2, "data.validation_per_class": 5, **overrides})


def command(folder, *more):
    options = ["--preset", "demo-digits", "--out", str(folder), "--set", "train.ema=0.9", *more]
    return ["train", *options]


def test_a_run_leaves_everything_needed_to_trace_it(tmp_path):
    hasher = Hasher.train(digits(), tmp_path / "run", quiet=True)
    names = {p.name for p in (tmp_path / "run").iterdir()} - {"tensorboard", "last"}
    assert names == {".running", "config.json", "protocol.json", "log.csv", "steps.csv", "last.safetensors", "model"}
    assert hasher.info["protocol"]["fingerprint"]
    assert 1 <= hasher.info["best_epoch"] <= 2


def test_the_last_epochs_model_is_kept_only_beside_another_one(tmp_path, monkeypatch):
    for scores, has_last in (([0.9, 0.5], True), ([0.5, 0.9], False)):
        remaining = iter(scores)
        monkeypatch.setattr(TrainingData, "validate", lambda self, net, remaining=remaining: next(remaining))
        run = RunFolder(tmp_path / f"best-{scores.index(0.9) + 1}")
        hasher = Hasher.train(digits(), run.path, quiet=True)
        assert hasher.info["best_epoch"] == scores.index(0.9) + 1
        assert run.last.exists() == has_last
        assert not run.best.exists()
        if has_last:
            assert Hasher.load(run.last).fingerprint() != hasher.fingerprint()
            assert "best_epoch" not in Hasher.load(run.last).info


@pytest.mark.slow
def test_kill_and_resume_gives_bit_identical_weights(tmp_path):
    epochs = ["--set", "train.epochs=8"]
    must(command(tmp_path / "whole", *epochs))
    killed = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "scdh", *command(killed, *epochs)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.time() + 120
    while not (killed / "last.safetensors").exists() and time.time() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (killed / "model").exists(), "the run ended before it could be killed"
    must(command(killed, *epochs, "--resume"))
    assert checkpoint_tensors(tmp_path / "whole") == checkpoint_tensors(killed)
    for file in ("model/model.safetensors", "steps.csv"):
        assert same_results(tmp_path / "whole" / file, killed / file)


@pytest.mark.slow
def test_only_the_first_of_two_nodes_prints_and_their_weights_are_those_of_one(tmp_path):
    few = [
        "data.train_per_class=8",
        "data.validation_per_class=2",
        "net.dropout=0.0",
        "train.epochs=2",
        "train.batch_size=40",
    ]
    options = [part for setting in few for part in ("--set", setting)]
    alone = must(command(tmp_path / "run", *options))
    (tmp_path / "run").rename(tmp_path / "one")
    printed, of_the_second = run_on_two_nodes(command(tmp_path / "run", *options))
    assert of_the_second == ""
    without_times = [re.sub(r"[0-9.]+ s\b", "s", text).splitlines() for text in (printed, alone)]
    assert without_times[0] == without_times[1]
    one, two = (load_file(tmp_path / name / "model/model.safetensors") for name in ("one", "run"))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=1e-3, atol=1e-4)


def test_a_used_folder_is_not_overwritten_and_resume_needs_the_same_settings(tmp_path):
    Hasher.train(digits(), tmp_path, quiet=True)
    with pytest.raises(TrainingError, match=r"already holds a run; resume it \(--resume, resume=True\)"):
        Hasher.train(digits(), tmp_path, quiet=True)
    with pytest.raises(TrainingError, match=r"another method.bits \(32, not 16\)"):
        Hasher.train(digits(**{"method.bits": 16}), tmp_path, resume=True, quiet=True)
    shutil.copytree(tmp_path / "model", tmp_path / "before")
    Hasher.train(digits(), tmp_path, resume=True, quiet=True)
    assert same_results(tmp_path / "before/model.safetensors", tmp_path / "model/model.safetensors")


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    config = digits(**{"train.epochs": 3})
    original, calls = Scdh.step, []

    def breaks(self, net, batch, moment):
        calls.append(1)
        losses = original(self, net, batch, moment)
        return losses | {"loss": losses["loss"] * float("nan")} if len(calls) > 25 else losses

    Scdh.step = breaks
    try:
        with pytest.raises(TrainingError, match=r"not a finite number in epoch 2.*last good checkpoint"):
            Hasher.train(config, tmp_path, quiet=True)
    finally:
        Scdh.step = original
    hasher = Hasher.build(config, [str(i) for i in range(10)], False, 64)
    optimiser = build_optimiser(hasher.network, hasher.method, config.train)
    schedule = build_schedule(optimiser, config.train, 10)
    progress, _ = load_checkpoint(
        tmp_path / "last.safetensors", {"net": hasher.network, "method": hasher.method}, optimiser, schedule
    )
    assert progress.epochs_done == 1
    assert all(torch.isfinite(p).all() for p in hasher.network.parameters())


def test_collapse_is_noticed_and_the_remedy_named():
    net, method = Network(torch.nn.Identity(), 4, 6), Scdh(ScdhSettings(), 6, 3, False)
    method.build(net)
    watch = CollapseWatch(net, method)
    different, labels = torch.randn(16, 6), torch.arange(16) % 3
    assert watch.check(net, different, labels) is None
    with pytest.warns(CollapseWarning, match=r"All 16 codes.*warm_up_epochs=5"):
        watch.check(net, torch.ones(16, 6), labels)
    watch = CollapseWatch(net, method)
    with torch.no_grad():
        net.head.centres.mul_(0.01)
    with pytest.warns(CollapseWarning, match="centres are collapsing"):
        watch.check(net, different, labels)


def test_moving_average_after_k_steps_equals_the_sum_by_hand():
    net = Network(torch.nn.Identity(), 2, 3)
    net.head = HashHead(2, 3)
    average = MovingAverage(net, decay=0.9)
    expected = net.head.hash_layer.weight.detach().clone()
    for t in range(1, 30):
        with torch.no_grad():
            net.head.hash_layer.weight.add_(0.1)
        average.update(net)
        keep = min(1 - 1 / (t + 1), 0.9)
        expected = keep * expected + (1 - keep) * net.head.hash_layer.weight.detach()
    torch.testing.assert_close(average.net.head.hash_layer.weight, expected)


def test_recalibration_measures_what_the_network_will_see():
    torch.manual_seed(0)
    trunk = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    net = Network(trunk, 3, 2)
    inputs = torch.randn(4, 25, 4) * 3 + 1
    empty = torch.zeros(25, dtype=torch.int64)
    assert recalibrate_batch_norm(net, [Batch(x, empty, empty) for x in inputs]) == 1
    hidden = trunk[0](inputs).detach()
    torch.testing.assert_close(trunk[1].running_mean, hidden.mean((0, 1)))
    torch.testing.assert_close(trunk[1].running_var, hidden.var(1).mean(0))
    assert (trunk[1].momentum, trunk[1].training) == (0.1, False)
    with pytest.raises(ConfigError, match="keeps frozen"):
        load_config(overrides={"train.recalibrate": True, "net.freeze": True})


@pytest.mark.slow
def test_a_frozen_trunk_trains_on_cached_features_and_saves_a_whole_model(tmp_path):
    config = load_config(
        overrides=as_settings(
            "data.source=digits-images data.query_per_class=20 data.train_per_class=20 net.backbone=small_conv "
            "net.image_size=16 net.freeze=true net.views=2 train.epochs=2 train.augmentation=shift "
            "train.workers=0"
        )
    )
    torch.manual_seed(config.seed)
    untouched = Hasher.build(config, [str(i) for i in range(10)], False, None)
    hasher = train(config, tmp_path, quiet=True)
    for name, value in untouched.network.trunk.state_dict().items():
        assert torch.equal(hasher.network.trunk.state_dict()[name], value)
    assert not torch.equal(hasher.network.head.hash_layer.weight, untouched.network.head.hash_layer.weight)
    assert len(list((tmp_path / "features").iterdir())) == 2
    images = [np.full((8, 8), 10 * i, np.uint8) for i in range(4)]
    assert Hasher.load(tmp_path).encode(images) == hasher.encode(images)


def test_anyones_loop_can_use_the_loss():
    torch.manual_seed(0)
    X = torch.randn(300, 10)
    y = (X[:, :3].argmax(1)).long()
    net, loss = torch.nn.Linear(10, 16), SemanticClusterUnaryLoss(3, 16)
    optimiser = torch.optim.Adam([*net.parameters(), *loss.parameters()], lr=0.02)
    first = None
    for _ in range(100):
        value = loss(net(X), y)
        first = first if first is not None else value.item()
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
    assert value.item() < 0.5 * first


@pytest.mark.slow
def test_the_last_epoch_can_be_chosen_although_there_is_validation(tmp_path):
    config = digits(**{"train.keep": "last", "train.epochs": 3, "train.lr_head": 0.05, "train.lr_trunk": 0.05})
    hasher = Hasher.train(config, tmp_path, quiet=True)
    assert hasher.info["epochs"] == 3
    assert not (tmp_path / "best").exists()
    assert not (tmp_path / "last").exists()
    assert hasher.fingerprint() == Hasher.load(tmp_path).fingerprint() == Hasher.train(config, quiet=True).fingerprint()
    assert "validation_map" in (tmp_path / "log.csv").read_text()


def test_a_run_of_an_older_version_resumes_with_the_defaults_of_newer_settings(tmp_path):
    Hasher.train(digits(), tmp_path, quiet=True)
    written = json.loads((tmp_path / "config.json").read_text())
    del written["config"]["train"]["labelled_share"], written["config"]["data"]["labelled_per_class"]
    del written["checksum"]
    (tmp_path / "config.json").write_text(json.dumps(written))
    Hasher.train(digits(), tmp_path, resume=True, quiet=True)
    written["config"]["train"]["keep"] = "last"
    (tmp_path / "config.json").write_text(json.dumps(written))
    with pytest.raises(TrainingError, match=r"another train.keep \('last', not 'best'\)"):
        Hasher.train(digits(), tmp_path, resume=True, quiet=True)


@pytest.fixture
def scores(monkeypatch):
    """Validation scores that training will see, one an epoch."""
    values = [0.3, 0.5, 0.4, 0.45, 0.2, 0.9]
    left = iter(values)
    monkeypatch.setattr(data_module.TrainingData, "validate", lambda data, net: next(left))
    return values


def epochs_of(run: RunFolder) -> list[str]:
    with open(run.log, newline="") as handle:
        return [row["epoch"] for row in csv.DictReader(handle)]


def test_training_stops_after_so_many_scores_without_a_better_one(tmp_path, scores):
    config = harness.digits("scdh", 6, **{"data.validation_per_class": 5, "train.patience": 2})
    model = train(config, tmp_path, quiet=True)
    assert epochs_of(RunFolder(tmp_path)) == ["1", "2", "3", "4"]
    assert (model.info["best_epoch"], model.info["validation_map"]) == (2, 0.5)
    again = train(config, tmp_path, resume=True, quiet=True)
    assert epochs_of(RunFolder(tmp_path)) == ["1", "2", "3", "4"]
    assert again.fingerprint() == model.fingerprint() == Hasher.load(tmp_path).fingerprint()


def test_patience_counts_scores_not_epochs(tmp_path, scores):
    settings = {"data.validation_per_class": 5, "train.patience": 1, "train.validate_every": 2}
    train(harness.digits("scdh", 8, **settings), tmp_path, quiet=True)
    assert epochs_of(RunFolder(tmp_path)) == ["1", "2", "3", "4", "5", "6"]  # 0.3, 0.5, then 0.4


def test_without_patience_or_validation_training_goes_to_the_end(tmp_path, scores):
    train(harness.digits("scdh", 6, **{"data.validation_per_class": 5}), tmp_path / "a", quiet=True)
    assert len(epochs_of(RunFolder(tmp_path / "a"))) == 6
    train(
        harness.digits("scdh", 3, **{"data.validation_per_class": 0, "train.patience": 1}), tmp_path / "b", quiet=True
    )
    assert len(epochs_of(RunFolder(tmp_path / "b"))) == 3


def printed(capsys, epochs, seconds):
    now = [0.0]
    log = RunLog(None, 0, quiet=False, clock=lambda: now[0])
    for epoch in range(1, epochs + 1):
        now[0] += seconds
        log.write_epoch([], {"epoch": epoch, "seconds": seconds, "items_per_second": 10.0, "loss": 1.0})
    log.close()
    return [int(line.split()[1]) for line in capsys.readouterr().err.splitlines()]


def test_short_epochs_have_a_line_every_two_seconds_and_the_last_one_always(capsys):
    assert printed(capsys, 300, 0.25) == [*range(1, 300, 8), 300]


def test_long_epochs_have_a_line_each(capsys):
    assert printed(capsys, 4, 60.0) == [1, 2, 3, 4]


def few_labels(**overrides):
    few = {"train.epochs": 2, "data.labelled_per_class": 5, "method.name": "mt_scdh"}
    return load_config(preset="demo-digits", overrides={**few, **overrides})


@pytest.mark.slow
def test_poisoned_labels_of_unlabelled_rows_change_nothing():
    source, config = open_source("digits"), few_labels()
    protocol = protocol_of(config, source)
    poisoned = source.labels.copy()
    poisoned[protocol.unlabelled] = np.random.default_rng(0).permutation(poisoned[protocol.unlabelled])
    assert (poisoned != source.labels).mean() > 0.5
    fingerprints = set()
    removed = source.labels.copy()
    removed[protocol.unlabelled] = -1
    for labels in (source.labels, poisoned, removed):
        altered = ArraySource(source.features, labels, source.label_names, name="digits")
        fingerprints.add(train(config, None, quiet=True, source=altered, protocol=protocol).fingerprint())
    assert len(fingerprints) == 1


@pytest.mark.slow
def test_teacher_and_student_are_both_kept_and_scored(tmp_path):
    config = few_labels(**{"data.validation_per_class": 5})
    teacher = Hasher.train(config, tmp_path, quiet=True)
    run = RunFolder(tmp_path)
    student = run.load_model("student")
    assert run.load_model().fingerprint() == run.load_model("teacher").fingerprint() == teacher.fingerprint()
    assert student.fingerprint() != teacher.fingerprint()
    header = (tmp_path / "log.csv").read_text().splitlines()[0]
    assert "validation_map," in header
    assert "validation_map_student" in header
    both = run_json(f"evaluate {tmp_path} --json")
    alone = run_json(f"evaluate {tmp_path} --from student --json")
    assert (both["network"], both["student"]["network"]) == ("teacher", "student")
    assert alone["map"] == both["student"]["map"] != both["map"]
    assert json.loads((tmp_path / "scores.json").read_text())["map"] == both["map"]
    assert json.loads((tmp_path / "scores_student.json").read_text())["map"] == alone["map"]
    plain = tmp_path / "plain"
    Hasher.train(load_config(preset="demo-digits", overrides={"train.epochs": 1}), plain, quiet=True)
    with pytest.raises(ModelError, match="holds one network only"):
        RunFolder(plain).load_model("student")


def test_a_second_average_is_rejected():
    with pytest.raises(ConfigError, match="averages the weights itself"):
        Hasher.train(few_labels(**{"train.ema": 0.9}), quiet=True)


@pytest.mark.parametrize(
    ("kind", "batch_size", "threads"), [("features", 128, 1), ("features", 1 << 20, 2), ("images", 128, 2)]
)
def test_small_steps_on_vectors_take_one_thread(kind, batch_size, threads):
    """Two threads took ten times as long on a busy machine."""
    train = SimpleNamespace(batch_size=batch_size)
    data = SimpleNamespace(config=SimpleNamespace(train=train), batch_source=SimpleNamespace(kind=kind))
    before, net = torch.get_num_threads(), torch.nn.Linear(100, 32)
    net.head = Head()
    net.head.centres = torch.nn.Parameter(torch.zeros(100_000, 100))
    net.head.row_parameters = frozenset({"centres"})  # their number does not count
    torch.set_num_threads(2)
    try:
        with suited_threads(data, net):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)

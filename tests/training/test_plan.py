"""Settings that come from the data and from trials: chosen without queries, kept with reasons, resumable."""

import json
import math
from functools import partial

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data.arrays.memory import ArraySource
from scdh.errors import ConfigError, TrainingError
from scdh.methods.registry import method_class, method_names
from scdh.model.hasher import Hasher
from scdh.nets.build import build_network
from scdh.nets.unallocated import build_unallocated
from scdh.runs.choices import Choices
from scdh.runs.folder import RunFolder
from scdh.training import defaults
from scdh.training import trials as trials_module
from scdh.training.collapse import CollapseWarning, CollapseWatch
from scdh.training.defaults import suited_choices
from scdh.training.plan import Plan, plan_run
from scdh.training.search import ALPHA, EPOCHS, RATE
from scdh.training.trials import TRUNK_RATE
from tests.data.data_files import write_pictures
from tests.training.settled import shorten_trials, train

GIVEN = {
    "data.source": "made-up",
    "data.query_per_class": 4,
    "data.validation_per_class": 4,
    "method.bits": 16,
    "net.hidden": [16],
}


@pytest.fixture
def source():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    centres = rng.normal(size=(3, 8)) * 40  # far from a deviation of 1, which only standardising makes up for
    return ArraySource((centres[labels] + 20 * rng.normal(size=(90, 8))).astype(np.float32), labels, name="made-up")


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    shorten_trials(monkeypatch, 12, longest=2)
    monkeypatch.setattr(defaults, "MOST_EPOCHS", 12)  # the usual length is tried too
    monkeypatch.setattr(defaults, "FEWEST_STEPS", 12)


def plan_of(given, **options):
    return plan_run(load_config(overrides=given), **options)


def resumed_plan(folder):
    return plan_run(load_config(), resumed=folder)


def weights(model: Hasher) -> str:
    return model.fingerprint()


def test_trials_end_in_a_run_that_equals_a_plain_one_with_the_same_settings(source, tmp_path):
    plan = plan_of(GIVEN, source=source)
    assert plan.choices.to_try == [RATE, EPOCHS, ALPHA, TRUNK_RATE]
    config = plan.finish(tmp_path / "run", quiet=True)
    assert plan.choices.to_try == []
    assert len(plan.choices.trials) >= 4
    found = {choice.setting: choice for choice in plan.choices.made}
    assert {RATE, EPOCHS, ALPHA} <= found.keys()
    assert all(choice.reason for choice in found.values())
    assert config.train.lr_head == config.train.lr_trunk == found[RATE].value
    chosen = train(config, tmp_path / "run", source=source, quiet=True)
    plain = train(config, None, source=source, quiet=True)
    assert weights(chosen) == weights(plain)
    content = json.loads(RunFolder(tmp_path / "run").choices_file.read_text("utf-8"))
    assert {"setting", "value", "reason"} == set(content["choices"][0])


def test_what_is_given_is_neither_chosen_nor_tried(source):
    plan = plan_of({**GIVEN, RATE: 0.5, EPOCHS: 3, "train.weight_decay": 0.2}, source=source)
    assert plan.choices.to_try == [ALPHA]
    assert (plan.config.train.lr_head, plan.config.train.epochs, plan.config.train.weight_decay) == (0.5, 3, 0.2)
    assert plan_of({**GIVEN, ALPHA: 0.1}, source=source).choices.to_try == [RATE, EPOCHS, TRUNK_RATE]
    plan = plan_of({**GIVEN, TRUNK_RATE: 0.02, EPOCHS: 1, ALPHA: 0.1}, source=source)
    assert plan.choices.to_try == [RATE]
    assert plan.finish(None, quiet=True).train.lr_trunk == 0.02


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"data.validation_per_class": 0}, "no validation rows"),
        ({"data.validation_per_class": 3}, "9 validation rows are too few"),
        ({"method.name": "itq"}, ""),
        ({}, "asked for"),
    ],
)
def test_where_nothing_is_tried_the_reason_is_known(source, more, reason):
    plan = plan_of({**GIVEN, **more}, source=source, trials=bool(more))
    assert plan.choices.to_try == []
    assert reason in plan.why_not_tried
    assert plan.finish(None, quiet=True) == plan.config


def test_trials_that_were_done_are_not_done_again(source, tmp_path, monkeypatch):
    run_trial = trials_module.TrialRunner.run
    done = []

    def stop_at_the_third(runner, values, *more):
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(values)
        return run_trial(runner, values, *more)

    monkeypatch.setattr(trials_module.TrialRunner, "run", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        plan_of(GIVEN, source=source).finish(tmp_path, quiet=True)
    monkeypatch.setattr(
        trials_module.TrialRunner,
        "run",
        lambda runner, values, *more: done.append(values) or run_trial(runner, values, *more),
    )
    resumed = plan_of(GIVEN, source=source)
    config = resumed.finish(tmp_path, quiet=True)
    assert len(done) == len({json.dumps(values) for values in done}) == len(resumed.choices.trials)
    assert config == plan_of(GIVEN, source=source).finish(tmp_path / "other", quiet=True)
    with pytest.raises(ConfigError, match="There is no run"):
        resumed_plan(tmp_path / "nothing")
    assert Choices.load(RunFolder(tmp_path).choices_file).to_try == []


def test_several_processes_try_nothing_and_say_so(source, tmp_path, monkeypatch):
    stopped = plan_of(GIVEN, source=source).choices
    stopped.save(RunFolder(tmp_path).choices_file)
    monkeypatch.setenv("WORLD_SIZE", "2")
    plan = plan_of(GIVEN, source=source)
    assert plan.choices.to_try == []
    assert plan.why_not_tried == "trials run in one process, and there are 2"
    assert plan_of({**GIVEN, "method.name": "itq"}, source=source).why_not_tried == ""
    with pytest.raises(ConfigError, match="without torchrun"):
        resumed_plan(tmp_path)


def test_refit_outlives_a_stop_in_the_trials(source, tmp_path):
    plan = plan_of(GIVEN, source=source, refit=True)
    plan.choices.save(RunFolder(tmp_path).choices_file)
    choices = Choices.load(RunFolder(tmp_path).choices_file)
    assert choices == plan.choices
    config = Plan(choices.config, source, plan.protocol, choices, is_settled=False).finish(tmp_path, quiet=True)
    assert config.data.train_on_validation
    assert not choices.config.data.train_on_validation  # the trials had validation rows
    trained = train(config, None, source=source, quiet=True)
    assert trained.info["epochs"] == config.train.epochs
    assert "validation_map" not in trained.info


def test_many_classes_get_a_warm_up_and_many_labels_the_papers_weights():
    rng = np.random.default_rng(0)
    many = ArraySource(rng.normal(size=(5000, 4)).astype(np.float32), np.arange(5000) % 500, name="made-up")
    settings = {choice.setting: choice.value for choice in plan_of(GIVEN, source=many).choices.made}
    assert settings["method.warm_up_epochs"] > 0
    assert "method.form" not in settings
    hot = (rng.random((300, 5)) < 0.4).astype(np.uint8)
    labels = plan_of(GIVEN, source=ArraySource(rng.normal(size=(300, 4)), hot, name="made-up"))
    settings = {choice.setting: choice.value for choice in labels.choices.made}
    assert (settings["method.lam"], settings["method.mu"], settings["method.form"]) == (0.001, 0.1, "own")
    assert "different sets of 5 labels" in next(c.reason for c in labels.choices.made if c.setting == "method.form")
    assert "method.warm_up_epochs" not in settings


def test_labels_within_labels_compete():
    """Where one label determines the others (a kind and a finer kind), there are no more sets than labels."""
    kinds = np.arange(300) % 6
    hot = np.concatenate([np.eye(6, dtype=np.uint8)[kinds], np.eye(2, dtype=np.uint8)[kinds % 2]], axis=1)
    parts = np.where(np.arange(300) < 240, "train", "test")
    data = ArraySource(np.random.default_rng(0).normal(size=(300, 4)), hot, name="made-up", split=parts)
    assert "method.form" not in {choice.setting for choice in plan_of(GIVEN, source=data).choices.made}
    data.labels[240:] = np.random.default_rng(1).random((60, 8)) < 0.5  # sets of queries do not count
    assert "method.form" not in {choice.setting for choice in plan_of(GIVEN, source=data).choices.made}


@pytest.mark.parametrize(
    ("rows", "unlabelled", "epochs"), [(20, 0, 300), (200, 0, 100), (600, 0, 60), (6_400, 0, 30), (20, 6_400, 30)]
)
def test_few_rows_get_enough_steps(rows, unlabelled, epochs, monkeypatch):
    monkeypatch.undo()
    source = ArraySource(np.zeros((4, 4), np.float32), np.arange(4) % 2, name="made-up")
    made = suited_choices(load_config(overrides=GIVEN), source, rows, GIVEN, unlabelled)
    assert {choice.setting: choice.value for choice in made}[EPOCHS] == epochs


def test_very_many_classes_are_sampled(monkeypatch):
    monkeypatch.setattr(defaults, "VERY_MANY_CLASSES", 10)
    given = {key: value for key, value in GIVEN.items() if key != "net.hidden"}

    def chosen(labels, rows, **more):
        source = ArraySource(np.zeros((40, 4), np.float32), labels, name="made-up")
        own = {**given, **more}
        made = suited_choices(load_config(overrides=own), source, rows, own)
        return {choice.setting: choice.value for choice in made}

    few = chosen(np.arange(40) % 10, 20)
    expected = {"sampled": 1000, "mu": 0.0, "start": "classes", "warm_up_epochs": 0}
    assert {key: few[f"method.{key}"] for key in expected} == expected
    assert few["net.hidden"] == []
    assert "net.dropout" not in few
    many = chosen(np.arange(40) % 10, 2000)
    assert (many["method.sampled"], many["net.hidden"]) == (1000, [512])
    others = [chosen(np.arange(40) % 9, 20), chosen(np.eye(10, dtype=np.uint8)[np.arange(40) % 10], 20)]
    others.append(chosen(np.arange(40) % 10, 20, **{"method.name": "mt_scdh"}))
    others.append(chosen(np.arange(40) % 10, 20, **{"train.optimiser": "sgd"}))
    assert all("method.sampled" not in made for made in others)


@pytest.mark.parametrize(
    ("method", "several"),
    [("scdh", True), *((name, False) for name in method_names() if method_class(name).learns_by_gradient)],
)
def test_every_method_is_tried_as_it_is_trained(source, method, several):
    hot = np.eye(3, dtype=np.uint8)[source.labels] | (np.arange(90)[:, None] % 5 == np.arange(3))
    data = ArraySource(source.features, hot, name="made-up") if several else source
    given = {**GIVEN, "method.name": method, EPOCHS: 1, "net.dropout": 0.0}
    plan = plan_of(given, source=data)
    config = plan.finish(None, quiet=True)
    chosen = next(trial for trial in reversed(plan.choices.trials) if trial.values[RATE] == config.train.lr_head)
    if ALPHA in chosen.values:
        chosen = plan.choices.find_trial({**chosen.values, ALPHA: config.method.own["alpha"]})
    trained = train(config, None, source=data, quiet=True)
    # Noise, and a dropout of the method's own, are drawn again every time; without them nothing is random.
    exact = 0.05 if method in ("mt_scdh", "cnnbh") else 1e-6
    assert trained.info["validation_map"] == pytest.approx(chosen.validation_map, abs=exact)


def test_no_hidden_layer_has_no_dropout(tmp_path):
    """The dropout that is chosen for hidden layers is not reported as a mistake of the user."""
    write_pictures(tmp_path, [f"{label}/{i}.png" for label in "ab" for i in range(6)])
    config = plan_of({"data.source": str(tmp_path), "net.hidden": []}).config
    assert (config.net.hidden, config.net.dropout) == ([], None)


def test_validation_rows_search_the_training_rows_only_where_queries_do(source):
    drawn = {choice.setting: choice for choice in plan_of(GIVEN, source=source).choices.made}
    assert drawn["train.validation_database"].reason == "66 of the 78 rows that queries search are training rows"
    words = np.repeat(["train", "val", "query", "gallery"], [45, 15, 15, 15])
    apart = ArraySource(source.features, source.labels, name="made-up", split=words)
    plan = plan_of({"data.source": "made-up"}, source=apart)
    assert plan.protocol.searched_counts == (0, 15)
    assert plan.config.train.validation_database == "validation"


@pytest.mark.filterwarnings("error")
def test_a_trial_whose_codes_collapse_does_not_warn_of_the_run(source, monkeypatch):
    monkeypatch.setattr(CollapseWatch, "_centre_problem", lambda *_: "The centres are collapsing")
    plan = plan_of(GIVEN, source=source)
    config = plan.finish(None, quiet=True)
    assert plan.choices.trials
    with pytest.raises(CollapseWarning):
        train(config, None, source=source, quiet=True)


def test_trials_on_other_data_do_not_count(source, tmp_path, monkeypatch):
    plan_of(GIVEN, source=source).finish(tmp_path, quiet=True)
    changed = ArraySource(source.features, np.roll(source.labels, 1), name="made-up")
    done = []
    run_trial = trials_module.TrialRunner.run
    monkeypatch.setattr(
        trials_module.TrialRunner,
        "run",
        lambda runner, values, *more: done.append(values) or run_trial(runner, values, *more),
    )
    plan = plan_of(GIVEN, source=changed)
    plan.finish(tmp_path, quiet=True)
    assert len(done) == len(plan.choices.trials) > 0
    monkeypatch.setattr("scdh.training.plan.source_of", lambda _: source)
    with pytest.raises(TrainingError, match=r"^The data have changed since the run in .* tried settings on them"):
        resumed_plan(tmp_path)


def test_a_trial_that_is_clearly_worse_halfway_ends_there(source):
    plan = plan_of(GIVEN, source=source)
    runner = trials_module.TrialRunner(plan.choices, source, plan.protocol, None, True)
    values, seen = {"train.lr_head": 0.01, "train.epochs": 4}, []
    whole = runner.run(values, -math.inf, seen.append)
    assert seen == [3, 2, 1, 0]
    assert not whole.stopped
    plain = runner.run(values)
    assert (plain.validation_map, plain.halfway) == (whole.validation_map, None)  # a look halfway changes nothing
    seen.clear()
    stopped = runner.run(values, 1.1, seen.append)
    assert stopped.stopped
    assert seen == [3]
    assert stopped.validation_map == stopped.halfway == whole.halfway


BACKBONES = ["efficientnet_lite0", "resnet18", "resnet50", "alexnet", "vgg16", "vit_small_patch14_dinov2.lvd142m"]


@pytest.mark.parametrize("name", BACKBONES)
def test_the_settings_that_are_chosen_suit_the_backbone(name, tmp_path):
    write_pictures(tmp_path, [f"{kind}/{i}.png" for kind in ("apples", "pears") for i in range(8)])
    given = {"data.source": str(tmp_path), "net.backbone": name}
    for more in ({}, {"net.dropout": 0.0}, {"net.freeze": False}, {"net.freeze": False, "net.dropout": 0.0}):
        config = plan_run(load_config(overrides={**given, **more})).config
        network, preprocess = build_unallocated(partial(build_network, config.net, 32, None, pretrained=False))
        assert preprocess is not None
        assert network.width > 0

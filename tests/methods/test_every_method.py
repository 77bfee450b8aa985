"""Every method of this package: its description, its step against the slow twin, and short runs; see harness.py."""

import itertools
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from scdh.config import RunConfig, load_config
from scdh.data.batches.batch import Batch
from scdh.errors import ConfigError
from scdh.experiments.compare.grid import at_length
from scdh.methods import registry
from scdh.methods.base import HAMMING, Method
from scdh.methods.registry import make_method, method_class, method_settings
from scdh.model.hasher import Hasher
from scdh.training import defaults, loop
from tests.methods import harness
from tests.methods.harness import BITS, CASES, FITTED, METHODS, TRAINED

TRAINED_LABEL_KINDS = [pair for name in TRAINED for pair in harness.label_kinds(name)]
FITTED_LABEL_KINDS = [pair for name in FITTED for pair in harness.label_kinds(name)]
DATA_KINDS = {*defaults.SETTINGS_OF_KINDS, "many labels", "labels that combine", "many classes", "very many classes"}
# None means the value that belongs to the form of the loss.
DEFAULTS_BY_FORM = {("csq", "corner_weight"): 1e-4, ("mt_scdh", "weight"): 1.0}
RESUMED_EPOCHS = 2  # at the end of the short run, done again from a copy of its checkpoint
# Methods of which something begins later: a second group of bits, later rounds, tables, codebooks, harder codes.
CHANGING = ("boh", "dish", "dpsh", "dqn", "dsdh", "ftde", "hashnet", "mdsh", "mt_scdh")


def test_the_package_has_methods():
    assert {"scdh", "mt_scdh", "itq", "lsh"} <= set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_it_has_a_test_file_with_a_slow_twin(name):
    assert harness.load_test_file(name)


@pytest.mark.parametrize("name", METHODS)
def test_its_description_and_settings_make_sense(name):
    method = method_class(name)
    about = method.about
    assert method.__bases__ == (Method,)
    assert all([about.title, about.kind, about.reference, about.cost, about.use_when])
    assert about.fidelity in ("faithful", "variant", "reconstruction")
    assert about.differs or about.fidelity == "faithful"
    assert not about.use_when.endswith(".")
    assert not about.differs.endswith(".")
    assert 1990 < about.year < 2100
    assert about.labels in (("single",), ("multi",), ("single", "multi"))
    assert sum(method_class(other).about.title == about.title for other in METHODS) == 1
    for key, setting in method.Settings.model_fields.items():
        assert setting.description, f"{key} has no description"
        assert not setting.is_required(), f"{key} has no default"
    assert method_settings(name, {}) == method_class(name).Settings()
    with pytest.raises(ConfigError, match=f"Unknown {name} setting 'no_such_setting'"):
        method_settings(name, {"no_such_setting": 1})
    assert method.ranking == HAMMING or method.distance_tables is not Method.distance_tables


@pytest.mark.parametrize("name", TRAINED)
def test_its_settings_to_tune_are_as_many_trials_as_every_other_methods(name):
    tuned = method_class(name).tuned_settings
    assert 1 <= len(tuned) <= 3
    assert math.prod(len(set(values)) for values in tuned.values()) == 9
    for key, values in tuned.items():
        for value, bits in itertools.product(values, (8, 48)):
            setting = key if "." in key else f"method.{key}"
            load_config(overrides={"method.name": name, setting: at_length(value, bits)})


@pytest.mark.parametrize("name", METHODS)
def test_its_settings_to_tune_include_its_defaults(name):
    """Else trials could be worse than the publication's values, which the defaults are."""
    for key, values in method_class(name).tuned_settings.items():
        if "." not in key:
            assert DEFAULTS_BY_FORM.get((name, key), getattr(method_class(name).Settings(), key)) in values


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", harness.LABEL_KINDS)
def test_labels_that_it_cannot_learn_from_are_rejected_in_a_sentence(name, kind):
    about, bits = method_class(name).about, harness.suited_bits(name, 8)
    if kind in about.labels:
        assert make_method(name, {}, bits, 5, harness.LABEL_KINDS[kind]).multi_label == harness.LABEL_KINDS[kind]
        return
    sentence = f"{about.title} learns from {about.labels[0]}-label data only, not {kind}-label data."
    with pytest.raises(ConfigError, match=f"^{re.escape(sentence)}$"):
        make_method(name, {}, bits, 5, harness.LABEL_KINDS[kind])


@pytest.mark.parametrize("name", METHODS)
def test_its_advice_and_suited_settings_name_settings_that_it_has(name):
    method = method_class(name)
    for group, key in re.findall(r"\b(\w+)\.(\w+)", method.collapse_advice):
        settings = method.Settings if group == "method" else RunConfig.model_fields[group].annotation
        assert key in settings.model_fields, f"{name} advises {group}.{key}, which it does not have"
    assert not method.collapse_advice.endswith(".")
    assert method.suited_settings.keys() <= DATA_KINDS
    for values in method.suited_settings.values():
        method_settings(name, dict(values))
    for kind, chosen in (("embeddings", defaults.FOR_EMBEDDINGS), ("frozen images", defaults.FOR_FROZEN_IMAGES)):
        own = {f"method.{key}": value for key, value in method.suited_settings.get(kind, {}).items()}
        load_config(overrides={"method.name": name, **chosen, **own})


@pytest.mark.parametrize(("name", "multi_label"), TRAINED_LABEL_KINDS)
@pytest.mark.parametrize("case", CASES)
def test_its_step_equals_the_slow_twin(name, multi_label, case):
    twin = harness.load_test_file(name)
    for bits in sorted({harness.suited_bits(name, bits) for bits in BITS}):
        net, method = harness.build(name, bits, multi_label, getattr(twin, "TWIN_SETTINGS", {}))
        batch = harness.draw_batch(case, multi_label, seed=bits)
        harness.prepare(net, method, batch)
        moment = harness.moment_for(net, method)
        losses = method.step(net, batch, moment)
        expected = twin.slow_loss(net, method, batch, moment)
        assert losses["loss"].item() == pytest.approx(expected, rel=1e-6, abs=1e-9)
        if case == "no label" and not hasattr(twin, "ALL_ROW_PARTS"):
            assert losses["loss"].item() == 0
        losses["loss"].backward()
        learned = [*net.parameters(), *method.parameters()]
        assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in learned)
        if case == "mixed" and expected > 0 and not (bits == 1 and getattr(twin, "SCALE_FREE", False)):
            assert all(p.grad.any() for p in learned)


@pytest.mark.parametrize(("name", "multi_label"), TRAINED_LABEL_KINDS)
def test_rows_without_a_label_do_not_count(name, multi_label):
    twin = harness.load_test_file(name)
    all_row_parts = getattr(twin, "ALL_ROW_PARTS", set())
    net, method = harness.build(name, harness.suited_bits(name, 13), multi_label, getattr(twin, "TWIN_SETTINGS", {}))
    batch = harness.draw_batch("mixed", multi_label)
    labelled = harness.select_rows(batch, harness.has_label(batch))
    harness.prepare(net, method, labelled)
    for epoch in (0, 99):
        with_all, without = (
            method.step(net, rows, harness.moment_for(net, method, epoch)) for rows in (batch, labelled)
        )
        for part in with_all.keys() - all_row_parts - ({"loss"} if all_row_parts else set()):
            assert with_all[part].item() == pytest.approx(without[part].item(), rel=1e-12), part


@pytest.mark.parametrize("name", TRAINED)
def test_mixed_precision_computes_its_losses_in_float32(name):
    multi_label = harness.label_kinds(name)[0][1]
    twin = harness.load_test_file(name)
    net, method = harness.build(name, 16, multi_label, getattr(twin, "TWIN_SETTINGS", {}))
    batch = harness.draw_batch("mixed", multi_label)
    harness.prepare(net, method, batch)
    net.float(), method.float()
    views = tuple(view.float() for view in batch.other_views)
    batch = Batch(batch.inputs.float(), batch.labels, batch.rows, views)
    moment = harness.moment_for(net, method, 99)
    full = method.step(net, batch, moment)["loss"]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = method.step(net, batch, moment)["loss"]
    assert mixed.dtype == torch.float32
    assert mixed.item() == pytest.approx(full.item(), rel=0.05)


@pytest.fixture(scope="module")
def lsh_map():
    return harness.query_map(Hasher.train(harness.digits("lsh"), quiet=True))


def train_and_resume(config, stop, folder, monkeypatch):
    """The model of a run; a copy of the run as it was after ``stop`` epochs must end with the same bits."""
    whole, resumed, save_checkpoint = folder / "whole", folder / "resumed", loop.save_checkpoint

    def save_and_copy(path, modules, optimiser, schedule, progress, counters):
        save_checkpoint(path, modules, optimiser, schedule, progress, counters)
        if progress.epochs_done == stop:
            shutil.copytree(path.parent, resumed)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "save_checkpoint", save_and_copy)
        hasher = Hasher.train(config, whole, quiet=True)
    Hasher.train(config, resumed, resume=True, quiet=True)
    assert harness.checkpoint_tensors(whole) == harness.checkpoint_tensors(resumed)
    files = ["model/model.safetensors", "steps.csv"]
    for file in [*files, "student/model.safetensors"] if hasher.method.teacher_decay(100) else files:
        assert harness.same_results(whole / file, resumed / file), file
    return hasher


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_a_short_run_beats_lsh_and_resumes_to_the_same_bits(name, lsh_map, tmp_path, monkeypatch):
    config = harness.digits(name, 12, **getattr(harness.load_test_file(name), "TRAINING", {}))
    hasher = train_and_resume(config, config.train.epochs - RESUMED_EPOCHS, tmp_path, monkeypatch)
    score = harness.query_map(hasher)
    assert score > lsh_map + 0.1, f"MAP {score:.3f} against {lsh_map:.3f} of LSH"


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGING)
def test_a_run_that_stopped_early_resumes_to_the_same_bits(name, tmp_path, monkeypatch):
    own = getattr(harness.load_test_file(name), "TRAINING", {})
    config = harness.digits(name, **{**own, "train.epochs": 12, "train.epoch_steps": 4})
    train_and_resume(config, 2, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_images_train_frozen_and_tuned(name):
    images = {
        "data.source": "digits-images",
        "data.query_per_class": 20,
        "data.train_per_class": 10,
        "net.backbone": "small_conv",
        "net.image_size": 8,
        "net.views": 2,
        "train.epochs": 2,
        "train.epoch_steps": 2,
        "train.batch_size": 50,
        "train.augmentation": "shift",
        "train.workers": 0,
        "method.name": name,
        "method.bits": harness.suited_bits(name, 12),
    }
    for freeze in (True, False):
        hasher = Hasher.train(load_config(overrides=images | {"net.freeze": freeze}), quiet=True)
        assert hasher.encode([np.zeros((8, 8), np.uint8)]).bits == hasher.method.code_bits


@pytest.mark.parametrize(("name", "multi_label"), FITTED_LABEL_KINDS)
def test_its_fit_equals_the_slow_twin(name, multi_label):
    features = np.random.default_rng(3).normal(size=(40, 16)).astype(np.float32)
    features[:, 1] += 3 * features[:, 0] + 1
    labels = np.arange(40) % 5
    if multi_label:
        labels = (np.eye(5)[labels] + np.random.default_rng(5).random((40, 5)) > 0.8).astype(np.uint8)
        assert len(set(labels.sum(1))) > 2  # one label or several
    twin = harness.load_test_file(name)
    for bits in (1, 12, 13):
        net, method = harness.build(name, bits, multi_label, width=16)
        method.fit(net, features, labels, seed=4)
        with torch.no_grad():
            u = method.hash_outputs(net(torch.from_numpy(features).double())).numpy()
        expected = np.array(twin.slow_fit(features.tolist(), labels.tolist(), bits, method.settings, seed=4))
        assert u.shape == expected.shape == (40, bits)
        np.testing.assert_allclose(u, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", FITTED)
def test_a_fitted_model_is_a_folder_that_encodes_the_same(name, tmp_path):
    config = harness.digits(name, **{"method.bits": 32})
    hasher = Hasher.train(config, tmp_path, quiet=True)
    loaded = Hasher.load(tmp_path)
    vectors = np.random.default_rng(0).uniform(0, 16, (50, 64)).astype(np.float32)
    assert loaded.encode(vectors) == hasher.encode(vectors)
    assert not [parameter for parameter in loaded.network.parameters() if parameter.requires_grad]
    again = Hasher.train(config, quiet=True)
    assert again.fingerprint() == hasher.fingerprint()
    other_seed = Hasher.train(config.model_copy(update={"seed": 1}), quiet=True)
    assert other_seed.fingerprint() != hasher.fingerprint()


@pytest.mark.parametrize("name", [name for name in FITTED if not method_class(name).needs_labels])
def test_data_without_labels_give_a_model_like_any_other(name, tmp_path, recwarn):
    vectors = np.random.default_rng(0).normal(size=(60, 12)).astype(np.float32) * np.arange(1, 13, dtype=np.float32)
    np.savez(tmp_path / "plain.npz", X=vectors)
    config = harness.digits(name, **{"data.source": str(tmp_path / "plain.npz"), "method.bits": 10, "net.hidden": [64]})
    hasher = Hasher.train(config, tmp_path / "run", quiet=True)
    assert not [warning for warning in recwarn if "label" in str(warning.message)]
    assert hasher.label_names == []
    assert "learned without labels" in (tmp_path / "run/model/README.md").read_text("utf-8")
    loaded = Hasher.load(tmp_path / "run")
    assert loaded.encode(vectors) == hasher.encode(vectors)
    # All rows were learned from as they are: the same as the fit itself, and not standardised.
    net, method = harness.build(name, 10, width=12)
    method.fit(net, vectors, np.full(60, -1), seed=config.seed)
    np.testing.assert_allclose(loaded.network.head.projection.numpy(), net.head.projection.numpy(), rtol=1e-12)


def test_a_method_without_a_test_file_is_named(monkeypatch):
    monkeypatch.setattr(harness, "TRAINED", ["no_such_method"])
    sentence = (
        "Method 'no_such_method' needs a test file tests/methods/test_no_such_method.py with its slow twin slow_loss"
    )
    with pytest.raises(AssertionError, match=re.escape(sentence)):
        harness.load_test_file("no_such_method")


def test_files_of_methods_are_short():
    folder = Path(registry.__file__).parent
    lengths = {name: len((folder / f"{name}.py").read_text("utf-8").splitlines()) for name in METHODS}
    assert max(lengths.values()) <= 200, lengths

"""Presets are differences, unknown keys are rejected, and every mistake is one sentence that names the key."""

import pytest

from scdh.config import load_config, parse_config, preset_names
from scdh.data.named.benchmarks import DATASETS
from scdh.errors import ConfigError


def test_the_papers_settings_are_presets():
    cifar, nus, imagenet = (load_config(preset=p) for p in ("cifar10", "nuswide21", "imagenet1k"))
    weights = [(c.method.own["lam"], c.method.own["mu"], c.method.own["alpha"]) for c in (cifar, nus, imagenet)]
    assert weights == [(0.005, 0.2, 0.05), (0.001, 0.1, 1.0), (0.001, 0.1, 4.0)]
    assert [(c.train.epochs, c.train.lr_steps) for c in (cifar, nus, imagenet)] == [
        (160, [100, 140]),
        (60, [40]),
        (20, [12, 17]),
    ]
    assert imagenet.method.own["warm_up_epochs"] == 5
    assert (cifar.data.query_per_class, cifar.data.train_per_class) == (100, 500)
    assert cifar.net.crop_fraction == 1.0  # 32×32 images have no border to spare


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_valid_and_names_known_data(name):
    assert load_config(preset=name).data.source in DATASETS


def test_later_sources_win(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[train]\nepochs = 7\n[method]\nbits = 24\n")
    config = load_config(preset="cifar10", file=file, overrides=["train.epochs=3", "net.backbone=vgg16", "seed=5"])
    assert (config.train.epochs, config.method.bits, config.net.backbone, config.seed) == (3, 24, "vgg16", 5)
    assert load_config(overrides={"train.clip_norm": 1.0}).train.clip_norm == 1.0
    assert load_config(overrides="train.epochs=3").train.epochs == 3
    assert load_config(overrides=["train.clip_norm=none"]).train.clip_norm is None


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.epoch=3", r"Unknown setting 'train.epoch'; did you mean 'train.epochs'\?"),
        ("method.lamb=3", r"Unknown scdh setting 'lamb'; did you mean 'lam'\?"),
        ("method.name=scdhh", r"Unknown method 'scdhh'; did you mean 'scdh'\?"),
        ("lr=3", r"Unknown setting 'lr'; similar names are train\.lr_trunk, .*`scdh train --show-config` lists all"),
        ("zzz=3", r"Unknown setting 'zzz'; `scdh train --show-config` lists all settings\.$"),
        ("method.bits=0", "'method.bits' cannot be 0"),
        ("method.alpha=-1", "'alpha' cannot be -1"),
        ("net.crop_fraction=0", "'net.crop_fraction' cannot be 0"),
        ("train.optimiser=adam", "'train.optimiser' cannot be 'adam'"),
        ("train.epochs.more=3", "goes below 'epochs'"),
        ("train.epochs", "looks like train.epochs=20"),
        ("trian.epochs=3", "Unknown setting 'trian'"),
    ],
)
def test_mistakes_are_one_sentence(override, words):
    start = ["train.epochs=5"] if "more" in override else []
    with pytest.raises(ConfigError, match=words) as caught:
        load_config(overrides=[*start, override])
    assert "\n" not in str(caught.value)


def test_missing_or_broken_files(tmp_path):
    with pytest.raises(ConfigError, match="There is no configuration file"):
        load_config(file=tmp_path / "none.toml")
    for content in (b"[train\n", b"\xff", b"x = " + b"[" * 100_000):
        (tmp_path / "bad.toml").write_bytes(content)
        with pytest.raises(ConfigError, match="is not valid TOML"):
            load_config(file=tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match="Unknown preset 'cifar'"):
        load_config(preset="cifar")


def test_a_method_with_a_teacher_takes_no_average_from_a_preset():
    assert load_config("cifar10-lite0").train.ema > 0
    assert load_config("cifar10-lite0", overrides=["method.name=mt_scdh"]).train.ema == 0
    assert load_config("cifar10-lite0", overrides=["method.name=mt_scdh", "train.ema=0.9"]).train.ema == 0.9


def test_another_method_takes_only_its_own_settings_from_a_preset(tmp_path):
    assert load_config("demo-digits").method.own == {"alpha": 0.5}
    for name, own in (("dsh", {}), ("scdh_s", {"alpha": 0.5}), ("scdh", {"alpha": 0.5})):
        method = load_config("demo-digits", overrides=[f"method.name={name}"]).method
        assert (method.name, method.bits, method.own) == (name, 32, own)
    file = tmp_path / "mine.toml"
    file.write_text('[method]\nname = "scdh_c"\nalpha = 2.0\n')
    assert load_config("imagenet1k", file).method.own == {"lam": 0.001, "alpha": 2.0}
    assert load_config("imagenet1k", file, {"method.name": "scdh_s"}).method.own == {"mu": 0.1, "alpha": 2.0}
    for name in ("dhn", "dqn", "sdh", "boh"):  # have a λ or μ too, which is another weight
        assert load_config("cifar10", overrides={"method.name": name}).method.own == {}
    with pytest.raises(ConfigError, match="Unknown dsh setting 'alpha'"):
        load_config("demo-digits", overrides={"method.name": "dsh", "method.alpha": 1.0})
    with pytest.raises(ConfigError, match=r"Unknown method 'dshh'; did you mean 'dsh'\?"):
        load_config("demo-digits", overrides={"method.name": "dshh"})


def test_a_folder_is_no_configuration_file(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(file=tmp_path)


def test_data_in_the_place_of_a_config_are_one_sentence():
    """It was "dictionary update sequence element #0 has length 1; 2 is required"."""
    with pytest.raises(ConfigError, match=r"mapping of settings, not a str; scdh\.train\(data\) trains on data\.$"):
        parse_config("photos/")

"""Features of a frozen trunk are kept row by row, and training draws from their views."""

import io
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from safetensors.numpy import load_file, save_file

from scdh.config import RunConfig, load_config
from scdh.data import BadImages, Source, ViewedFeatures
from scdh.data.arrays.memory import ArraySource
from scdh.data.open import open_source
from scdh.data.tables.table import open_table
from scdh.errors import DataError
from scdh.model.hasher import Hasher
from scdh.runs import features
from scdh.runs.features import cached_trunk_features
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.data import TrainingData
from tests.attack.damage import flip_a_bit
from tests.data.data_files import write_pictures

ALONE = SimpleNamespace(device=torch.device("cpu"), is_main_process=True, process_index=0, num_processes=1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    write_pictures(
        tmp_path / "photos", [f"{kind}/{i:02}.png" for kind in ("cat", "dog", "unlabelled") for i in range(8)]
    )
    return tmp_path / "photos"


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The rows of every request that went through the network."""
    seen: list[list[int]] = []
    original = features.evaluation_batches

    def spy(source: Source, rows: np.ndarray, **settings: object) -> object:
        seen.append(rows.tolist())
        return original(source, rows, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(features, "evaluation_batches", spy)
    return seen


def config_of(photos: Path, **more: object) -> RunConfig:
    chosen = {"data.source": str(photos), "data.split": "all", "net.backbone": "small_conv", "net.image_size": 16}
    chosen |= {"train.augmentation": "shift", "train.workers": 0, "train.batch_size": 4, "net.freeze": True}
    return load_config(overrides=chosen | {"net.views": 3} | more)


def model(config: RunConfig) -> Hasher:
    torch.manual_seed(0)
    return Hasher.build(config, ["cat", "dog"], False, None)


def test_only_rows_not_yet_kept_are_computed(photos, tmp_path, computed, monkeypatch):
    monkeypatch.setattr(features, "SHARD", 5)
    config = config_of(photos)
    hasher, source, cache = model(config), source_of(config), tmp_path / "cache"
    chosen: dict = {"folder": cache, "workers": 0, "batch_size": 3}
    _, plain = cached_trunk_features(hasher, source, np.arange(24), workers=0)
    first = cached_trunk_features(hasher, source, np.arange(12), **chosen)
    (place,) = cache.iterdir()
    sizes = sorted(len(features.safe_open(f, "numpy").get_tensor("rows")) for f in place.iterdir())
    assert sizes == [2, 5, 5]
    rows, values = cached_trunk_features(hasher, source, np.array([20, 3, 11, 3]), **chosen)
    assert rows.tolist() == [20, 3, 11, 3]
    assert np.array_equal(values[1:], first[1][[3, 11, 3]])
    np.testing.assert_allclose(values, plain[rows], rtol=1e-4, atol=1e-5)
    cached_trunk_features(hasher, source, np.arange(24)[::-1], **chosen)
    assert computed == [list(range(24)), list(range(12)), [20], [*range(12, 20), 21, 22, 23]]
    assert len(list(cache.iterdir())) == 1
    no_rows, no_features = cached_trunk_features(hasher, source, np.empty(0, np.int64), **chosen)
    assert (no_rows.shape, no_features.shape) == ((0,), (0, hasher.network.width))


def test_what_decides_a_feature_has_its_own_folder(photos: Path, tmp_path: Path) -> None:
    config = config_of(photos)
    source, cache, rows = source_of(config), tmp_path / "cache", np.arange(4)
    hasher = model(config)
    for more in ({}, {"augmentation": "shift", "random_key": (0, 1)}, {"augmentation": "shift", "random_key": (0, 2)}):
        cached_trunk_features(hasher, source, rows, folder=cache, workers=0, **more)  # type: ignore[arg-type]
    next(hasher.network.trunk.parameters()).data.add_(1)
    cached_trunk_features(hasher, source, rows, folder=cache, workers=0)
    assert len(list(cache.iterdir())) == 4


def test_a_killed_run_keeps_its_shards_and_broken_ones_are_made_again(photos, tmp_path, computed, monkeypatch):
    monkeypatch.setattr(features, "SHARD", 4)
    config = config_of(photos)
    hasher, source, cache = model(config), source_of(config), tmp_path / "cache"
    chosen: dict = {"folder": cache, "workers": 0, "batch_size": 4}
    good = (photos / "cat" / "06.png").read_bytes()
    (photos / "cat" / "06.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"06\.png cannot be read"):
        cached_trunk_features(hasher, source, np.arange(12), **chosen)
    report = BadImages()
    with pytest.warns(UserWarning, match=r"left out, the first is .*06\.png"):
        rows, _ = cached_trunk_features(hasher, source, np.arange(8), on_bad_image="skip", bad_images=report, **chosen)
    assert rows.tolist() == [0, 1, 2, 3, 4, 5, 7]
    before = set(cache.iterdir())
    (photos / "cat" / "06.png").write_bytes(good)  # mended: other pictures, so other features
    whole = cached_trunk_features(hasher, source, np.arange(8), on_bad_image="skip", **chosen)
    assert computed == [list(range(12)), [4, 5, 6, 7], list(range(8))]
    (kept,) = set(cache.iterdir()) - before
    for content in (b"", b"no shard", next(kept.glob("*.safetensors")).read_bytes()[:-8]):
        file = sorted(kept.glob("*.safetensors"))[0]
        file.write_bytes(content)
        again = cached_trunk_features(hasher, source, np.arange(8), **chosen)
        assert again[0].tolist() == list(range(8))
        np.testing.assert_allclose(again[1], whole[1], rtol=1e-4, atol=1e-5)
    assert len(computed) == 6


def test_seeds_share_the_views_and_unlabelled_rows_are_in_batches(photos, tmp_path, computed):
    def training_data(seed: int, method: str) -> TrainingData:
        few_labels = {"data.labelled_per_class": 3, "data.validation_per_class": 1, "method.name": method}
        config = config_of(photos, seed=seed, **few_labels)
        source = source_of(config)
        protocol = protocol_of(config, source)
        return TrainingData(config, model(config), source, protocol, ALONE, BadImages(), tmp_path / "cache", True)

    labelled_only, with_unlabelled = training_data(0, "scdh"), training_data(0, "mt_scdh")
    assert [len(rows) for rows in computed] == [8, 6, 6, 16, 16, 16]  # no crops of the 2 rows that validate
    assert labelled_only.unlabelled_rows is None
    assert labelled_only.for_method().unlabelled_rows.tolist() == []
    assert isinstance(with_unlabelled.batch_source, ViewedFeatures)
    unlabelled_rows = with_unlabelled.for_method().unlabelled_rows
    assert (len(with_unlabelled.train_rows), len(with_unlabelled.validation_rows), len(unlabelled_rows)) == (6, 2, 16)
    training_data(1, "mt_scdh")
    assert [len(rows) for rows in computed[6:]] == [2, 2]  # the rows that validated with seed 0 train with seed 1
    assert (labelled_only.steps_per_epoch, with_unlabelled.steps_per_epoch) == (1, 4)
    assert with_unlabelled.for_method().labels.tolist() == [0, 0, 0, 1, 1, 1]
    batches = list(with_unlabelled.batches(0))
    assert len(batches) == 4
    assert all((b.labels >= 0).tolist() == [True] * 4 + [False] * 4 for b in batches)
    assert any(not torch.equal(b.inputs, b.other_views[0]) for b in batches)
    assert all(b.other_views == () for b in labelled_only.batches(0))
    batch_rows = torch.cat([b.rows[4:] for b in batches])
    assert sorted(batch_rows.tolist()) == sorted(unlabelled_rows.tolist())


def test_length_of_an_epoch_and_share_of_labelled_rows_are_settings(photos: Path) -> None:
    steps = {"train.epoch_steps": 3, "train.labelled_share": 0.25}
    config = config_of(photos, **steps, **{"net.freeze": False, "method.name": "mt_scdh"})
    source = source_of(config)
    data = TrainingData(config, model(config), source, protocol_of(config, source), ALONE, BadImages(), None, True)
    batches = list(data.batches(4))
    assert len(batches) == data.steps_per_epoch == 3
    assert all((b.labels >= 0).tolist() == [True] * 4 + [False] * 12 for b in batches)
    assert all(len(b.other_views) == 1 for b in batches)


def test_other_pictures_of_the_same_names_have_other_features(tmp_path):
    """Two folders with equal names and labels, and a folder with one replaced picture, have features of their own."""
    write_pictures(tmp_path / "one", ["a/1.png", "b/2.png"])
    write_pictures(tmp_path / "two", ["a/1.png", "b/2.png"])
    one, two = open_source(str(tmp_path / "one")), open_source(str(tmp_path / "two"))
    assert one.fingerprint() == two.fingerprint()
    assert one.content_fingerprint() != two.content_fingerprint()
    before = one.content_fingerprint()
    assert open_source(str(tmp_path / "one")).content_fingerprint() == before
    Image.new("RGB", (9, 9), (1, 2, 3)).save(tmp_path / "one" / "a" / "1.png")
    assert open_source(str(tmp_path / "one")).content_fingerprint() != before
    (tmp_path / "one" / "a" / "1.png").unlink()
    assert one.content_fingerprint() != before


def test_other_pictures_in_a_table_or_array_have_another_fingerprint():
    table = [pa.table({"image": [png(i + change) for i in range(40)], "label": [0, 1] * 20}) for change in (0, 1)]
    one, two = (open_table(part, name="t") for part in table)
    assert one.fingerprint() == two.fingerprint()
    assert one.content_fingerprint() != two.content_fingerprint()
    vectors = [ArraySource(np.full((5, 2), value, np.float32), np.arange(5), name="v") for value in (1, 2)]
    assert vectors[0].content_fingerprint() != vectors[1].content_fingerprint()


def png(shade):
    file = io.BytesIO()
    Image.new("RGB", (4, 4), (shade, 0, 0)).save(file, "PNG")
    return file.getvalue()


def test_damaged_features_are_computed_again_with_a_warning(photos, tmp_path, computed):
    config = config_of(photos)
    hasher, source, cache = model(config), source_of(config), tmp_path / "cache"
    chosen: dict = {"folder": cache, "workers": 0, "batch_size": 24, "stores": True}
    rows, expected = cached_trunk_features(hasher, source, np.arange(24), **chosen)
    (file,) = cache.rglob("*.safetensors")
    good = file.read_bytes()
    save_file(load_file(file), file)  # without a checksum
    for content in (file.read_bytes(), *(flip_a_bit(good[8:], Random(seed)) for seed in range(5))):
        for other in cache.rglob("*.safetensors"):
            other.unlink()
        file.write_bytes(content)
        with pytest.warns(UserWarning, match="were damaged, the first is"):
            again_rows, again = cached_trunk_features(hasher, source, np.arange(24), **chosen)
        assert again_rows.tolist() == rows.tolist()
        assert np.array_equal(again, expected)

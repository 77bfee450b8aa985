"""A model is a folder: saved whole, loaded without pickle, and it encodes whatever one has."""

import json

import numpy as np
import pytest
from PIL import Image

from scdh.config import load_config
from scdh.data.arrays.loose import item_sources
from scdh.errors import ConfigError, DataError, ModelError
from scdh.model.encode import item_batches
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder


@pytest.fixture(scope="module")
def images_model():
    config = load_config(overrides={"net.backbone": "small_conv", "net.image_size": 16, "method.bits": 13})
    hasher = Hasher.build(config, ["cat", "dog"], False, None)
    hasher.network.eval()
    return hasher


@pytest.fixture(scope="module")
def vectors_model():
    config = load_config(overrides={"net.backbone": "features", "method.bits": 12})
    hasher = Hasher.build(config, ["cat", "dog"], True, 5)
    hasher.network.eval()
    return hasher


def pictures(n=5):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (20 + i, 30, 3), dtype=np.uint8) for i in range(n)]


def test_paths_pictures_arrays_and_iterators_give_the_same_codes(images_model, tmp_path):
    arrays = pictures()
    pils = [Image.fromarray(a) for a in arrays]
    paths = []
    for i, image in enumerate(pils):
        image.save(tmp_path / f"{i}.png")
        paths.append(tmp_path / f"{i}.png")
    expected = images_model.encode(arrays)
    assert (len(expected), expected.bits) == (5, 13)
    assert images_model.encode(pils) == expected
    assert images_model.encode(paths) == expected
    assert images_model.encode([str(p) for p in paths]) == expected
    assert images_model.encode((p for p in pils), batch_size=1) == expected
    assert images_model.encode(np.stack([a[:20] for a in arrays])).bits == 13
    one = images_model.encode(paths[0])
    assert len(one) == 1
    assert one == images_model.encode(pils[0]) == images_model.encode(arrays[0])


def test_a_long_iterator_is_not_held_in_memory(images_model):
    drawn, seen = 0, []

    def stream():
        nonlocal drawn
        for i in range(100):
            drawn += 1
            yield np.full((16, 16, 3), i, np.uint8)

    sources = item_sources(stream(), 8 * 4, is_vectors=False)
    for batch in item_batches(images_model.check_fits, sources, images_model.preprocess, 4, 0, "fail"):
        seen += batch.rows.tolist()
        assert drawn - len(seen) <= 8 * 4, "only a few batches are read ahead"
    assert seen == list(range(100))


def test_a_broken_image_is_named_or_skipped(images_model, tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.jpg"
    Image.fromarray(pictures(1)[0]).save(good)
    bad.write_bytes(b"not a jpeg")
    with pytest.raises(DataError, match=r"bad\.jpg"):
        images_model.encode([good, bad])
    with pytest.warns(UserWarning, match=r"bad\.jpg"):
        codes = images_model.encode([good, bad, good], on_bad_image="skip")
    assert codes.ids.tolist() == [0, 2]


def test_embeddings(vectors_model):
    X = np.random.default_rng(0).normal(size=(9, 5))
    assert vectors_model.encode(X) == vectors_model.encode(list(X), batch_size=1)
    assert len(vectors_model.encode(X[0])) == 1
    assert len(vectors_model.encode(X[:0])) == 0
    with pytest.raises(DataError, match="width 5, but got width 4"):
        vectors_model.encode(X[:, :4])
    X[3, 2] = np.nan
    with pytest.raises(DataError, match="NaN or infinity"):
        vectors_model.encode(X)


def test_wrong_kinds_are_rejected(images_model, vectors_model):
    with pytest.raises(DataError, match="encodes images, but got embeddings"):
        images_model.encode(np.zeros((3, 7)))
    with pytest.raises(DataError, match="encodes embeddings"):
        vectors_model.encode(pictures())
    with pytest.raises(DataError, match="go from -1 to -1"):
        images_model.encode([-np.ones((8, 8, 3))])
    with pytest.raises(DataError, match="is a set"):
        images_model.encode([{1}])


@pytest.mark.parametrize("model", ["images_model", "vectors_model"])
def test_save_and_load(model, request, tmp_path):
    hasher = request.getfixturevalue(model)
    hasher.save(tmp_path / "m")
    assert {p.suffix for p in (tmp_path / "m").iterdir()} == {".safetensors", ".json", ".md"}
    again = Hasher.load(tmp_path / "m")
    items = pictures() if model == "images_model" else np.random.default_rng(0).normal(size=(9, 5))
    assert again.encode(items) == hasher.encode(items)
    assert again.label_names == ["cat", "dog"]
    assert again.multi_label == hasher.multi_label
    np.testing.assert_array_equal(again.centres, hasher.centres)
    description = json.loads((tmp_path / "m" / "config.json").read_text())
    assert {"bits", "versions", "preprocess", "config", "label_names"} <= description.keys()


def test_broken_or_missing_models(images_model, tmp_path):
    with pytest.raises(ModelError, match="There is no model folder"):
        Hasher.load(tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match=r"has no model\.safetensors"):
        Hasher.load(tmp_path / "empty")
    images_model.save(tmp_path / "m")
    weights = tmp_path / "m" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(ModelError, match="broken or of another version"):
        Hasher.load(tmp_path / "m")
    images_model.save(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text('{"format": "other"}')
    with pytest.raises(ModelError, match=r"config.json' was changed or damaged .* delete it"):
        Hasher.load(tmp_path / "m")


def test_the_hub_is_called_by_its_own_conventions(images_model, tmp_path, monkeypatch):
    sent = {}

    class Api:
        def __init__(self, token=None):
            sent["token"] = token

        def create_repo(self, repo_id, private, exist_ok):
            sent["repo"] = (repo_id, private, exist_ok)

        def upload_folder(self, repo_id, folder_path):
            import shutil

            shutil.copytree(folder_path, tmp_path / "hub")
            return "address"

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    assert images_model.push_to_hub("me/codes", private=True) == "address"
    assert sent["repo"] == ("me/codes", True, True)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, allow_patterns: tmp_path / "hub")
    assert Hasher.load("hf:me/codes").encode(pictures()) == images_model.encode(pictures())
    with pytest.raises(ModelError, match=r"no model folder 'me/codes'; a model of the hub would be 'hf:me/codes'\."):
        Hasher.load("me/codes")

    def offline(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with pytest.raises(ModelError, match=r"The hub did not give a model 'me/other' \(ConnectionError\)"):
        Hasher.load("hf:me/other")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number, 1 or more, not 0."),
        ({"batch_size": 2.5}, "batch_size must be a whole number, 1 or more, not 2.5."),
        ({"workers": -1}, "workers must be a whole number, 0 or more, not -1."),
        ({"on_bad_image": "drop"}, "on_bad_image must be 'fail' or 'skip', not 'drop'."),
    ],
)
def test_wrong_options_of_encode_are_named_as_in_python(images_model, options, sentence):
    with pytest.raises(DataError) as error:
        images_model.encode(pictures(), **options)
    assert str(error.value) == sentence


def test_messages_about_a_run_folder_name_no_option_alone(images_model, tmp_path):
    images_model.save(tmp_path / "m")
    with pytest.raises(ModelError, match="holds one network only, so there is no student to take"):
        RunFolder(tmp_path / "m").load_model("student")
    with pytest.raises(ConfigError, match="The part 'query' needs a run folder"):
        RunFolder(tmp_path / "m").part_rows(None, "query")


def test_codes_and_real_outputs_come_together(images_model, vectors_model):
    for model, items in ((images_model, pictures()), (vectors_model, np.random.default_rng(0).normal(size=(7, 5)))):
        codes, u = model.encode(items, outputs=True)
        assert codes == model.encode(items)
        assert (u.dtype, u.shape) == (np.float32, (len(codes), model.bits))
        assert np.array_equal(u >= 0, codes.unpack().astype(bool))
        assert np.array_equal(u, model.hash_outputs(items))

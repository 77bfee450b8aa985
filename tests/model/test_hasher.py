"""A model is a folder, loaded without pickle; it encodes whatever one has, in small pieces on several threads."""

import json
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from PIL import Image

from scdh.config import load_config
from scdh.data.arrays.loose import item_sources
from scdh.data.batches.batch import Batch
from scdh.errors import DataError, ModelError
from scdh.model import encode
from scdh.model.encode import item_batches, read_network, run_network
from scdh.model.hasher import Hasher
from scdh.nets.network import Network


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
    with pytest.raises(ModelError, match=r"The hub did not return a model 'me/other' \(ConnectionError\)"):
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


def test_codes_and_real_outputs_come_together(images_model, vectors_model):
    for model, items in ((images_model, pictures()), (vectors_model, np.random.default_rng(0).normal(size=(7, 5)))):
        codes, u = model.encode(items, outputs=True)
        assert codes == model.encode(items)
        assert (u.dtype, u.shape) == (np.float32, (len(codes), model.bits))
        assert np.array_equal(u >= 0, codes.unpack().astype(bool))
        assert np.array_equal(u, model.hash_outputs(items))


SIDE = 24


@pytest.fixture(scope="module")
def net() -> Network:
    config = load_config(overrides={"net.backbone": "small_conv", "net.image_size": SIDE, "method.bits": 8})
    return Hasher.build(config, ["a", "b"], False, None).network


@pytest.fixture
def threads() -> Iterator[None]:
    """Two threads of torch, as on a machine with two cores; the tests' own default is one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def image_batches(*sizes: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    batches, start = [], 0
    for size in sizes:
        images = torch.randint(0, 256, (size, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)
        batches.append(Batch(images, torch.zeros(size, dtype=torch.long), torch.arange(start, start + size)))
        start += size
    return batches


def plain(net: Network, batches: list[Batch]) -> list[tuple[np.ndarray, np.ndarray]]:
    net.eval()
    with torch.inference_mode():
        return [(batch.rows.numpy(), net(batch.inputs).u.numpy()) for batch in batches]


def threads_of_a_new_thread() -> int:
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return counts[0]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_pieces_give_the_values_of_whole_batches(count: int, net: Network, threads, monkeypatch) -> None:
    torch.set_num_threads(count)
    monkeypatch.setattr(encode, "PIECE", 4 * SIDE * SIDE + 5)
    batches = image_batches(7, 3, 1, 10, 6)
    passes: list[int] = []
    hook = net.trunk.register_forward_pre_hook(lambda _, inputs: passes.append(len(inputs[0])))
    found = list(run_network(net, iter(batches), lambda outputs: outputs.u))
    hook.remove()
    assert max(passes) == 4
    assert sum(passes) == 27
    for (rows, values), (expected_rows, expected) in zip(found, plain(net, batches), strict=True):
        assert np.array_equal(rows, expected_rows)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        read_network(net, batches, lambda outputs: outputs.u), np.concatenate([values for _, values in found])
    )


def test_images_larger_than_a_piece_go_one_by_one(net: Network, threads, monkeypatch) -> None:
    monkeypatch.setattr(encode, "PIECE", 10)
    (_, values), *_ = run_network(net, image_batches(4), lambda outputs: outputs.u)
    np.testing.assert_allclose(values, plain(net, image_batches(4))[0][1], rtol=1e-5, atol=1e-6)


def test_no_batches_give_nothing(net: Network, threads) -> None:
    assert list(run_network(net, [], lambda outputs: outputs.u)) == []


def test_the_next_batch_is_decoded_while_one_is_computed(net: Network, threads) -> None:
    events: list[str] = []

    def decoded() -> Iterator[Batch]:
        for number, batch in enumerate(image_batches(2, 2, 2)):
            events.append(f"decoded {number}")
            yield batch

    for number, _ in enumerate(run_network(net, decoded(), lambda outputs: outputs.u)):
        events.append(f"given {number}")
    assert events == ["decoded 0", "decoded 1", "given 0", "decoded 2", "given 1", "given 2"]


def test_torch_has_its_threads_again_afterwards(net: Network, threads) -> None:
    def broken() -> Iterator[Batch]:
        yield from image_batches(4, 4)
        raise OSError("the disk is gone")

    running = run_network(net, broken(), lambda outputs: outputs.u)
    next(running)
    assert torch.get_num_threads() == 2
    with pytest.raises(OSError, match="disk"):
        list(running)
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (2, 2)

    stopped = run_network(net, image_batches(4, 4, 4), lambda outputs: outputs.u)
    next(stopped)
    stopped.close()
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (2, 2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_an_error_of_the_network_arrives(net: Network, threads) -> None:
    def read(outputs):
        raise ValueError("no such output")

    with pytest.raises(ValueError, match="no such output"):
        list(run_network(net, image_batches(4), read))

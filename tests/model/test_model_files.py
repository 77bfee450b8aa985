"""A model on disk: killed saves, damage, hostile descriptions, and what it tells others."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from scdh.config import load_config
from scdh.errors import ConfigError, ModelError
from scdh.experiments.info.find import describe
from scdh.model.hasher import Hasher

X = np.random.default_rng(0).normal(size=(50, 8))


def make_model(seed: int = 0, **settings: object) -> Hasher:
    torch.manual_seed(seed)
    config = load_config(overrides={"net.backbone": "features", "method.bits": 16, "net.hidden": [6], **settings})
    hasher = Hasher.build(config, ["cat", "dog"], False, 8)
    hasher.network.eval()
    return hasher


def test_other_things_in_the_folder_stay_and_links_stay_links(tmp_path: Path) -> None:
    one, two = make_model(0), make_model(1)
    folder = tmp_path / "real"
    one.save(folder)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("main")
    (folder / "notes.txt").write_text("years")
    (tmp_path / "elsewhere").mkdir()
    os.replace(folder / "model.safetensors", tmp_path / "elsewhere" / "weights")
    (folder / "model.safetensors").symlink_to(tmp_path / "elsewhere" / "weights")
    (tmp_path / "link").symlink_to(folder)
    two.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (folder / "model.safetensors").is_symlink()
    assert {p.name for p in folder.iterdir()} == {".git", "notes.txt", "model.safetensors", "config.json", "README.md"}
    assert (folder / ".git" / "HEAD").read_text() == "main"
    assert Hasher.load(folder).fingerprint() == two.fingerprint()


def test_a_full_disk_leaves_the_old_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = make_model(0), make_model(1)
    old.save(tmp_path / "m")

    def fill(tensors: object, path: Path, metadata: object) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr("scdh.model.folder.save_file", fill)
    with pytest.raises(OSError, match="No space left") as caught:
        new.save(tmp_path / "m")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "m/model.safetensors"))
    assert Hasher.load(tmp_path / "m").encode(X) == old.encode(X)
    assert len(list((tmp_path / "m").iterdir())) == 3


def test_a_description_that_was_edited_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    make_model().save(tmp_path / "m")
    file = tmp_path / "m" / "config.json"
    file.write_text(file.read_text().replace('"cat"', '"cow"'))
    with pytest.raises(ModelError, match=r"was changed or damaged after it was written; delete it, as model"):
        Hasher.load(tmp_path / "m")
    file.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ModelError, match="delete it"):
        describe(str(tmp_path / "m"))
    file.unlink()
    assert Hasher.load(tmp_path / "m").label_names == ["cat", "dog"]


def test_a_newer_version_is_one_sentence(tmp_path: Path) -> None:
    make_model().save(tmp_path)
    weights, file = tmp_path / "model.safetensors", tmp_path / "config.json"
    description = json.loads(file.read_text()) | {"version": 2}
    del description["checksum"]
    save_file(load_file(weights), weights, metadata={"description": json.dumps(description)})
    message = r"has version 2 of the format, but scdh .* reads only version 1; install a newer scdh\.$"
    with pytest.raises(ModelError, match=message):
        Hasher.load(tmp_path)


HOSTILE = {
    "wide layers": {"config": {"net": {"hidden": [30000, 30000]}}},
    "many layers": {"config": {"net": {"hidden": [300] * 20000}}},
    "many labels": {"label_names": [str(i) for i in range(1_000_000)]},
    "many bits": {"bits": 65536, "config": {"method": {"bits": 65536}}},
    "many centres": {
        "bits": 65536,
        "label_names": ["a"] * 100_000,
        "config": {"method": {"name": "csq", "bits": 65536}, "net": {"hidden": []}},
    },
    "wide embeddings": {"feature_width": 10**9},
    "huge number": {"feature_width": 10**30},
    "large backbone": {"feature_width": None, "config": {"net": {"backbone": "vit_giant_patch14_224", "hidden": []}}},
    "large images": {
        "feature_width": None,
        "config": {"net": {"backbone": "small_conv", "image_size": 100_000, "hidden": []}},
    },
    "deep": {"info": {"x": "NESTED"}},
}
MEASURE = """
import resource, sys
from scdh.model.hasher import Hasher
from scdh.errors import ConfigError, ModelError
from scdh.nets.backbones import backbone_names
backbone_names()  # imports torchvision and timm
Hasher.load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for folder in sys.argv[2:]:
    try:
        Hasher.load(folder)
        print("loaded", folder)
    except ModelError as error:
        assert len(str(error)) < 600, folder
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(folder, after - before)
    before = after
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is measured in kB there")
def test_a_hostile_model_takes_no_memory(tmp_path: Path) -> None:
    make_model().save(tmp_path / "good")
    weights = load_file(tmp_path / "good" / "model.safetensors")
    description = json.loads((tmp_path / "good" / "config.json").read_text())
    sizes = {}
    for name, changes in HOSTILE.items():
        hostile = json.loads(json.dumps(description))
        config = changes.get("config", {})
        hostile |= {key: value for key, value in changes.items() if key != "config"}
        for group, settings in config.items():  # type: ignore[attr-defined]
            hostile["config"][group] |= settings
        del hostile["checksum"]
        text = json.dumps(hostile).replace('"NESTED"', "[" * 100_000 + "]" * 100_000)
        folder = tmp_path / name
        folder.mkdir()
        if name == "many centres":  # the head fits; what training compares with is not computed
            head = torch.zeros(65536, 8), torch.zeros(65536)
            tensors = {"head.hash_layer.weight": head[0], "head.hash_layer.bias": head[1]}
        else:
            tensors = weights
        save_file(
            tensors, folder / "model.safetensors", metadata={"format": "pt", "description": text, "checksum": "x"}
        )
        sizes[str(folder)] = sum(file.stat().st_size for file in folder.iterdir())
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "good"), *sizes]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.rpartition(" ") for line in done.stdout.splitlines()]
    assert {folder for folder, _, grown in lines if grown.isdigit()} == set(sizes)
    for folder, _, grown in lines:
        if grown.isdigit():
            assert int(grown) * 1024 < 2 * sizes[folder] + (200 << 20), (folder, grown)


@pytest.mark.parametrize("start", [0, 1, 8, 60])
def test_a_header_that_promises_more_than_the_file_is_rejected(start: int, tmp_path: Path) -> None:
    make_model().save(tmp_path)
    file = tmp_path / "model.safetensors"
    data = file.read_bytes()
    for bad in (data[:start], (1 << 60).to_bytes(8, "little") + data[8:], data + b"more"):
        file.write_bytes(bad)
        with pytest.raises(ModelError, match="is broken or of another version"):
            Hasher.load(tmp_path)


@pytest.mark.parametrize(
    "backbone",
    [
        "small_conv",
        "efficientnet_lite0",
        pytest.param("regnet_y_400mf", marks=pytest.mark.slow),
        pytest.param("resnet18", marks=pytest.mark.slow),
        pytest.param("vit_tiny_patch16_224", marks=pytest.mark.slow),
        pytest.param("swinv2_cr_tiny_ns_224", marks=pytest.mark.slow),
        pytest.param("googlenet", marks=pytest.mark.slow),
    ],
)
def test_every_kind_of_backbone_loads_as_it_was(backbone: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    hasher = Hasher.build(
        load_config(overrides={"net.backbone": backbone, "net.pretrained": False}), ["a", "b"], False, None
    )
    hasher.network.eval()
    hasher.save(tmp_path / "m")
    again = Hasher.load(tmp_path / "m")
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 224, 224), dtype=np.uint8))
    size = hasher.preprocess.size if hasher.preprocess is not None else 0
    images = images[:, :, :size, :size]
    with torch.no_grad():
        assert torch.equal(hasher.network(images).u, again.network(images).u)
    assert not any(tensor.is_meta for tensor in [*again.network.parameters(), *again.network.buffers()])
    assert {name: p.requires_grad for name, p in again.network.named_parameters()} == {
        name: p.requires_grad for name, p in hasher.network.named_parameters()
    }


def test_a_model_does_not_tell_the_folders_of_its_data(tmp_path: Path) -> None:
    secret = tmp_path / "home of ann"
    paths = {"data.source": str(secret / "birds"), "data.root": str(secret), "data.labels": str(secret / "y.npy")}
    make_model(**paths).save(tmp_path / "m")
    for file in (tmp_path / "m").iterdir():
        assert str(tmp_path).encode() not in file.read_bytes(), file
    data = Hasher.load(tmp_path / "m").config.data
    assert (data.source, data.root, data.labels) == ("birds", "home of ann", "y.npy")


def test_a_mistyped_folder_is_not_looked_for_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*args: object, **kwargs: object) -> None:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr("huggingface_hub.snapshot_download", called)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", called)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"There is no model folder 'runs/digist'; a model of the hub would be 'hf:"):
        Hasher.load("runs/digist")
    with pytest.raises(ValueError, match="There is nothing at 'runs/digist'; a model or data set of the hub"):
        describe("runs/digist")


def test_weights_without_a_description_are_rejected(tmp_path: Path) -> None:
    make_model().save(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(load_file(file), file, metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"the header of model\.safetensors has no description"):
        Hasher.load(tmp_path)


def test_a_tensor_too_many_is_rejected(tmp_path: Path) -> None:
    make_model().save(tmp_path)
    file = tmp_path / "model.safetensors"
    with safe_open(file, framework="pt") as stored:
        header = stored.metadata()
    save_file({**load_file(file), "head.fc9.weight": torch.zeros(2)}, file, metadata=header)
    with pytest.raises(ModelError, match=r"the network has no place for the tensor 'head\.fc9\.weight'"):
        Hasher.load(tmp_path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"feature_width": None, "preprocess": {"size": 4096}}, "have 4096 pixels per side, at most 1024 are allowed"),
        ({"feature_width": 1_000_000}, "have 1000000 values, at most 100,000 are allowed"),
    ],
)
def test_sizes_that_take_much_memory_are_rejected(entries: dict[str, object], message: str, tmp_path: Path) -> None:
    make_model().save(tmp_path)
    weights = tmp_path / "model.safetensors"
    description = {**json.loads((tmp_path / "config.json").read_text()), **entries}
    (tmp_path / "config.json").unlink()
    save_file(load_file(weights), weights, metadata={"description": json.dumps(description)})
    with pytest.raises(ModelError, match=message):
        Hasher.load(tmp_path)


def test_a_long_name_of_a_method_is_shortened(tmp_path: Path) -> None:
    make_model().save(tmp_path)
    weights = tmp_path / "model.safetensors"
    description = json.loads((tmp_path / "config.json").read_text())
    description["config"]["method"]["name"] = "a" * 10_000
    (tmp_path / "config.json").unlink()
    save_file(load_file(weights), weights, metadata={"description": json.dumps(description)})
    with pytest.raises(ModelError, match=r"by method 'a{76}…, which is not installed") as caught:
        Hasher.load(tmp_path)
    assert len(str(caught.value)) < 400


def test_the_same_sizes_cannot_be_trained() -> None:
    with pytest.raises(ConfigError, match=r"net\.image_size"):
        load_config(overrides={"net.image_size": 1025})
    with pytest.raises(ConfigError, match="at most 100,000 values, not 100,001"):
        Hasher.build(load_config(overrides={"net.backbone": "features"}), ["a", "b"], False, 100_001)

"""A shop: photos, a model that was not trained, codes, an index; and a service on them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from scdh.codes import Codes
from scdh.config import load_config
from scdh.data.name_files import for_new_index, save_named_index
from scdh.data.row_names import RowNames
from scdh.index import HammingIndex
from scdh.model.hasher import Hasher
from scdh.serve import service as service_module
from scdh.serve.settings import Settings
from tests.cli.commands import must
from tests.data.data_files import encoded
from tests.serve.hosted import hosted

TOKEN = "a-token-for-tests-only"
HOSTILE = "<img src=x onerror=alert(1)>.png"
BITS = 13


def picture(seed: int, kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> bytes:
    """An image file of random pixels."""
    return encoded(seed, size, kind)


def save_model(folder: Path, width: int | None = None) -> Hasher:
    torch.manual_seed(0)
    backbone = {"net.backbone": "small_conv", "net.image_size": 16} if width is None else {"net.backbone": "features"}
    hasher = Hasher.build(load_config(overrides={**backbone, "method.bits": BITS}), ["apple", "pear"], False, width)
    hasher.network.eval()
    # Outputs around 0, so that codes of a model that was not trained differ.
    examples = [picture(seed) for seed in range(12)] if width is None else np.eye(width, dtype=np.float32)
    layer = [one for one in hasher.network.head.modules() if getattr(one, "out_features", 0) == BITS][-1]
    with torch.no_grad():
        layer.bias -= torch.from_numpy(np.median(hasher.hash_outputs(examples, workers=0), axis=0))
    hasher.save(folder)
    return hasher


def some_vectors(count: int) -> np.ndarray:
    """Embeddings for a model of width 5."""
    return np.random.default_rng(0).normal(size=(count, 5)).astype(np.float32)


def save_own_distance(folder: Path, name: str, count: int) -> tuple[Hasher, Codes]:
    """A model of embeddings of width 5 whose method ranks by a distance of its own, and an index of ``count`` items."""
    torch.manual_seed(0)
    overrides = {"method.name": name, "method.bits": 16, "net.backbone": "features"}
    hasher = Hasher.build(load_config(overrides=overrides), ["a", "b", "c"], False, 5)
    if name == "dqn":
        u = torch.from_numpy(hasher.hash_outputs(some_vectors(300)))
        hasher.network.head.quantiser.fit(u, np.random.default_rng(0))
    hasher.save(folder / "model")
    codes = hasher.encode(some_vectors(count))
    save_index(folder / "own.index", codes, hasher.fingerprint(), np.arange(count) % 2, ["even", "odd"])
    return hasher, codes


def save_index(path: Path, codes: Codes, model: str, labels: np.ndarray, label_names: list[str]) -> None:
    """An index whose items are called ``item 0`` … and have these labels."""
    ids = np.arange(len(codes)) if codes.ids is None else codes.ids
    metadata = {**codes.metadata, "model": model}
    names = RowNames(ids, [f"item {i}" for i in ids], labels, label_names)
    save_named_index(path, HammingIndex(for_new_index(Codes(codes.packed, codes.bits, ids, metadata))), names)


@pytest.fixture(scope="session", autouse=True)
def quick_start():
    """Loading the compiled loops of the search takes seconds; the test with a process of its own does load them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service_module, "warm_search", lambda snapshot: None)
        patch.setattr(service_module, "compile_search", lambda bits, kinds: [])
        yield


@pytest.fixture(scope="session")
def shop(tmp_path_factory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("shop")
    for number in range(12):
        label = ("apple", "pear")[number % 2]
        name = HOSTILE if number == 0 else f"{number}.png"
        (folder / "photos" / label).mkdir(parents=True, exist_ok=True)
        (folder / "photos" / label / name).write_bytes(picture(number))
    save_model(folder / "model")
    must(["encode", f"{folder}/model", f"{folder}/photos", "--workers", "0", "--out", f"{folder}/photos.codes"])
    must(["index", f"{folder}/photos.codes", "--out", f"{folder}/photos.index"])
    return folder


@pytest.fixture
def fresh_index(shop: Path, tmp_path: Path) -> Path:
    """An index of its own, for a test that changes it."""
    path = tmp_path / "own.index"
    must(["index", f"{shop}/photos.codes", "--out", str(path)])
    return path


@pytest.fixture
def writable(shop: Path, fresh_index: Path) -> Settings:
    return Settings(f"{shop}/model", str(fresh_index), f"{shop}/photos", token=TOKEN, watch_seconds=0.05)


@pytest.fixture(scope="session")
def site(shop: Path):
    """A service of photos that does not change."""
    with hosted(Settings(f"{shop}/model", f"{shop}/photos.index", f"{shop}/photos")) as running:
        yield running

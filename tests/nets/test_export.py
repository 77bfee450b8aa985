"""Networks exported to OpenVINO: the codes of torch, a private cache folder, and torch if anything goes wrong."""

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from scdh.config import load_config
from scdh.errors import ConfigError
from scdh.extras import missing_packages
from scdh.methods.registry import method_names
from scdh.model import engine
from scdh.model.hasher import Hasher
from scdh.nets.export import cache
from scdh.nets.export.agreement import differing_bits, trial_images
from scdh.nets.export.graph import ExportedNetwork, ExportError, Graph, convert
from scdh.nets.heads import HashHead
from scdh.storage import cache_folder
from tests.attack.damage import flip_a_bit
from tests.attack.interrupted import in_child

# Not importorskip, which would import it with its telemetry.
pytestmark = pytest.mark.skipif(bool(missing_packages("openvino")), reason="openvino is not installed")
SIDE = 24
ROOT = Path(__file__).parents[2]


def build(method: str = "scdh", bits: int = 8, seed: int = 0, **settings: object) -> Hasher:
    torch.manual_seed(seed)
    overrides = {"net.backbone": "small_conv", "net.image_size": SIDE, "method.name": method, "method.bits": bits}
    hasher = Hasher.build(load_config(overrides={**overrides, **settings}), ["a", "b"], False, None)
    hasher.network.eval()
    return hasher


def pictures(count: int, seed: int = 1) -> list[np.ndarray]:
    return list(np.random.default_rng(seed).integers(0, 256, (count, SIDE, SIDE, 3), dtype=np.uint8))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache folder, a new one for each test."""
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "exports"))
    return tmp_path / "exports"


@pytest.fixture
def few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "ENOUGH_TO_EXPORT", 1)
    monkeypatch.setattr(engine, "ENOUGH_TO_READ", 1)


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the networks that were converted, one for each time."""
    done: list[int] = []

    def counted(net, read, size):
        done.append(size)
        return convert(net, read, size)

    monkeypatch.setattr(engine, "convert", counted)
    return done


@pytest.fixture
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("no_warnings")
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_batches_of_any_size_give_the_outputs_of_torch(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        hasher = build(bits=13)
        for count in (1, 2, 3, 17, 300):
            items = pictures(count)
            codes, u = hasher.encode(items, outputs=True, engine="openvino", batch_size=150)
            expected_codes, expected = hasher.encode(items, outputs=True, engine="torch", batch_size=150)
            # 16-bit arithmetic, which processors that have it would use by default, is off by a thousandth.
            assert np.abs(u - expected).max() < 1e-5 * np.abs(expected).max()
            assert codes == expected_codes
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_every_method_can_be_exported() -> None:
    """One method for each way to make outputs: a head, and what the method reads of it."""
    built = [build(name, bits=16) for name in method_names()]
    different = {(type(one.network.head), type(one.method).hash_outputs): one for one in built}
    assert 8 < len(different) < len(built)
    for hasher in different.values():
        if not hasher.method.learns_by_gradient:  # fitted methods begin with zeros
            for buffer in hasher.network.head.buffers():
                if buffer.is_floating_point():
                    buffer.normal_()
        assert hasher.encode(pictures(40), engine="openvino") == hasher.encode(pictures(40), engine="torch")


@pytest.mark.slow
@pytest.mark.parametrize("backbone", ["efficientnet_lite0", "timm:vit_tiny_patch16_224"])
def test_backbones_can_be_exported(backbone: str) -> None:
    settings = {"net.backbone": backbone, "net.pretrained": False, "net.image_size": 64}
    hasher = build(bits=16, **settings)
    items = [image.numpy() for image in trial_images(64, 12).permute(0, 2, 3, 1)]
    differing = hasher.encode(items, engine="openvino").unpack() != hasher.encode(items, engine="torch").unpack()
    assert differing.mean() <= 0.001


def test_what_a_method_reads_of_the_outputs_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    hasher = build(bits=6)
    monkeypatch.setattr(hasher.method, "hash_outputs", lambda outputs: outputs.hidden[:, :6] - outputs.u)
    items = pictures(5)
    _, u = hasher.encode(items, outputs=True, engine="openvino")
    np.testing.assert_allclose(u, hasher.encode(items, outputs=True, engine="torch")[1], rtol=1e-3, atol=1e-5)


@pytest.mark.usefixtures("no_warnings")
def test_auto_exports_many_and_reads_an_export_for_fewer(exports: list[int], monkeypatch) -> None:
    monkeypatch.setattr(engine, "ENOUGH_TO_EXPORT", 6)
    monkeypatch.setattr(engine, "ENOUGH_TO_READ", 3)
    hasher = build()
    assert hasher._engines.exported(hasher, "torch") is None
    hasher.encode(pictures(5))
    assert not exports
    hasher.encode(pictures(6))
    assert exports == [SIDE]
    again = build()
    assert again._engines.exported(again, "auto", 2) is None
    assert again._engines.exported(again, "auto", 3) is not None
    assert again._engines.exported(again, "auto", 1) is not None  # it is there now
    assert exports == [SIDE]
    stream = build(seed=1)
    stream.encode(image for image in pictures(1))
    assert len(exports) == 2  # of an iterator no one knows the length


@pytest.mark.usefixtures("few_are_enough")
def test_changed_weights_are_exported_again(exports: list[int]) -> None:
    hasher, items = build(), pictures(9)
    before = hasher.encode(items)
    with torch.no_grad():
        hasher.network.head.hash_layer.weight.neg_()
    after = hasher.encode(items)
    assert after == hasher.encode(items, engine="torch") != before
    assert len(exports) == 2


def test_exporting_leaves_the_network_as_it_was() -> None:
    hasher = build(**{"net.dropout": 0.5, "net.hidden": [16]})
    hasher.network.train()
    state = {key: tensor.clone() for key, tensor in hasher.network.state_dict().items()}
    assert hasher._engines.exported(hasher, "openvino") is not None
    assert hasher.network.training
    assert all(torch.equal(tensor, state[key]) for key, tensor in hasher.network.state_dict().items())


def test_signals_are_handled_after_networks_were_freed() -> None:
    """Each OpenVINO core replaces the stack of signal handlers; freeing several left a freed one (see ``_core``)."""
    hashers = [build(seed=seed) for seed in range(3)]
    for hasher in hashers:
        hasher.encode(pictures(2), engine="openvino")
    while hashers:
        hashers.pop(0)

    def signalled() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: None)
        os.kill(os.getpid(), signal.SIGUSR1)

    assert in_child(signalled) == 0


RECORDER = """
import socket, sys
def record(*arguments, **options):
    with open(sys.argv[1], "a") as file:
        print(arguments[-1], file=file)
    raise OSError("no connections here")
socket.getaddrinfo = socket.create_connection = record
socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = record
"""
EXPORT = """
from tests.nets.test_export import build, pictures
build().encode(pictures(2), engine="openvino")
assert "openvino" in sys.modules and not any(name.startswith("openvino_telemetry") for name in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["scdh", "plain import"])
def test_openvino_sends_nothing_and_leaves_no_id(way: str, tmp_path: Path) -> None:
    """In a process of its own, as the sender has a thread that hides errors; the plain import shows that the test sees
    what OpenVINO does by itself.
    """
    if find_spec("openvino_telemetry") is None:
        pytest.skip("openvino_telemetry is not installed")
    home, calls = tmp_path / "home", tmp_path / "calls"
    home.mkdir()
    left_out = ("CI", "TF_BUILD", "JENKINS_URL", "HOME")  # in some of these OpenVINO sends nothing
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"HOME": str(home), "SCDH_EXPORT_DIR": str(tmp_path / "exports"), "XDG_CACHE_HOME": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    program = RECORDER + (EXPORT if way == "scdh" else "import openvino")
    subprocess.run([sys.executable, "-c", program, str(calls)], check=True, env=environment, cwd=ROOT)
    assert (calls.exists(), (home / "intel").exists()) == ((False, False) if way == "scdh" else (True, True))


def test_without_the_package_torch_computes(monkeypatch: pytest.MonkeyPatch, no_warnings, few_are_enough) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    hasher = build()
    assert hasher.encode(pictures(3)) == hasher.encode(pictures(3), engine="torch")
    with pytest.raises(ConfigError, match=r"engine openvino needs openvino, .* pip install 'scdh\[fast\]'\.$"):
        hasher.encode(pictures(3), engine="openvino")


def test_wrong_engines_are_named() -> None:
    with pytest.raises(ConfigError, match=r"engine 'openvin'.*openvino"):
        build().encode(pictures(1), engine="openvin")
    vectors = Hasher.build(load_config(overrides={"net.backbone": "features", "method.bits": 8}), ["a", "b"], False, 4)
    rows = np.ones((3, 4), np.float32)
    assert len(vectors.encode(rows)) == 3
    with pytest.raises(ConfigError, match="is for images; this model takes embeddings"):
        vectors.encode(rows, engine="openvino")


class Unexportable(HashHead):
    def forward(self, x):
        return torch.special.bessel_j0(super().forward(x))


class Failing(HashHead):
    def forward(self, x):
        if torch.jit.is_tracing():
            raise RuntimeError("no tracing here\nwith many\nlines")
        return super().forward(x)


@pytest.mark.usefixtures("few_are_enough")
@pytest.mark.parametrize("head", [Unexportable, Failing])
def test_what_cannot_be_exported_is_said_once_and_torch_computes(head: type, folder: Path, exports: list[int]) -> None:
    hasher = build()
    hasher.network.head = head(hasher.network.width, 8).eval()
    items = pictures(3)
    with pytest.warns(UserWarning, match=r"^This network cannot be exported.*; torch computes instead\.$") as said:
        found = [hasher.encode(items) for _ in range(2)]
    assert found[0] == found[1] == hasher.encode(items, engine="torch")
    assert len(said) == len(exports) == 1
    assert "\n" not in str(said[0].message)
    assert not list(folder.iterdir())
    with pytest.raises(ConfigError, match=r"^This network cannot be exported to OpenVINO \([^\n]*\)\.$"):
        hasher.encode(items, engine="openvino")


@pytest.mark.usefixtures("few_are_enough")
def test_an_export_with_other_codes_is_rejected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasher, other = build(), build(seed=1)
    monkeypatch.setattr(engine, "convert", lambda net, read, size: convert(other.network, read, size))
    with pytest.warns(UserWarning, match=r"gives other codes than torch \([\d.]+% of the bits differ\); torch"):
        assert hasher.encode(pictures(4)) == hasher.encode(pictures(4), engine="torch")
    assert not list(folder.iterdir())


def test_shares_of_differing_bits() -> None:
    expected = np.array([[1.0, -1.0], [0.0, 2.0]])
    assert differing_bits(expected, expected) == 0
    assert differing_bits(expected, np.array([[1.0, 1.0], [-0.5, 2.0]])) == 0.5
    assert differing_bits(expected, np.full((2, 2), np.nan)) == 1
    assert differing_bits(expected, expected[:1]) == 1
    images = trial_images(16, 4)
    assert images.shape == (4, 3, 16, 16)
    assert torch.equal(images, trial_images(16, 4))
    assert not torch.equal(images[0], images[2])


def cached_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


DAMAGE = {
    "cut": lambda data: data[:-1],
    "empty": lambda data: b"",
    "text": lambda data: b"not an export",
    "one bit": lambda data: flip_a_bit(data, Random(0)),
    "long header": lambda data: b"\xff" * 8 + data[8:],
}


@pytest.mark.usefixtures("no_warnings", "few_are_enough")
def test_a_damaged_file_is_made_again(folder: Path, exports: list[int]) -> None:
    items = pictures(5)
    codes = build().encode(items)
    whole = cached_file(folder).read_bytes()
    for number, damage in enumerate(DAMAGE.values()):
        cached_file(folder).write_bytes(damage(whole))
        assert build().encode(items) == codes
        assert len(exports) == number + 2
    assert build().encode(items) == codes
    assert len(exports) == len(DAMAGE) + 1


@pytest.mark.usefixtures("no_warnings", "few_are_enough")
def test_a_file_of_another_network_is_not_used(folder: Path, exports: list[int]) -> None:
    items = pictures(5)
    other = build(seed=1)
    other.encode(items)
    foreign = cached_file(folder).read_bytes()
    cached_file(folder).unlink()
    codes = build().encode(items)
    cached_file(folder).write_bytes(foreign)  # under the name of the first
    assert build().encode(items) == codes == build().encode(items, engine="torch")
    assert len(exports) == 3
    # The right key, but the graph of other code: only its outputs show it.
    graph = convert(other.network, other.method.hash_outputs, SIDE)
    cache.CachedGraph(engine._about(build())).write(graph)
    assert build().encode(items) == codes
    assert len(exports) == 4
    # A graph that is none.
    cache.CachedGraph(engine._about(build())).write(Graph(np.frombuffer(b"<net/>", np.uint8), np.zeros(1, np.uint8)))
    assert build().encode(items) == codes
    assert len(exports) == 5


@pytest.mark.usefixtures("few_are_enough")
def test_a_link_is_replaced_and_what_it_points_to_stays(folder: Path, exports: list[int], tmp_path: Path) -> None:
    items = pictures(5)
    codes = build().encode(items)
    target = tmp_path / "elsewhere"
    cached_file(folder).rename(target)
    content = target.read_bytes()
    (folder / f"{cache.CachedGraph(engine._about(build()))._key}.scdh-export").symlink_to(target)
    assert build().encode(items) == codes
    assert len(exports) == 2
    assert target.read_bytes() == content
    assert not cached_file(folder).is_symlink()


@pytest.mark.usefixtures("few_are_enough")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can change owners")
def test_a_file_of_another_user_is_not_read(folder: Path, exports: list[int]) -> None:
    items = pictures(5)
    codes = build().encode(items)
    os.chown(cached_file(folder), 12345, -1)
    assert build().encode(items) == codes
    assert len(exports) == 2


@pytest.mark.usefixtures("few_are_enough")
def test_a_folder_that_others_can_write_to_is_not_used(folder: Path, exports: list[int], monkeypatch) -> None:
    monkeypatch.setattr(cache_folder, "_warned", set())
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.warns(UserWarning, match="Exported networks are not cached: other users can write to") as said:
        found = [build().encode(pictures(5)) for _ in range(2)]
    assert found[0] == found[1]
    assert len(said) == 1
    assert len(exports) == 2
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("no_warnings", "few_are_enough")
def test_where_no_folder_can_be_made_nothing_is_cached(folder: Path, exports: list[int]) -> None:
    folder.write_text("a file where the folder should be")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = build().encode(pictures(5))
    assert codes == build().encode(pictures(5), engine="torch")
    assert len(exports) == 1


@pytest.mark.usefixtures("no_warnings", "few_are_enough")
def test_another_version_exports_again(folder: Path, exports: list[int], monkeypatch) -> None:
    build().encode(pictures(5))
    monkeypatch.setattr(engine, "version", lambda package: "another")
    build().encode(pictures(5))
    assert len(exports) == len(list(folder.iterdir())) == 2


def test_the_least_recently_used_are_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph(np.zeros(10, np.uint8), np.zeros(1000, np.uint8))
    places = [cache.CachedGraph({"number": number}) for number in range(4)]
    for age, place in enumerate(reversed(places[:3])):
        place.write(graph)
        os.utime(place._path(), (1000 - age, 1000 - age))
    size = places[0]._path().stat().st_size
    places[2].read()  # used now
    monkeypatch.setattr(cache, "MOST_BYTES", 2 * size)
    places[3].write(graph)
    assert [place.exists() for place in places] == [False, False, True, True]


def test_a_graph_that_cannot_be_read_is_one_line() -> None:
    with pytest.raises(ExportError) as error:
        ExportedNetwork(Graph(np.frombuffer(b"<net", np.uint8), np.zeros(1, np.uint8)), SIDE, 1)
    assert "\n" not in str(error.value)
    assert str(error.value)


def test_a_cached_export_is_not_made_again_for_one_bit_of_few_images(exports: list[int], monkeypatch) -> None:
    """One bit of four images is more than 0.1 %; the same export was accepted by its bits of 64 images."""
    shares = {engine.FEW_TRIALS: 1 / 32, engine.TRIALS: 1 / 2048}
    monkeypatch.setattr(engine, "_differing_bits", lambda model, net, exported, count: shares[count])
    for _ in range(2):
        build().encode(pictures(2), engine="openvino")
    assert len(exports) == 1
    shares[engine.TRIALS] = 0.01
    with pytest.raises(ConfigError, match="gives other codes than torch"):
        build().encode(pictures(2), engine="openvino")
    assert len(exports) == 2

"""INT8 models: layers against a slow twin, ranges and biases of calibration, and model folders that say so."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from scdh.config import load_config
from scdh.errors import DataError, ModelError
from scdh.experiments.info.find import describe
from scdh.extras import missing_packages
from scdh.model.folder import tensors_checksum
from scdh.model.hasher import Hasher
from scdh.nets.folding import fold_batch_norm, norms_after
from scdh.nets.int8.calibration import calibrate, mean_errors, record_ranges
from scdh.nets.int8.layers import RoundedInput, RoundedWeight, round_layers, rounded_layers
from scdh.nets.network import Network
from tests.nets.test_export import SIDE, build, pictures

ROOT = Path(__file__).parents[2]


def slow_input(x: np.ndarray, low: float, high: float) -> np.ndarray:
    step = (high - low) / 255
    zero = round(-low / step)
    return np.array([(min(max(round(float(v) / step) + zero, 0), 255) - zero) * step for v in x.ravel()]).reshape(
        x.shape
    )


def slow_weight(weight: np.ndarray) -> np.ndarray:
    rounded = np.zeros_like(weight)
    for channel, values in enumerate(weight.reshape(len(weight), -1)):
        pairs = [values[i] + values[j] for i in range(len(values)) for j in range(i)]  # the largest has one sign
        step = max(np.abs(values).max() / 127, np.abs([*pairs, 0]).max() / 128) or 1.0
        rounded[channel] = (np.array([round(float(v / step)) for v in values]) * step).reshape(weight.shape[1:])
    return rounded


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-3.0, 5.0), (-2.0, 0.0), (-1e-6, 1e-6), (-1e20, 1e20)])
def test_inputs_are_rounded_as_by_the_slow_twin(low: float, high: float) -> None:
    x = np.random.default_rng(0).uniform(1.5 * low - 0.1 * high, 1.5 * high, (3, 7, 5)).astype(np.float32)
    (found,) = RoundedInput(low, high)(nn.Identity(), (torch.from_numpy(x),))
    np.testing.assert_allclose(found.numpy(), slow_input(x, low, high), rtol=1e-5, atol=1e-6 * (high - low))
    assert len(np.unique(found)) <= 256


@pytest.mark.parametrize("low", [0.0, -8.0, -8.5])
def test_halves_go_to_the_even_level(low: float) -> None:
    x = np.arange(-9.0, 9.0, 0.25, np.float32)  # steps of 0.5, so that every second number is a half
    (found,) = RoundedInput(low, low + 127.5)(nn.Identity(), (torch.from_numpy(x),))
    assert np.array_equal(found.numpy(), slow_input(x, low, low + 127.5))


@pytest.mark.parametrize("shape", [(4, 3, 3, 3), (5, 1, 3, 3), (6, 9), (2, 1, 1, 1)])
def test_weights_are_rounded_as_by_the_slow_twin(shape: tuple[int, ...]) -> None:
    weight = torch.from_numpy(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    weight[0] = 0
    rounding = RoundedWeight(weight)
    np.testing.assert_allclose(rounding(weight).numpy(), slow_weight(weight.numpy()), rtol=1e-5, atol=1e-6)
    integers = (rounding(weight) / rounding.step.view(-1, *[1] * (weight.ndim - 1))).round().flatten(1)
    # Two products with inputs of 0 to 255 fit into 16 bits, whichever two are added.
    for sign in (1, -1):
        largest = (sign * integers).clamp(min=0).topk(min(2, integers.shape[1]), dim=1).values.sum(1)
        assert int(largest.max()) * 255 <= 32767


def convolutions() -> Network:
    """With a batch-norm that is folded, a convolution with a bias, and a linear layer that never runs."""

    class Trunk(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)
            self.second, self.unused = nn.Conv2d(6, 4, 1), nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(self.norm(self.first(x)).relu()).mean((2, 3))

    torch.manual_seed(0)
    net: Network = Network(Trunk(), 4, 8)
    norm = net.trunk.norm
    for tensor in (norm.weight, norm.running_var):
        nn.init.uniform_(tensor, 0.5, 2)
    nn.init.normal_(norm.running_mean)
    net.head = nn.Linear(4, 8)
    return net.eval()


def images(count: int, seed: int = 1) -> torch.Tensor:
    return torch.from_numpy(np.stack(pictures(count, seed))).permute(0, 3, 1, 2)


def test_ranges_are_the_mean_extremes_of_the_images() -> None:
    net, x = convolutions(), images(5)
    ranges = record_ranges(net, [x[:2], x[2:]]).ranges
    with torch.no_grad():
        hidden = net.trunk.norm(net.trunk.first(x / 255)).relu()
    assert ranges.keys() == {"first", "second", "unused"}
    assert ranges["unused"] is None  # it did not run
    first = x.flatten(1).float() / 255
    assert ranges["first"] == (0.0, pytest.approx(float(first.amax(1).mean())))
    assert ranges["second"] == (0.0, pytest.approx(float(hidden.flatten(1).amax(1).mean()), rel=1e-5))
    assert not any(layer._forward_pre_hooks for layer in rounded_layers(net).values())


def test_corrected_biases_give_the_means_of_the_float_network() -> None:
    net, x = convolutions(), images(32)
    net.trunk.first.weight.data *= 1000 ** torch.rand(6, 3, 3, 3)  # much is lost by rounding
    state = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    corrected, quantisation = calibrate(net, SIDE, [x])
    assert all(torch.equal(tensor, state[name]) for name, tensor in net.state_dict().items())
    changed = [name for name, tensor in corrected.state_dict().items() if not torch.equal(tensor, state[name])]
    assert changed == ["trunk.norm.bias", "trunk.second.bias"]
    plain, folded = fold_batch_norm(net, SIDE), fold_batch_norm(corrected, SIDE)
    before = mean_errors(plain, round_layers(plain, quantisation), x)
    after = mean_errors(plain, round_layers(folded, quantisation), x)
    for name, errors in after.items():
        assert errors.abs().max() < 1e-3 * before[name].abs().max()
    assert norms_after(net) == {"first": net.trunk.norm}


def test_a_layer_that_runs_twice_is_not_corrected() -> None:
    net, x = convolutions(), images(4)
    net.trunk.forward = lambda x: (
        net.trunk.second(net.trunk.norm(net.trunk.first(x))).add(net.trunk.first(x)[:, :4]).mean((2, 3))
    )
    errors = mean_errors(net, net, x)
    assert errors.keys() == {"second"}


def test_a_quantised_model_is_another_one_and_the_same_after_saving(tmp_path: Path) -> None:
    hasher, items = build(bits=24), pictures(40)
    made = hasher.quantised(items[:20], workers=0)
    assert hasher.quantisation is None
    assert made.fingerprint() != hasher.fingerprint()
    codes, u = made.encode(items, outputs=True, engine="torch", workers=0)
    expected = hasher.encode(items, outputs=True, engine="torch", workers=0)[1]
    assert 0 < np.abs(u - expected).max() < 0.1 * np.abs(expected).max()
    made.save(tmp_path / "m")
    again = Hasher.load(tmp_path / "m")
    assert again.quantisation == made.quantisation
    assert again.fingerprint() == made.fingerprint()
    assert again.encode(items, engine="torch", workers=0) == codes
    described = describe(str(tmp_path / "m")).facts
    assert (described["precision"], described["model_fingerprint"]) == ("int8", made.fingerprint())
    # Other ranges, other codes: another fingerprint.
    assert hasher.quantised(items[20:], workers=0).fingerprint() != made.fingerprint()
    again.save(tmp_path / "again")
    assert Hasher.load(tmp_path / "again").fingerprint() == made.fingerprint()
    hasher.save(tmp_path / "float")
    assert describe(str(tmp_path / "float")).facts["precision"] == "float32"
    assert json.loads((tmp_path / "float" / "config.json").read_text())["version"] == 1


def test_what_cannot_be_quantised_is_one_sentence() -> None:
    vectors = Hasher.build(load_config(overrides={"net.backbone": "features", "method.bits": 8}), ["a", "b"], False, 4)
    with pytest.raises(ModelError, match=r"^INT8 is for models of images; this model takes embeddings\.$"):
        vectors.quantised(np.ones((3, 4), np.float32))
    hasher = build()
    with pytest.raises(DataError, match="no images to calibrate on"):
        hasher.quantised([])
    with pytest.raises(ModelError, match="is an INT8 model already"):
        hasher.quantised(pictures(2), workers=0).quantised(pictures(2), workers=0)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("int8") / "m"
    build().quantised(pictures(4), workers=0).save(folder)
    return folder


LAYER = "body.0"  # the first convolution of small_conv
WRONG = {
    "no ranges": (lambda d: d.pop("ranges"), "its ranges are not a table"),
    "a list": (lambda d: d.update(ranges=[1, 2]), "its ranges are not a table"),
    "a layer is missing": (lambda d: d["ranges"].pop(LAYER), "no range of layer 'body.0'"),
    "a layer too many": (lambda d: d["ranges"].update(other=None), "'other', which the network lacks"),
    "a text": (lambda d: d["ranges"].update({LAYER: ["0", "1"]}), "range of layer 'body.0' cannot be"),
    "a truth value": (lambda d: d["ranges"].update({LAYER: [False, True]}), "range of layer 'body.0' cannot be"),
    "three numbers": (lambda d: d["ranges"].update({LAYER: [0, 1, 2]}), "range of layer 'body.0' cannot be"),
    "turned round": (lambda d: d["ranges"].update({LAYER: [1, -1]}), "range of layer 'body.0' cannot be"),
    "without 0": (lambda d: d["ranges"].update({LAYER: [1, 2]}), "range of layer 'body.0' cannot be"),
    "empty": (lambda d: d["ranges"].update({LAYER: [0, 0]}), "range of layer 'body.0' cannot be"),
    "too narrow": (lambda d: d["ranges"].update({LAYER: [0, 1e-40]}), "range of layer 'body.0' cannot be"),
    "too large": (lambda d: d["ranges"].update({LAYER: [0, 1e39]}), "range of layer 'body.0' cannot be"),
    "huge": (lambda d: d["ranges"].update({LAYER: [0, 10**400]}), "range of layer 'body.0' cannot be"),
    "no number": (lambda d: d["ranges"].update({LAYER: [0, float("nan")]}), ""),
    "endless": (lambda d: d["ranges"].update({LAYER: [0, float("inf")]}), ""),
    "another precision": (lambda d: d.update(precision="int4"), "its precision is 'int4', not float32 or int8"),
    "no precision": (lambda d: d.update(precision=["int8"]), "its precision is"),
    "embeddings": (lambda d: d.update(feature_width=3), "takes embeddings"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_ranges_are_one_sentence(case: str, stored: Path, tmp_path: Path) -> None:
    change, message = WRONG[case]
    description = json.loads((stored / "config.json").read_text())
    del description["checksum"]
    change(description)
    text, tensors = json.dumps(description), load_file(stored / "model.safetensors")
    forged = {"description": text, "checksum": tensors_checksum(tensors, {"description": text})}
    save_file(tensors, tmp_path / "model.safetensors", metadata=forged)
    with pytest.raises(ModelError, match="is broken or of another version") as error:
        Hasher.load(tmp_path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


OPENVINO = """
import sys
import numpy as np
from tests.nets.test_export import build, pictures
made, items = build(bits=64).quantised(pictures(8), workers=0), pictures(40, seed=5)
codes, u = made.encode(items, outputs=True, engine="openvino", workers=0)
expected = made.encode(items, engine="torch", workers=0)
assert (codes.unpack() != expected.unpack()).mean() < 0.03
request = made._engines.exported(made)._other_pieces._free.get()
kinds = []
for operation in request.get_compiled_model().get_runtime_model().get_ordered_ops():
    info = operation.get_rt_info()
    if info["layerType"].astype(str) == "Convolution":
        kinds.append(info["primitiveType"].astype(str))
assert len(kinds) == 6 and all(kind.endswith("I8") for kind in kinds), kinds
np.save(sys.argv[1], u)
"""


@pytest.mark.slow
@pytest.mark.skipif(bool(missing_packages("openvino")), reason="openvino is not installed")
def test_openvino_multiplies_integers_and_processors_agree(tmp_path: Path) -> None:
    """In processes of their own, of which one uses no VNNI, so that sums of 16 bits might overflow."""
    found = []
    for name, settings in {"usual": {}, "without VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}}.items():
        environment = {**os.environ, **settings, "SCDH_EXPORT_DIR": str(tmp_path / name)}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        command = [sys.executable, "-c", OPENVINO, str(tmp_path / f"{name}.npy")]
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.append(np.load(tmp_path / f"{name}.npy"))
    np.testing.assert_allclose(*found, atol=0.02 * np.abs(found[0]).max())

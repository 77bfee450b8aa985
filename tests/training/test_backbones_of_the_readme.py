"""Photos train by default with every kind of backbone that README names; weights are not loaded."""

from functools import partial

import pytest

from scdh.config import load_config
from scdh.nets.build import build_network
from scdh.nets.unallocated import build_unallocated
from scdh.training.plan import plan_run
from tests.data.data_files import write_pictures

BACKBONES = ["efficientnet_lite0", "resnet18", "resnet50", "alexnet", "vgg16", "vit_small_patch14_dinov2.lvd142m"]


@pytest.mark.parametrize("name", BACKBONES)
def test_the_settings_that_are_chosen_suit_the_backbone(name, tmp_path):
    write_pictures(tmp_path, [f"{kind}/{i}.png" for kind in ("apples", "pears") for i in range(8)])
    given = {"data.source": str(tmp_path), "net.backbone": name}
    for more in ({}, {"net.dropout": 0.0}, {"net.freeze": False}, {"net.freeze": False, "net.dropout": 0.0}):
        config = plan_run(load_config(overrides={**given, **more})).config
        network, preprocess = build_unallocated(partial(build_network, config.net, 32, None, pretrained=False))
        assert preprocess is not None
        assert network.width > 0

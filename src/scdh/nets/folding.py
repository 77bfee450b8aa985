"""Batch-norm folded into the convolution before it: the same outputs with a fifth less work, for encoding only."""

import copy
from itertools import pairwise

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from scdh.nets.network import Network


def fold_batch_norm(net: Network, image_size: int) -> Network:
    """A copy of ``net`` for inference without batch-norms after convolutions; ``net`` itself if its outputs differ.

    Networks list a convolution and its batch-norm one after the other, but need not run them in that order, so the
    outputs of the copy are compared with those of ``net`` on random images.
    """
    folded = copy.deepcopy(net).eval()
    pairs = [pair for parent in folded.trunk.modules() for pair in _pairs(parent)]
    if not pairs:
        return net
    for parent, conv, name, norm in pairs:
        assert norm.running_mean is not None  # _pairs() checks it
        assert norm.running_var is not None
        weight, bias = fuse_conv_bn_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
        )
        conv.weight, conv.bias = weight, bias
        # timm's batch-norm contains the activation that follows it.
        remaining = [getattr(norm, part) for part in ("drop", "act") if hasattr(norm, part)]
        setattr(parent, name, nn.Sequential(*remaining))
    folded.channels_last()
    was_training = net.training
    images = torch.randint(0, 256, (2, 3, image_size, image_size), dtype=torch.uint8, generator=torch.Generator())
    images = images.to(next(net.parameters()).device)
    with torch.inference_mode():
        expected, actual = net.eval().features(images), folded.features(images)
    net.train(was_training)
    same = torch.allclose(expected, actual, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    return folded if same else net


def norms_after(net: Network) -> dict[str, nn.BatchNorm2d]:
    """The batch-norms that :func:`fold_batch_norm` folds, by the name of their convolution within the trunk."""
    norms = {conv: norm for parent in net.trunk.modules() for _, conv, _, norm in _pairs(parent)}
    return {name: norms[layer] for name, layer in net.trunk.named_modules() if layer in norms}


def _pairs(parent: nn.Module) -> list[tuple[nn.Module, nn.Conv2d, str, nn.BatchNorm2d]]:
    """(parent, convolution, name of the batch-norm, batch-norm) where they are listed one after the other."""
    children = list(parent.named_children())
    return [
        (parent, conv, name, norm)
        for (_, conv), (name, norm) in pairwise(children)
        if isinstance(conv, nn.Conv2d)
        and isinstance(norm, nn.BatchNorm2d)
        and norm.running_mean is not None
        and norm.num_features == conv.out_channels
    ]

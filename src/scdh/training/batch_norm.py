"""Measure batch-norm statistics again once the weights are final."""

from collections.abc import Iterable

import torch

from scdh.data.batches.batch import Batch
from scdh.nets.network import Network, batch_norms


@torch.no_grad()
def recalibrate_batch_norm(net: Network, batches: Iterable[Batch]) -> int:
    """Replace running means and variances by those of ``batches``; returns how many layers there were.

    The running ones belong to random crops of the training size and, with averaged weights, to other weights than
    these. What the network will see is whole images of the evaluation size.
    """
    layers = batch_norms(net.trunk)
    momenta = [layer.momentum for layer in layers]
    net.eval()  # dropout stays off; only the layers below are in training mode
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the plain mean over all batches
        layer.train()
    if layers:
        for batch in batches:
            net.features(batch.inputs.to(net.device))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    net.eval()
    return len(layers)

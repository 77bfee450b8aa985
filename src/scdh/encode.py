"""The one bridge from torch to numpy: batches through a network, what is wanted of its outputs back as arrays."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from scdh.data.batches.batch import Batch
from scdh.nets.network import Network, Outputs


def run_network(
    net: Network, batches: Iterable[Batch], read: Callable[[Outputs], Tensor]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows [B], values [B, …]) of every batch, where ``read`` picks what to keep of the network's outputs.

    One batch at a time, so memory holds no more than one batch of real values.
    """
    net.eval()
    for batch in batches:
        with torch.inference_mode():
            values = read(net(batch.inputs.to(net.device))).float().cpu().numpy()
        yield batch.rows.numpy(), values


def read_network(net: Network, batches: Iterable[Batch], read: Callable[[Outputs], Tensor]) -> np.ndarray:
    """The values of all batches as one array [n, …]; the network's mode (training or not) is as before."""
    was_training = net.training
    values = [values for _, values in run_network(net, batches, read)]
    net.train(was_training)
    return np.concatenate(values) if values else np.empty((0, 0), np.float32)

"""Network + data → codes: the one bridge from torch to bits. Streams in batches; memory holds packed bits only."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from scdh.codes import Codes
from scdh.data.batches.loaders import Batch
from scdh.nets.network import Network, Outputs


def run_network(
    net: Network, batches: Iterable[Batch], read: Callable[[Outputs], Tensor]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(rows, values) of every batch, where ``read`` picks what to keep of the network's outputs."""
    device = next(net.parameters()).device
    net.eval()
    for batch in batches:
        with torch.inference_mode():
            values = read(net(batch.inputs.to(device))).float().cpu().numpy()
        yield batch.rows.numpy(), values


def encode_batches(net: Network, batches: Iterable[Batch], real_codes: Callable[[Outputs], Tensor]) -> Codes:
    """Codes of all batches, with the row numbers as ids (a skipped image leaves no row)."""
    pieces = [Codes.from_signs(u, ids=rows) for rows, u in run_network(net, batches, real_codes)]
    if not pieces:
        return Codes.from_signs(np.zeros((0, net.bits), np.float32), ids=np.zeros(0, np.int64))
    return Codes.concatenate(pieces)

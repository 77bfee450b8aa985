"""Cls-LSH: a classifier, and LSH of its class probabilities (a baseline that shows what a class label alone gives).

    min  l_1(W x + b, y),     code = sgn(R^T p − t),   p = softmax(W x + b)

R is a random rotation (columns orthonormal; rows, where there are more bits than classes), and t_k the median of bit k,
so that each bit is 1 for half of the items: what faiss's IndexLSH does with ``rotate_data`` and ``train_thresholds``.
The medians are taken over the training rows, each with its label in place of its probabilities, as the authors do for
rows with a label. They take the other rows of the database as well, which are not known here; and a row of the database
whose label is known gets the code of that label from them, here the code of its probabilities, like any other row.
"""

import numpy as np
import torch
from torch import Tensor

from scdh.losses import softmax_loss
from scdh.losses.label_masks import label_mask
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.heads import Head, linear_head
from scdh.nets.network import Network
from scdh.nets.unallocated import is_unallocated


class ClsLshSettings(Settings):
    """Nothing to set; the authors tune the regularisation of the classifier, here ``train.weight_decay``."""


class ClsLshHead(Head):
    """The classifier, the rotation R [C, r] and the thresholds t [r]."""

    rotation: Tensor
    thresholds: Tensor

    def __init__(self, width: int, bits: int, num_classes: int) -> None:
        super().__init__()
        self.classifier = linear_head(width, num_classes)
        self.register_buffer("rotation", torch.zeros(num_classes, bits))
        self.register_buffer("thresholds", torch.zeros(bits))
        if not is_unallocated():
            size = max(num_classes, bits)
            orthogonal, _ = torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))
            self.rotation.copy_(orthogonal[:num_classes, :bits])

    def forward(self, x: Tensor) -> Tensor:
        logits = self.classifier(x)
        with torch.autocast(x.device.type, enabled=False):
            return full_precision(logits).softmax(1) @ self.rotation - self.thresholds


class ClsLsh(Method):
    about = About(
        title="Cls-LSH",
        kind="unary",
        year=2017,
        reference="Sablayrolles et al., How should we evaluate supervised hashing?, ICASSP 2017",
        cost="O(B·C·r)",
        fidelity="variant",
        differs="the classifier reads the run's network, the authors' kernel features; thresholds are medians over "
        "training labels, the authors' also over the other database rows; labelled database rows are encoded like "
        "others, the authors' by their label; many labels are not in the paper",
        use_when="a comparison should show what classification alone gives",
    )
    Settings = ClsLshSettings
    tuned_settings = {  # noqa: RUF012
        "train.weight_decay": (0.0, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5)
    }

    def build(self, net: Network[ClsLshHead]) -> None:
        net.head = ClsLshHead(net.width, net.bits, self.num_classes)

    def prepare(self, net: Network[ClsLshHead], data: MethodData) -> None:
        targets = label_mask(torch.tensor(data.labels), self.num_classes).double()
        targets = targets[targets.any(1)]
        targets /= targets.sum(1, keepdim=True)  # § of several labels, each counts alike, as in the loss
        if len(targets):
            rotated = targets @ net.head.rotation.to(targets)
            net.head.thresholds.copy_(torch.from_numpy(np.median(rotated.numpy(), axis=0)))

    def step(self, net: Network[ClsLshHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        return {"loss": softmax_loss(net.head.classifier(net(batch.inputs).hidden), batch.labels)}

"""DSDH: Deep Supervised Discrete Hashing, DPSH whose outputs are drawn to codes that also predict the labels.

    min  −Σ_j [ s_ij θ_ij − log(1 + e^{θ_ij}) ] + η ‖b_i − u_i‖² + μ ‖y_i − W^T b_i‖² + ν ‖W‖²,     θ_ij = u_i · u_j / 2

over the network, W and b ∈ {−1, 1}^r. At every step, for the labelled rows of the batch: W by ridge regression of Y on
sgn(U), then B bit by bit (discrete cyclic coordinate descent), then a gradient step of the first two terms. That is the
authors' code; the paper's text alternates over the whole set. b is fixed in the gradient step, so the gradient of
η ‖b − u‖² pulls u across 0 where the labels want another bit.

j runs over the whole training set by a table of outputs, as in DPSH; the first epochs compare within batches for the
same reason as there. B and W are those of a process's share of the batch.
"""

import torch
from pydantic import Field
from torch import Tensor

from scdh.errors import TrainingError
from scdh.losses import pair_likelihood_loss
from scdh.losses.label_masks import has_label, label_mask, mean_over_labelled
from scdh.losses.outputs import full_precision
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.discrete import coordinate_descent, ridge_weights
from scdh.nets.network import Network
from scdh.nets.stored import StoredOutputs


class DsdhSettings(Settings):
    """μ = 1, ν = 0.1 and η = 55 are the authors' for CIFAR-10, with sums in place of means."""

    # The authors' gradient is that of a sum over ordered pairs, in which a row is i once and j once; here it is i only.
    # So their 55 is 55 / 2n with means over pairs and rows: 0.0055 for the 5,000 training images of CIFAR-10.
    eta: float = Field(0.0055, ge=0, description="η, weight of ‖b − u‖², mean over rows")
    label_weight: float = Field(1 / 55, ge=0, description="μ/η, weight of the labels against the outputs in b's step")
    nu: float = Field(0.1, gt=0, description="ν, weight of ‖W‖² in the ridge regression")
    sweeps: int = Field(10, ge=1, description="passes of coordinate descent over the bits")
    batch_epochs: float = Field(
        10.0, ge=0, description="first epochs that compare a batch with itself, not with all stored; 0: paper's"
    )


class Dsdh(Method):
    about = About(
        title="DSDH",
        kind="pairwise",
        year=2017,
        reference="Li et al., Deep Supervised Discrete Hashing, NIPS 2017",
        cost="O(B·n·(r + C) + B·r²)",
        fidelity="variant",
        differs="the first epochs compare within batches; codes are solved for each batch, as in the authors' code",
        use_when="you have a few thousand training rows, and a linear layer should classify the codes",
    )
    Settings = DsdhSettings
    settings: DsdhSettings
    tuned_settings = {"eta": (0.002, 0.0055, 0.011), "label_weight": (1 / 55, 1.0, 10.0)}  # noqa: RUF012
    stored: StoredOutputs
    stored_labels: Tensor

    def prepare(self, net: Network, data: MethodData) -> None:
        self.stored = StoredOutputs(data.rows, net.bits)
        self.register_buffer("stored_labels", torch.tensor(data.labels), persistent=False)

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        if not hasattr(self, "stored"):
            raise TrainingError("DSDH compares with all training rows; call prepare(net, data) before step.")
        u = full_precision(net(batch.inputs).u)
        self.stored.update(batch.rows, u)
        if moment.epochs_done < self.settings.batch_epochs:
            pairs = pair_likelihood_loss(u, batch.labels, u, batch.labels)
        else:
            pairs = pair_likelihood_loss(u, batch.labels, self.stored.outputs, self.stored_labels, self.stored.seen)
        codes = self.solve_codes(u, batch.labels)
        distance = mean_over_labelled((codes - u).square().sum(1), has_label(batch.labels))
        return {"loss": pairs + self.settings.eta * distance, "pairs": pairs, "distance": distance}

    @torch.no_grad()
    def solve_codes(self, u: Tensor, labels: Tensor) -> Tensor:
        """B [B, r] of ±1; 0 for rows without a label."""
        s, labelled = self.settings, has_label(labels)
        codes = torch.zeros_like(u)
        with torch.autocast(u.device.type, enabled=False):
            known, y = u[labelled], label_mask(labels[labelled], self.num_classes).to(u.dtype)
            weights = ridge_weights(torch.where(known >= 0, 1.0, -1.0).to(u.dtype), y, s.nu)
            linear = known + s.label_weight * y @ weights.T
            codes[labelled] = coordinate_descent(linear, s.label_weight * weights @ weights.T, s.sweeps)
        return codes

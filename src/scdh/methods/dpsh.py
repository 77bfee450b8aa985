"""DPSH: Deep Pairwise-Supervised Hashing, the likelihood of pair labels against all training outputs.

    min  −Σ_j [ s_ij θ_ij − log(1 + e^{θ_ij}) ] + η ‖b_i − u_i‖²,     θ_ij = u_i · u_j / 2, b = sgn(u)

j runs over the whole training set: the output that each row had when it was last in a batch is kept in a table, and
gradients flow to the batch's side only.
"""

import torch
from pydantic import Field
from torch import Tensor

from scdh.errors import TrainingError
from scdh.losses import pair_likelihood_loss, sign_distance_loss
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.network import Network
from scdh.nets.stored import StoredOutputs


class DpshSettings(Settings):
    """η is the authors' for CIFAR-10; three times as much makes digits collapse."""

    # The authors divide both terms by n·B and take 50 in their script for CIFAR-10, 10 in the demo that they describe;
    # with means over pairs and rows that is 50/n or 10/n, 0.01 or 0.002 for its 5,000 training images. Given as a mean
    # it does not depend on n.
    eta: float = Field(0.01, ge=0, description="η, weight of ‖b − u‖², mean over rows")
    # Not in the paper, which starts from a pretrained network at a low rate. If u changes much within an epoch the
    # table is out of date: most pairs are dissimilar, so all outputs move away from where the others were, and end at 0
    # (digits, pair loss on the training rows after 30 epochs: 0.74 without such a start, 0.44 with it).
    batch_epochs: float = Field(
        10.0, ge=0, description="first epochs that compare a batch with itself, not with all stored; 0: paper's"
    )


class Dpsh(Method):
    about = About(
        title="DPSH",
        kind="pairwise",
        year=2016,
        reference="Li et al., Feature Learning based Deep Supervised Hashing with Pairwise Labels, IJCAI 2016",
        cost="O(B·n·(r + C))",
        fidelity="variant",
        differs="the first epochs compare within batches",
        use_when="you have a few thousand training rows with one or several labels",
    )
    Settings = DpshSettings
    settings: DpshSettings
    learns_from_pairs = True
    tuned_settings = {"eta": (0.002, 0.01, 0.03), "batch_epochs": (0.0, 5.0, 10.0)}  # noqa: RUF012
    stored: StoredOutputs
    stored_labels: Tensor

    def prepare(self, net: Network, data: MethodData) -> None:
        self.stored = StoredOutputs(data.rows, net.bits)
        self.register_buffer("stored_labels", torch.tensor(data.labels), persistent=False)

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        if not hasattr(self, "stored"):
            raise TrainingError("DPSH compares with all training rows; call prepare(net, data) before step.")
        u = net(batch.inputs).u
        self.stored.update(batch.rows, u)  # before the loss, as the authors do: a row is compared with itself too
        # § The authors start from a table of zeros, whose pairs have no gradient and only lower the mean of the
        # others: η would dominate the first epoch of a large set. Rows are left out until they were seen.
        within = moment.epochs_done < self.settings.batch_epochs
        known = self.known_pairs(batch, with_all=not within)
        if within:
            pairs = pair_likelihood_loss(u, batch.labels, u, batch.labels, pairs=known)
        else:
            stored, stored_labels, seen = self.stored.outputs, self.stored_labels, self.stored.seen
            pairs = pair_likelihood_loss(u, batch.labels, stored, stored_labels, seen, known)
        corners = sign_distance_loss(u, batch.labels, p=2)
        return {"loss": pairs + self.settings.eta * corners, "pairs": pairs, "corners": corners}

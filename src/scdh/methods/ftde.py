"""FTDE: Fast Training of Triplet-based Deep Binary Embedding Networks, bits are inferred first and then classified.

    1. z_r = argmin Σ_(i,j,k) max(0, r/2 − [d_H(z_i, z_k) − d_H(z_i, z_j)])     over the r-th bit of all training rows
    2. min  mean_i Σ_r log(1 + e^{−z_ir u_ir})                                  over the network

Bits come in groups of 8. Within a group each bit is inferred with the inferred bits before it, by one pass of graph
cuts over blocks of rows (``nets.graph_cuts``); then the network learns all bits so far, and the next group is inferred
with the codes that the network predicts, so that new bits correct its errors. Triplets are drawn once.

§ The authors train a new network from ImageNet weights for every group; here one network goes on, with targets for more
bits: the groups share the first half of the epochs, and all bits are trained in the second. Where an epoch is the first
of two groups, the second one is inferred from the first's inferred bits.
"""

import math

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from scdh.errors import TrainingError
from scdh.losses.target_codes import bit_likelihood_loss
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.graph_cuts import TripletForm, draw_triplets, infer_codes
from scdh.nets.network import Network
from scdh.nets.stored import StoredOutputs

GROUP = 8  # bits


class FtdeSettings(Settings):
    triplets: int = Field(500, ge=1, description="triplets of each training row, drawn once")
    most_rows: int = Field(10_000, ge=2, description="training rows whose bits are inferred; the rest do not count")
    group_share: float = Field(0.5, gt=0, le=1, description="share of the epochs in which groups of bits are added")


class Ftde(Method):
    about = About(
        title="FTDE",
        kind="triplet",
        year=2016,
        reference="Zhuang et al., Fast Training of Triplet-based Deep Binary Embedding Networks, CVPR 2016",
        cost="O(B·r); graph cuts over 500·n triplets for each bit",
        fidelity="variant",
        differs="one network goes on from group to group, where the authors train a new one for each",
        use_when="you have a few thousand training rows with one label each",
        labels=("single",),
    )
    Settings = FtdeSettings
    settings: FtdeSettings
    tuned_settings = {"group_share": (0.25, 0.5, 0.75), "train.weight_decay": (5e-4, 1e-2, 0.1)}  # noqa: RUF012
    codes: StoredOutputs

    def prepare(self, net: Network, data: MethodData) -> None:
        self.seed = torch.initial_seed()  # now: in training, processes have seeds of their own
        self.codes = StoredOutputs(data.rows, net.bits)
        rng, labelled = np.random.default_rng([self.seed, 0]), np.flatnonzero(data.labels >= 0)
        self.inferred_rows = np.sort(rng.permutation(labelled)[: self.settings.most_rows])
        triplets = draw_triplets(data.labels[self.inferred_rows], self.settings.triplets, rng)
        self.form = TripletForm(triplets, len(self.inferred_rows))
        self.bits_known: int | None = None  # not read from the table before a checkpoint may have filled it

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        if not hasattr(self, "codes"):
            raise TrainingError("FTDE infers the bits of all training rows; call prepare(net, data) before step.")
        self._add_bits(self._bits_at(moment.epoch, moment.epochs))
        u = net(batch.inputs).u
        return {"loss": bit_likelihood_loss(u, self.codes.read(batch.rows).to(u.dtype))}

    def end_epoch(self, net: Network, data: MethodData, moment: Moment) -> dict[str, float]:
        wanted = self._bits_at(moment.epoch + 1, moment.epochs)
        if self.bits_known is not None and wanted > self.bits_known:
            predicted = np.where(data.u(net)[self.inferred_rows] >= 0, 1, -1)
            self._add_bits(wanted, predicted[:, : self.bits_known])
        return {"bits_inferred": float(self.bits_known or 0)}

    def _bits_at(self, epoch: int, epochs: int) -> int:
        """How many bits are trained in an epoch."""
        groups = math.ceil(self.bits / GROUP)
        share = max(epochs, 1) * self.settings.group_share
        return min(GROUP * min(math.ceil((epoch + 1) / share * groups), groups), self.bits)

    def _add_bits(self, wanted: int, predicted: np.ndarray | None = None) -> None:
        """Infer bits up to ``wanted``; the first new one follows those of the network, or the inferred ones."""
        if self.bits_known is None:
            self.bits_known = int(self.codes.outputs.ne(0).any(0).sum())
        if wanted <= self.bits_known or not len(self.inferred_rows):
            return
        table = self.codes.outputs.cpu().numpy()
        earlier = table[self.inferred_rows, : self.bits_known] if predicted is None else predicted
        rng = np.random.default_rng([self.seed, 1 + self.bits_known])
        found = infer_codes(self.form, earlier.astype(np.int64), wanted - self.bits_known, rng)
        new = torch.from_numpy(found).to(self.codes.outputs)
        self.codes.outputs[torch.from_numpy(self.inferred_rows), self.bits_known : wanted] = new
        self.bits_known = wanted

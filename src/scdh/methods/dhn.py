"""DHN: Deep Hashing Network, the likelihood of pair labels within a batch, and a smooth pull of h towards ±1.

    min  Σ_ij [ log(1 + e^{θ_ij}) − s_ij θ_ij ] + λ Σ_i Σ_k log cosh(|h_ik| − 1),     h = tanh(u), θ_ij = h_i · h_j

Both terms are means, over the pairs and over the rows of a batch, as in the gradients of the authors' Caffe layers.
Their pairs are all of a batch, those of a row with itself among them.

Pairs are formed within a process's share of the batch: with several processes there are fewer of them.
"""

from pydantic import Field
from torch import Tensor

from scdh.losses.outputs import full_precision
from scdh.losses.pairwise import batch_likelihood_loss
from scdh.losses.quantization import log_cosh_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.network import Network


class DhnSettings(Settings):
    """λ of the authors: 0.3 and 0.2 in two releases for NUS-WIDE, 0 for CIFAR-10 in a third, with balanced pairs."""

    # § λ of the paper is not known. Where few pairs are similar 0.2 and 0.3 outweigh the pairs, and all codes become
    # one: validation MAP of digits with 12 bits is 0.79 with 0.1, 0.70 with 0.2 and 0.10 with 0.3. Less is worse too:
    # frozen CIFAR-10 with 32 bits has 0.29 with 0, 0.48 with 0.003, 0.53 with 0.03 and 0.57 with 0.1.
    lam: float = Field(0.1, ge=0, description="λ, weight of log cosh(|h| − 1), summed over bits, mean over rows")


class Dhn(Method):
    about = About(
        title="DHN",
        kind="pairwise",
        year=2016,
        reference="Zhu et al., Deep Hashing Network for Efficient Similarity Retrieval, AAAI 2016",
        cost="O(B²·r)",
        fidelity="variant",
        differs="λ = 0.1 is ours: with 0.2 or 0.3, the authors' for NUS-WIDE, codes collapse where few pairs are "
        "similar; their release for CIFAR-10 has λ = 0 and balances the pairs",
        use_when="you want a pairwise baseline without a table of all rows",
    )
    Settings = DhnSettings
    settings: DhnSettings
    learns_from_pairs = True
    tuned_settings = {"lam": (0.03, 0.1, 0.3), "train.weight_decay": (5e-4, 1e-2, 0.1)}  # noqa: RUF012

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        h = full_precision(net(batch.inputs).u).tanh()  # has the sign of u, so codes are read from u
        pairs = batch_likelihood_loss(h, batch.labels, with_itself=True, pairs=self.known_pairs(batch))
        corners = log_cosh_loss(h, batch.labels)
        return {"loss": pairs + self.settings.lam * corners, "pairs": pairs, "corners": corners}

"""DQN: Deep Quantization Network, cosines of a bottleneck follow the pair labels, and its codes are words of codebooks.

    min  mean_ij (t_ij − cos(z_i, z_j))² + λ mean_i ‖z_i − Σ_m C_m b_im‖²,     z = tanh(bottleneck), t = ±1

b_im chooses one of the 256 words of slice m of z, so a code of r bits is r/8 bytes. Items are ranked by the inner
product of a query's real z with what the code of an item stands for, not by Hamming distance. λ acts from the third
epoch on; codebooks are fitted to z of all training rows by k-means, after the first, every second and the last epoch.
§ b of a row is its nearest word at the present step; the release reassigns words only when it fits the codebooks.

Pairs are formed within a process's share of the batch: with several processes there are fewer of them.
"""

from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from scdh.codes import Codes
from scdh.errors import ConfigError
from scdh.losses.label_masks import has_label, mean_over_labelled
from scdh.losses.outputs import full_precision
from scdh.losses.pairwise import cosine_pair_loss
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.heads import HashHead
from scdh.nets.network import Network
from scdh.nets.quantiser import ProductQuantiser

REFIT_EPOCHS = 2  # as in the release: codebooks are fitted this often, and λ acts after this many epochs


class DqnSettings(Settings):
    """Defaults are those of the release by the authors' group."""

    lam: float = Field(1e-4, ge=0, description="λ, weight of the quantization error, mean over rows")
    bottleneck: int = Field(300, ge=1, description="width of z")


class DqnHead(HashHead):
    """The bottleneck z, and the codebooks, which do not learn by gradient."""

    def __init__(self, width: int, bottleneck: int, parts: int) -> None:
        super().__init__(width, bottleneck)
        self.quantiser = ProductQuantiser(bottleneck, parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.hash_layer(x).tanh()


class Dqn(Method):
    about = About(
        title="DQN",
        kind="pairwise, quantization",
        year=2016,
        reference="Cao et al., Deep Quantization Network for Efficient Image Retrieval, AAAI 2016",
        cost="O(B²·d + B·256·d), d the bottleneck; k-means every second epoch",
        fidelity="variant",
        differs="words are assigned at every step; Lloyd's k-means in place of mini-batch k-means",
        use_when="code lengths are multiples of 8, and real-valued distances are acceptable",
        bits_multiple=8,  # one byte for each codebook
    )
    Settings = DqnSettings
    settings: DqnSettings
    tuned_settings = {"lam": (1e-4, 1e-2, 1.0), "bottleneck": (64, 150, 300)}  # noqa: RUF012
    ranking = "asymmetric quantizer distance"

    def __init__(self, settings: Any, bits: int, num_classes: int, multi_label: bool) -> None:
        super().__init__(settings, bits, num_classes, multi_label)
        if bits // 8 > settings.bottleneck:
            raise ConfigError(f"DQN with {bits} bits needs method.bottleneck of at least {bits // 8}.")
        self.seed = 0

    def build(self, net: Network[DqnHead]) -> None:
        net.head = DqnHead(net.width, self.settings.bottleneck, self.bits // 8)

    def prepare(self, net: Network[DqnHead], data: MethodData) -> None:
        self.seed = torch.initial_seed()  # now: in training, processes have seeds of their own

    def step(self, net: Network[DqnHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        z, quantiser = full_precision(net(batch.inputs).u), net.head.quantiser
        pairs = cosine_pair_loss(z, batch.labels)
        with torch.autocast(z.device.type, enabled=False):
            error = (z - quantiser.reconstruct(quantiser.assign(z.detach()))).square().sum(1)
            quantization = mean_over_labelled(error, has_label(batch.labels))
        weight = self.settings.lam if moment.epoch >= REFIT_EPOCHS else 0.0
        return {"loss": pairs + weight * quantization, "pairs": pairs, "quantization": quantization}

    def end_epoch(self, net: Network[DqnHead], data: MethodData, moment: Moment) -> dict[str, float]:
        done = moment.epoch + 1
        if done == 1 or done % REFIT_EPOCHS == 0 or done == moment.epochs:
            rng = np.random.default_rng([self.seed, moment.epoch])
            net.head.quantiser.fit(torch.from_numpy(data.u(net)), rng)
        return {}

    def signs(self, net: Network[DqnHead], u: np.ndarray) -> np.ndarray:
        """The bits of the chosen words' numbers as ±1."""
        words = net.head.quantiser.assign(torch.from_numpy(u)).cpu().numpy().astype(np.uint8)
        return np.unpackbits(words, axis=1).astype(np.float32) * 2 - 1

    def distance_tables(self, net: Network[DqnHead], u: np.ndarray) -> np.ndarray:
        """−z · (what the code stands for): products of each slice of z with all its words.

        Query by query, as a product for many differs in its last digits, and equal distances would not be equal.
        """
        quantiser = net.head.quantiser
        words, z = quantiser.words.cpu().numpy().astype(np.float64), u.astype(np.float64)
        return np.concatenate([-(z[:, None, part] @ words[:, part].T) for part in quantiser.slices], 1)

    def outputs_of_codes(self, net: Network[DqnHead], codes: Codes) -> np.ndarray:
        quantiser = net.head.quantiser
        return quantiser.reconstruct(torch.from_numpy(codes.packed.astype(np.int64))).cpu().numpy()

"""Cls-onehot: a classifier; the code of an item is its class, one bit per class (a baseline, like Cls-LSH).

    min  l_1(u, y),     code = one-hot(argmax u),     distance of a query to a code = 1 − p · code,   p = softmax(u)

u = W x + b has one output per class, so codes have C bits, whatever ``method.bits`` says: the paper has one score
for all lengths. A query keeps its probabilities, and the items of one class are all at the same distance from it.
"""

import numpy as np
from scipy.special import softmax
from torch import Tensor

from scdh.codes import Codes
from scdh.losses import softmax_loss
from scdh.methods.base import START, About, Batch, Method, Moment, Settings
from scdh.nets.network import Network

SURE = 50.0  # with this score of one class, the probabilities of all others are 0


class ClsOnehotSettings(Settings):
    """Nothing to set; the authors tune the regularisation of the classifier, here ``train.weight_decay``."""


class ClsOnehot(Method):
    about = About(
        title="Cls-onehot",
        kind="unary",
        year=2017,
        reference="Sablayrolles et al., How should we evaluate supervised hashing?, ICASSP 2017",
        cost="O(B·C)",
        fidelity="variant",
        differs="the classifier reads the run's network, the authors' kernel features; labelled database rows are "
        "encoded like others, the authors' by their label",
        use_when="a comparison should show what predicted classes alone give",
        labels=("single",),
    )
    Settings = ClsOnehotSettings
    tuned_settings = {  # noqa: RUF012
        "train.weight_decay": (0.0, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5)
    }
    ranking = "the probability of an item's class"

    @property
    def code_bits(self) -> int:
        return self.num_classes

    def step(self, net: Network, batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        return {"loss": softmax_loss(net(batch.inputs).u, batch.labels)}

    def signs(self, net: Network, u: np.ndarray) -> np.ndarray:
        """1 for the class with the largest score (the first of equal ones), −1 for the others."""
        signs = np.full(u.shape, -1, np.float32)
        signs[np.arange(len(u)), u.argmax(1)] = 1
        return signs

    def distance_tables(self, net: Network, u: np.ndarray) -> np.ndarray:
        """1 − the query's probability of the item's class, whose bit is the only one of a code that is 1."""
        tables = -probabilities_of_bytes(softmax(u.astype(np.float64), axis=1))
        tables[:, 0] += 1
        return tables

    def distances(self, net: Network, u: np.ndarray, database: Codes) -> np.ndarray:
        """The same without tables, which are large where there are many classes."""
        return 1 - softmax(u.astype(np.float64), axis=1)[:, database.unpack().argmax(1)]

    def outputs_of_codes(self, net: Network, codes: Codes) -> np.ndarray:
        """Scores of a query that is sure of its class."""
        return SURE * codes.unpack().astype(np.float32)


def probabilities_of_bytes(probabilities: np.ndarray) -> np.ndarray:
    """Sums of the probabilities [q, C] of the classes whose bits are 1 in each value of each byte: [q, bytes, 256]."""
    count, classes = probabilities.shape
    padded = np.pad(probabilities, ((0, 0), (0, -classes % 8)))
    bits_of_values = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    return padded.reshape(count, -1, 8) @ bits_of_values.T.astype(np.float64)

"""BGDH: Semi-supervised Deep Hashing with a Bipartite Graph; a reconstruction from the abstract, Planetoid and DPSH.

    min  −[s_ij θ_ij − log(1 + e^{θ_ij})] + η ‖b_i − u_i‖² − λ [Σ_c P_ic log σ(e_i·w_c) + 1/m Σ_c log σ(−e_i·w_c)]

θ_ij = u_i · u_j / 2 over labelled pairs. The graph joins all rows that train, labelled or not, to landmarks (k-means
centres of the trunk's features before training); P_ic is how probably a walk from row i meets landmark c of m, and
w_c its vector. e = E x + a is a function of what the head reads, so that new items have an embedding too (the paper's
inductive variant), and u = M [x; max(e, 0)] + v reads both.

From the paper are known: a bipartite graph, embeddings that predict their context in it, codes from features and
embeddings together, and all of it learned jointly. The formulas and all constants are not known. § Landmarks are the
contexts and the walks are not drawn: their probabilities are computed. § Pairs are those of a batch (with several
processes, of a process's share), where DPSH compares with all rows. § Labels make no contexts of their own.
"""

import torch
from pydantic import Field
from torch import Tensor, nn

from scdh.errors import TrainingError
from scdh.losses import graph_context_loss, pair_likelihood_loss, sign_distance_loss
from scdh.methods.base import START, About, Batch, Method, MethodData, Moment, Settings
from scdh.nets.bipartite import BipartiteGraph
from scdh.nets.heads import HashHead, linear_head
from scdh.nets.network import Network


class BgdhSettings(Settings):
    """η is DPSH's, the size of embeddings Planetoid's; the other values are ours."""

    eta: float = Field(0.01, ge=0, description="η, weight of ‖b − u‖², mean over rows")
    # MAP of digits with 10 labelled rows per class (validation rows, 32 bits): 0.71 with λ = 0 and 0.1, 0.75 with 1.
    graph_weight: float = Field(1.0, ge=0, description="λ, weight of the graph's loss")
    landmarks: int = Field(100, ge=1, description="m, number of landmarks")
    neighbours: int = Field(5, ge=1, description="nearest landmarks that a row is joined to")
    hops: int = Field(2, ge=1, description="landmarks that a walk meets")
    embedding: int = Field(50, ge=1, description="size of e")


class BgdhHead(HashHead):
    """The embedding e of what the head reads, and the hash layer, which reads both."""

    def __init__(self, width: int, bits: int, embedding: int) -> None:
        super().__init__(width + embedding, bits)
        self.embed = linear_head(width, embedding, std=width**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.hash_layer(torch.cat([x, self.embed(x).relu()], 1))


class Bgdh(Method):
    about = About(
        title="BGDH",
        kind="pairwise, semi-supervised",
        year=2017,
        reference="Yan et al., Semi-Supervised Deep Hashing with a Bipartite Graph, IJCAI 2017",
        cost="O(B²·r + B·m·(k + s))",
        fidelity="reconstruction",
        differs="formulas from Planetoid and DPSH, constants ours; landmarks are the contexts; inductive variant only",
        use_when="few rows have labels, and the features of all rows form clusters",
    )
    Settings = BgdhSettings
    settings: BgdhSettings
    tuned_settings = {"eta": (0.003, 0.01, 0.03), "graph_weight": (0.3, 1.0, 3.0)}  # noqa: RUF012
    learns_from_unlabelled = True
    collapse_advice = "lower method.eta or train.lr_head"
    graph: BipartiteGraph
    contexts: nn.Parameter

    def build(self, net: Network[BgdhHead]) -> None:
        net.head = BgdhHead(net.width, net.bits, self.settings.embedding)

    def prepare(self, net: Network[BgdhHead], data: MethodData) -> None:
        s = self.settings
        rows, features = data.all_features(net)
        generator = torch.Generator().manual_seed(torch.initial_seed())  # the run's seed, whatever was drawn before
        self.graph = BipartiteGraph(features, rows, s.landmarks, s.neighbours, s.hops, generator)
        self.contexts = nn.Parameter(0.1 * torch.randn(self.graph.landmarks, s.embedding, generator=generator))
        self.to(net.device)

    def step(self, net: Network[BgdhHead], batch: Batch, moment: Moment = START) -> dict[str, Tensor]:
        if not hasattr(self, "graph"):
            raise TrainingError("BGDH joins all training rows to landmarks; call prepare(net, data) before step.")
        s, outputs = self.settings, net(batch.inputs)
        pairs = pair_likelihood_loss(outputs.u, batch.labels, outputs.u, batch.labels)
        corners = sign_distance_loss(outputs.u, batch.labels, p=2)
        graph = graph_context_loss(net.head.embed(outputs.hidden), self.contexts, *self.graph.met(batch.rows))
        loss = pairs + s.eta * corners + s.graph_weight * graph
        return {"loss": loss, "pairs": pairs, "corners": corners, "graph": graph}

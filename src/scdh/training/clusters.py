"""Labels made of pairs: clusters of the training rows, so that every method that learns from labels learns from pairs.

1. A small network on the items' features learns from the pairs which are alike: log-odds of similar = τ (cos − ½).
2. k-means in its outputs gives many small clusters. With few pairs per item the graph of pairs is in fragments, so
   clusters are not taken from its components: the network, which has seen all pairs, puts alike items together.
3. Either each item is in one cluster: fragments are merged by the pairs between them. Then, in rounds, the posterior of
   each item's cluster is computed from the network's prior and the item's pairs, and the network learns the posteriors.
   Or clusters overlap: a network with an output per cluster learns P(similar) = 1 − Π_k (1 − p_ik p_jk).
4. The form and the number of clusters whose P(similar) ranks the validation pairs best are taken.

All steps are O(pairs · K) or O(rows · K). :mod:`scdh.losses.pair_clusters` has the equations.
"""

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    normalize,
    one_hot,
)

from scdh.config import RunConfig
from scdh.data.arrays.loose import IN_MEMORY
from scdh.data.pairs import Pairs
from scdh.data.protocol import OtherLabels, Protocol
from scdh.data.source import Source
from scdh.label_arrays import no_labels
from scdh.losses.pair_clusters import cluster_similarity, merge_clusters, pair_evidence
from scdh.methods.registry import method_class
from scdh.metrics.pairs import pair_auc
from scdh.model.hasher import Hasher
from scdh.runs.shared_features import shared_folder
from scdh.runs.source_features import SourceFeatures

WIDTH, HIDDEN, OUTPUTS = 128, 256, 32  # principal components of the features; units; numbers that k-means sees
SHARPNESS = 8.0  # τ
WRONG = 0.1  # ε, the share of wrong pairs that is reckoned with
FRAGMENT, MOST_FRAGMENTS = 60, 1024  # rows of a fragment, on average, at first; and the largest number of fragments
MOST_FITTED = 50_000  # rows that k-means looks at
OVERLAPPING = (8, 32)  # numbers of overlapping clusters to try
ROUNDS, SWEEPS = 4, 10
STEPS, BATCH, RATE = 400, 256, 0.002  # at least so many steps, and at least PASSES over all pairs
PASSES = 5

PairTensors = tuple[Tensor, Tensor, Tensor]


def with_clusters(
    config: RunConfig, source: Source, protocol: Protocol, cache: Path | None = None, quiet: bool = True
) -> Source:
    """``source`` with clusters as labels of the training rows, if it has pairs; otherwise itself.

    Methods that learn from pairs themselves get one label for all rows, as clusters would tell them more than pairs.
    """
    if source.pairs is None:
        return source
    if method_class(config.method.name).learns_from_pairs:
        labels = no_labels(len(source))
        labels[protocol.train] = 0
        return OtherLabels(source, labels, ["in a pair"])
    rows = np.concatenate([protocol.train, protocol.validation])
    if cache is None and config.data.source != IN_MEMORY:
        cache = shared_folder()
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        if source.kind == "features":
            features = source.features[rows]
        else:
            torch.manual_seed(config.seed)  # a trunk that is not pretrained is the run's own
            hasher = Hasher.build(config, ["similar", "dissimilar"], False, None)  # for its trunk
            loading = {"on_bad_image": config.data.on_bad_image, "progress": None if quiet else "features for clusters"}
            readable, features = SourceFeatures(source, cache).of_rows(hasher, rows, **loading)
            rows = rows[np.isin(rows, readable)]
        # After the network was built, whose settings may be other ones when a run is resumed.
        torch.manual_seed(config.seed)
        torch.set_num_threads(1)  # steps are small, and results must not depend on the machine
        try:
            found = clusters_of_pairs(
                features,
                source.pairs.among(protocol.train).positions(rows),
                source.pairs.with_one_of(protocol.validation, rows).positions(rows),
            )[: len(np.intersect1d(rows, protocol.train))]
        finally:
            torch.set_num_threads(threads)
    labels = no_labels(len(source)) if found.ndim == 1 else np.zeros((len(source), found.shape[1]), np.uint8)
    labels[rows[: len(found)]] = found
    count = int(found.max()) + 1 if found.ndim == 1 else found.shape[1]
    return OtherLabels(source, labels, [f"cluster {number}" for number in range(count)])


def clusters_of_pairs(features: np.ndarray, pairs: Pairs, validation: Pairs) -> np.ndarray:
    """The clusters of all rows: int64 [n], or uint8 multi-hot [n, K] if overlapping clusters fit better.

    Args:
        features: float [n, d].
        pairs: pairs to learn from, by position.
        validation: pairs to judge by; they are not learned from.
    """
    x = torch.from_numpy(_principal(np.asarray(features, np.float32)))
    known = torch.from_numpy(pairs.a), torch.from_numpy(pairs.b), torch.from_numpy(pairs.similar)
    embedding = _network(x.shape[1], OUTPUTS)
    _fit(embedding, x, known, lambda z, w, s: binary_cross_entropy_with_logits(_log_odds(z, w), s))
    with torch.no_grad():
        z = normalize(embedding(x), dim=1)
    taught = np.union1d(pairs.a, pairs.b)
    fitted = z[taught[:: math.ceil(len(taught) / MOST_FITTED)]].numpy()

    def kmeans(count: int) -> Any:
        from sklearn.cluster import KMeans  # importing it takes a second

        return KMeans(min(count, len(fitted)), n_init=1, random_state=0).fit(fitted)

    fragments = max(len(taught) // FRAGMENT, 2)
    while True:  # few merges: fragments hold several clusters each
        clusters = torch.from_numpy(kmeans(fragments).predict(z.numpy())).long()
        merged = merge_clusters(clusters, known)
        finer = min(4 * fragments, len(taught) // 4, MOST_FRAGMENTS)
        if 2 * int(merged.max()) < fragments or finer <= fragments:
            break
        fragments = finer
    found = [(False, *_single(merged, x, known))]
    for count in OVERLAPPING:
        centres = torch.from_numpy(kmeans(count).cluster_centers_)
        found.append((True, *_overlapping(embedding, centres, x, known)))
    a, b = torch.from_numpy(validation.a), torch.from_numpy(validation.b)
    scores = [
        pair_auc(-cluster_similarity(prior[a], prior[b], overlapping).numpy(), validation.similar)
        for overlapping, prior, _ in found
    ]
    overlapping, _, posterior = found[int(np.argmax(scores))]
    if overlapping:
        many = (posterior > 0.5).numpy()
        return many[:, many.any(0)].astype(np.uint8)
    return np.unique(posterior.argmax(1).numpy(), return_inverse=True)[1]


def _single(clusters: Tensor, x: Tensor, known: PairTensors) -> tuple[Tensor, Tensor]:
    """Prior of the network, and posterior with the pairs, [n, K] each: one cluster per item."""
    posterior = one_hot(clusters).float()
    prior = 0.8 * posterior + 0.2 * posterior.mean(0)
    for _ in range(ROUNDS):
        logits = (prior + 1e-6).log()
        for _ in range(SWEEPS):  # half a step at a time: items that answer each other would swing
            posterior = (posterior + (logits + pair_evidence(posterior, known, False, WRONG)).softmax(1)) / 2
        net = _network(x.shape[1], posterior.shape[1])
        rows = torch.arange(len(x))
        _fit(net, x, (rows, rows, posterior), lambda z, w, q: (cross_entropy(z, q) + cross_entropy(w, q)) / 2)
        with torch.no_grad():
            prior = net(x).softmax(1)
    return prior, posterior


def _overlapping(embedding: nn.Sequential, centres: Tensor, x: Tensor, known: PairTensors) -> tuple[Tensor, Tensor]:
    """As :func:`_single`, where an item may be in several clusters."""
    top = nn.Linear(OUTPUTS, len(centres))
    with torch.no_grad():
        top.weight.copy_(SHARPNESS * centres)
        top.bias.fill_(-SHARPNESS / 2)
    net = nn.Sequential(copy.deepcopy(embedding), _Unit(), top)

    def loss(z: Tensor, w: Tensor, s: Tensor) -> Tensor:
        return binary_cross_entropy(cluster_similarity(z.sigmoid(), w.sigmoid(), True, WRONG / 2), s)

    _fit(net, x, known, loss)
    with torch.no_grad():
        logits = net(x)
        posterior = logits.sigmoid()
        for _ in range(SWEEPS):
            posterior = (posterior + (logits + pair_evidence(posterior, known, True, WRONG)).sigmoid()) / 2
    return logits.sigmoid(), posterior


class _Unit(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return normalize(z, dim=1)


def _network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Dropout(0.3), nn.Linear(HIDDEN, outputs))


def _log_odds(z: Tensor, w: Tensor) -> Tensor:
    return SHARPNESS * ((normalize(z, dim=1) * normalize(w, dim=1)).sum(1) - 0.5)


def _fit(net: nn.Module, x: Tensor, examples: PairTensors, loss: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """AdamW on random examples (first, second, target); the rate rises, then falls."""
    first, second, target = examples
    steps = max(STEPS, PASSES * len(first) // BATCH)
    optimiser = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, steps)
    net.train()
    for _ in range(steps):
        chosen = torch.randint(len(first), (BATCH,))
        z, w = net(x[torch.cat([first[chosen], second[chosen]])]).chunk(2)
        optimiser.zero_grad()
        loss(z, w, target[chosen]).backward()
        optimiser.step()
        schedule.step()
    net.eval()


def _principal(x: np.ndarray) -> np.ndarray:
    """The first principal components, all divided by one number."""
    x = x - x.mean(0)
    directions = np.linalg.svd(x[:: math.ceil(len(x) / 8192)], full_matrices=False)[2][:WIDTH]
    x = x @ directions.T
    return (x / max(float(x.std()), 1e-12)).astype(np.float32)

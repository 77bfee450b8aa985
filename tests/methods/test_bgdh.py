"""BGDH against plain loops, its graph by hand, and what unlabelled rows bring."""

import math

import numpy as np
import pytest
import torch

from scdh.errors import TrainingError
from scdh.estimator import HashTransformer
from scdh.methods.base import MethodData
from scdh.model.hasher import Hasher
from scdh.nets.bipartite import BipartiteGraph, find_landmarks
from scdh.runs.protocol import protocol_of, source_of
from tests.methods.harness import WIDTH, build, digits, draw_batch
from tests.methods.test_dpsh import slow_pairs
from tests.reference.slow_methods import corners, dot, linear, mean, sigmoid

TWIN_SETTINGS = {"embedding": 8, "landmarks": 4, "neighbours": 3, "graph_weight": 0.7}
ALL_ROW_PARTS = {"graph"}
TRAINING = {"train.epochs": 20}


def slow_graph(net, method, batch):
    """−Σ_c P_c log σ(e · w_c) − mean_c log σ(−e · w_c), mean over the rows that the graph has."""
    graph, contexts = method.graph, method.contexts.tolist()
    numbers, nearest, weights, walks = (
        getattr(graph, name).tolist() for name in ("rows", "nearest", "weights", "walks")
    )
    values = []
    for x, row in zip(net(batch.inputs).hidden.tolist(), batch.rows.tolist(), strict=True):
        if row in numbers:
            place, e = numbers.index(row), linear(x, net.head.embed)
            met = [
                sum(w * walks[a][c] for w, a in zip(weights[place], nearest[place], strict=True))
                for c in range(len(contexts))
            ]
            assert sum(met) == pytest.approx(1)
            likely = sum(p * math.log(sigmoid(dot(e, w))) for p, w in zip(met, contexts, strict=True))
            values.append(-likely - mean([math.log(1 - sigmoid(dot(e, w))) for w in contexts]))
    return mean(values)


def slow_loss(net, method, batch, moment):
    ys, us = batch.labels.tolist(), []
    for x in net(batch.inputs).hidden.tolist():
        us.append(linear([*x, *(max(0.0, value) for value in linear(x, net.head.embed))], net.head.hash_layer))
    s, pairs = method.settings, slow_pairs(us, ys, us, ys, [True] * len(us))
    return pairs + s.eta * corners(us, ys, 2) + s.graph_weight * slow_graph(net, method, batch)


def test_landmarks_are_the_means_of_clusters():
    torch.manual_seed(0)
    points = torch.cat([torch.randn(30, 2) + torch.tensor(centre) for centre in ([0.0, 0.0], [50.0, 0.0], [0.0, 50.0])])
    for start in range(20):  # k-means may join two clusters; some start does not
        centres = find_landmarks(points, 3, torch.Generator().manual_seed(start))
        wanted = points.reshape(3, 30, 2).mean(1)
        if torch.cdist(wanted, centres).min(1).values.max() < 1e-4:
            break
    else:
        raise AssertionError("no start found the three clusters")
    assert len(find_landmarks(points[:2], 9, torch.Generator())) == 2


def test_weights_and_walks_equal_plain_loops():
    features = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32) + 7
    graph = BipartiteGraph(
        features, np.arange(30)[::-1] * 2, landmarks=6, neighbours=3, hops=3, generator=torch.Generator()
    )
    z = [[0.0] * 6 for _ in range(30)]
    for i in range(30):
        for a, weight in zip(graph.nearest[i].tolist(), graph.weights[i].tolist(), strict=True):
            z[i][a] = weight
        assert sum(z[i]) == pytest.approx(1, abs=1e-5)
    hop = [[sum(z[i][a] * z[i][b] for i in range(30)) / sum(row[a] for row in z) for b in range(6)] for a in range(6)]
    for i in range(30):
        step, total = z[i], list(z[i])
        for _ in range(2):
            step = [sum(step[a] * hop[a][b] for a in range(6)) for b in range(6)]
            total = [x + y for x, y in zip(total, step, strict=True)]
        met, known = graph.met(torch.tensor([2 * i, 2 * i + 1]))
        assert met[0].tolist() == pytest.approx([x / 3 for x in total], abs=1e-5)
        assert known.tolist() == [True, False]
    # Rows were given in descending order, so the first of the table is the last that was given.
    assert graph.rows[0] == 0
    state = graph.state_dict()
    assert sorted(state) == ["nearest", "walks", "weights"]


def test_unlabelled_rows_are_in_the_graph():
    seen = []

    class Seen(Exception):
        pass

    config = digits("bgdh", 1)
    source = source_of(config)
    protocol = protocol_of(config, source)
    with pytest.MonkeyPatch.context() as patch:

        def keep(self, features, rows, *others):
            seen.append((features, rows))
            raise Seen

        patch.setattr(BipartiteGraph, "__init__", keep)
        with pytest.raises(Seen):
            Hasher.train(config, quiet=True)
    features, rows = seen[0]
    assert sorted(rows) == sorted([*protocol.train, *protocol.unlabelled])
    assert len(features) == len(rows) > len(protocol.train)


def test_without_unlabelled_rows_the_graph_has_the_others_and_steps_need_it():
    net, method = build("bgdh", 8)
    batch = draw_batch("mixed", False)
    with pytest.raises(TrainingError, match="call prepare"):
        method.step(net, batch)
    features = np.ones((3, WIDTH), np.float32)
    method.prepare(net, MethodData(np.zeros(3, np.int64), np.arange(3), read=lambda net, value: features))
    assert method.graph.landmarks == 3  # one per row; all are at one place
    assert torch.isfinite(method.double().step(net, batch)["loss"])


def test_an_estimator_joins_its_unlabelled_rows_too():
    rng = np.random.default_rng(0)
    labels = np.where(np.arange(60) < 20, np.arange(60) % 2, -1)
    vectors = rng.normal(size=(60, 5)) + 4 * (np.arange(60) % 2)[:, None]
    model = HashTransformer("bgdh", bits=8, epochs=2, batch_size=20).fit(vectors, labels)
    assert model.hasher_.method.graph.rows.tolist() == list(range(60))

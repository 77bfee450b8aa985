"""Clusters from pairs against their slow twins, and fragments that wrong pairs must not join."""

import numpy as np
import pytest
import torch

from scdh.losses.pair_clusters import cluster_similarity, merge_clusters, pair_evidence
from scdh.metrics.pairs import pair_auc
from tests.reference import slow_pairs as slow


def draw(seed, items=7, clusters=3, count=15):
    rng = np.random.default_rng(seed)
    q = torch.from_numpy(rng.dirichlet(np.ones(clusters), items))
    a = rng.integers(0, items, count)
    b = (a + rng.integers(1, items, count)) % items
    return q, a, b, rng.random(count)


def as_tensors(*columns):
    return tuple(torch.from_numpy(np.asarray(column)) for column in columns)


@pytest.mark.parametrize("overlapping", [False, True])
@pytest.mark.parametrize("clusters", [1, 3, 12])
def test_similarity_and_evidence_equal_their_slow_twins(overlapping, clusters):
    for seed in range(5):
        q, a, b, s = draw(seed, clusters=clusters)
        q = q * 0.99
        fast = cluster_similarity(q[a], q[b], overlapping, 0.1)
        expected = [
            slow.cluster_similarity(q[i].tolist(), q[j].tolist(), overlapping, 0.1) for i, j in zip(a, b, strict=True)
        ]
        assert fast.tolist() == pytest.approx(expected)
        evidence = pair_evidence(q, as_tensors(a, b, s), overlapping, 0.1)
        expected = slow.pair_evidence(
            q.tolist(), list(zip(a.tolist(), b.tolist(), s.tolist(), strict=True)), overlapping, 0.1
        )
        assert np.allclose(evidence.numpy(), expected)


def test_certain_items_have_finite_evidence():
    q = torch.eye(3)
    pairs = as_tensors([0, 0, 1], [1, 2, 2], np.array([1.0, 0, 1], np.float32))
    for overlapping in (False, True):
        assert pair_evidence(q, pairs, overlapping, 0.1).isfinite().all()


def test_merging_equals_its_slow_twin():
    for seed in range(8):
        rng = np.random.default_rng(seed)
        clusters, labels = np.arange(40) % 8, np.arange(40) % 8 // 2
        a = rng.integers(0, 40, 150)
        b = (a + rng.integers(1, 40, 150)) % 40
        s = (labels[a] == labels[b]) ^ (rng.random(150) < 0.1)
        merged = merge_clusters(torch.from_numpy(clusters), as_tensors(a, b, s.astype(np.float32)))
        expected = slow.merge_clusters(clusters.tolist(), list(zip(a.tolist(), b.tolist(), s.tolist(), strict=True)))
        assert merged.tolist() == expected


def test_wrong_pairs_do_not_join_everything():
    """Five classes in 20 fragments, three pairs per item, one in ten of them wrong."""
    rng = np.random.default_rng(0)
    fragments = rng.integers(0, 20, 1000)
    labels = fragments % 5
    a, b = rng.integers(0, 1000, (2, 3000))
    s = (labels[a] == labels[b]) ^ (rng.random(3000) < 0.1)
    merged = merge_clusters(torch.from_numpy(fragments), as_tensors(a, b, s.astype(np.float32))).numpy()
    assert len(set(merged.tolist())) == 5
    assert len(set(zip(merged.tolist(), labels.tolist(), strict=True))) == 5


def test_auc_equals_its_slow_twin_with_ties():
    rng = np.random.default_rng(0)
    distances, similar = rng.integers(0, 6, 60), rng.integers(0, 2, 60)
    assert pair_auc(distances, similar) == pytest.approx(slow.pair_auc(distances.tolist(), similar.tolist()))
    assert np.isnan(pair_auc([1, 2], [1, 1]))

"""The comparison of rankings on made-up embeddings."""

import numpy as np

from research import rescoring


def test_more_is_ranked_better_and_bytes_are_those_of_an_item() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120)
    x = (np.eye(3)[labels] @ rng.normal(size=(3, 8)) + 0.5 * rng.normal(size=(120, 8))).astype(np.float32)
    rows = {row["ranking"]: row for row in rescoring.measure(x, labels, 12, 0)}
    assert [row["bytes"] for row in rows.values()] == [2, 2, 14, 14, 26, 26, 48, 10, 32]
    assert all(0.3 < float(str(row["MAP"])) <= 1 for row in rows.values())


def test_ranking_again_moves_only_the_nearest() -> None:
    hamming, away = np.array([[0.0, 1, 1, 2]]), np.array([[0.3, -0.2, -0.9, -1]])
    assert np.argsort(rescoring._again(hamming, away, 3)).tolist() == [[2, 1, 0, 3]]
    relevant = np.array([[True, False, True, False]])
    assert rescoring._scores(hamming, relevant) == ((1 + 2 / 3) / 2, 0.5)

"""A hash layer in closed form: directions in which classes differ most (LDA), turned towards their signs (ITQ)."""

import numpy as np

RIDGE = 1e-3  # of the mean variance within classes: rows may be fewer than directions
MOST_ROWS = 100_000  # that the covariances are computed from
ROTATED_ROWS, TURNS = 20_000, 30  # a rotation r × r is known from few rows


def class_directions(x: np.ndarray, labels: np.ndarray, bits: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """W [d, r] and b [r] of u = x W + b.

    S_W, S_B are the covariances within and between the classes. The directions a solve S_B a = e S_W a; with
    a^T S_W a = 1 an output has the variance e of class means plus 1 of noise. The min(d, r) largest e are kept, each
    scaled to the variance e/(1 + e), the share of the class means. The rotation R brings them nearest to their signs;
    mean |u| is 1.

    Time is O(n d² + d³), whatever the number of classes is. At most ``MOST_ROWS`` rows count.

    Args:
        x: float [n, d], what the hash layer reads.
        labels: int64 [n], one label per row.
        bits: r; it may be larger than d.
        rng: of the first rotation, and of the rows that count.
    """
    if len(x) > MOST_ROWS:
        chosen = pairs_of_classes(labels, rng)[:MOST_ROWS]
        x, labels = x[chosen], labels[chosen]
    classes, positions = np.unique(labels, return_inverse=True)
    mean, counts = x.mean(0, dtype=np.float64), np.bincount(positions)
    centred = x - mean
    means = np.zeros((len(classes), x.shape[1]))
    np.add.at(means, positions, centred)
    within = centred - (means / counts[:, None])[positions]
    s_within = within.T @ within / max(len(x) - len(classes), 1)
    s_between = centred.T @ centred / len(x) - s_within
    ridge = RIDGE * max(float(np.trace(s_within)), 1e-12) / len(s_within)
    whiten = np.linalg.inv(np.linalg.cholesky(s_within + ridge * np.eye(len(s_within))))
    ratios, axes = np.linalg.eigh(whiten @ s_between @ whiten.T)  # in ascending order
    kept = slice(None, -bits - 1, -1)
    ratios = np.maximum(ratios[kept], 1e-6)
    directions = whiten.T @ axes[:, kept] * np.sqrt(ratios) / (1 + ratios)
    sample = centred[rng.permutation(len(x))[:ROTATED_ROWS]] @ directions
    start = np.linalg.qr(rng.normal(size=(bits, bits)))[0][: directions.shape[1]]
    weights = directions @ turned_to_signs(sample, start, TURNS)
    weights /= max(float(np.abs(centred @ weights).mean()), 1e-12)
    return weights, -mean @ weights


def pairs_of_classes(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All rows, in an order that begins with two rows of each class and goes on with two further ones of each; classes
    and rows of a class are in random order.
    """
    by_class = np.lexsort((rng.random(len(labels)), labels))
    counts = np.bincount(labels)
    place = np.empty(len(labels), np.int64)
    place[by_class] = np.arange(len(labels)) - (np.cumsum(counts) - counts)[labels[by_class]]
    return np.lexsort((rng.permutation(len(counts))[labels], place // 2))


def turned_to_signs(projected: np.ndarray, rotation: np.ndarray, turns: int) -> np.ndarray:
    """ITQ: R with orthonormal rows that brings V nearest to its own signs. In turns B = sign(V R), and R = P Q^T of the
    SVD V^T B = P Ω Q^T: least ‖B − V R‖.

    Args:
        projected: V, float [n, k].
        rotation: the first R, [k, r] with k ≤ r.
        turns: how many there are.
    """
    for _ in range(turns):
        signs = np.where(projected @ rotation >= 0, 1.0, -1.0)
        left, _, right = np.linalg.svd(projected.T @ signs, full_matrices=False)
        rotation = left @ right
    return rotation

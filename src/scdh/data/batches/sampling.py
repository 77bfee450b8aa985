"""Which rows make the batches of an epoch: a matter of (seed, epoch) only, never of processes, workers or a resume.

Labelled rows alone: one pass in random order. With unlabelled rows beside them each batch has a fixed share of both
(Mean Teacher's way: half and half), an epoch is one pass over the unlabelled rows, and the few labelled ones are gone
through again and again, each time in a new order.
"""

import numpy as np

from scdh.data.draw import balanced_order
from scdh.errors import DataError

UNLABELLED_STREAM = 1  # of (seed, epoch): the labelled order is the same with and without unlabelled rows

Order = tuple[np.ndarray, np.ndarray]


def steps_per_epoch(
    labelled: int,
    batch_size: int,
    unlabelled: int = 0,
    labelled_share: float = 0.5,
    steps: int | None = None,
) -> int:
    """Batches in an epoch: ``steps`` where given, else the full ones of a pass over the unlabelled rows, or over the
    labelled ones where there are no others. Rows too few for one batch still give one.
    """
    if not labelled:
        return 0
    if steps is not None:
        return steps
    if not unlabelled:
        return max(1, labelled // batch_size)
    return max(1, unlabelled // shares(batch_size, labelled_share)[1])


def shares(batch_size: int, labelled_share: float, world: int = 1) -> tuple[int, int]:
    """Labelled and unlabelled rows of each batch, at least one of both; each of ``world`` processes gets as many."""
    if not 0 < labelled_share < 1:
        raise DataError(f"labelled_share must lie between 0 and 1, not {labelled_share}.")
    if batch_size < 2:
        raise DataError(f"A batch of {batch_size} cannot hold both labelled and unlabelled rows; set batch_size to 2.")
    labelled = min(max(1, round(batch_size * labelled_share)), batch_size - 1)
    if labelled % world or (batch_size - labelled) % world:
        raise DataError(
            f"A batch of {labelled} labelled and {batch_size - labelled} unlabelled rows does not divide by the "
            f"{world} processes; set batch_size and labelled_share so that both parts do."
        )
    return labelled, batch_size - labelled


def epoch_batches(
    labels: np.ndarray,
    rows: np.ndarray,
    *,
    batch_size: int,
    seed: int,
    epoch: int,
    world: int = 1,
    balanced: bool = False,
    unlabelled: np.ndarray | None = None,
    labelled_share: float = 0.5,
    steps: int | None = None,
) -> Order:
    """(rows, times), both int64 [steps, size]: the batches of all processes together, labelled rows first, and for each
    row how often it came before in this epoch. Process r takes the columns r, r + world, …

    Of the ``labels`` only those of ``rows`` are looked at.
    """
    if unlabelled is None or not len(unlabelled):
        count = steps_per_epoch(len(rows), batch_size, steps=steps)
        size = min(batch_size, len(rows) - len(rows) % world)
        return _cycled(labels, rows, count, size, seeded_epoch(seed, epoch), balanced)
    both = shares(batch_size, labelled_share, world)
    count = steps_per_epoch(len(rows), batch_size, len(unlabelled), labelled_share, steps)
    known = _cycled(labels, rows, count, both[0], seeded_epoch(seed, epoch), balanced)
    others = _cycled(labels, unlabelled, count, both[1], seeded_epoch(seed, epoch, UNLABELLED_STREAM), False)
    return np.concatenate([known[0], others[0]], axis=1), np.concatenate([known[1], others[1]], axis=1)


def seeded_epoch(seed: int, epoch: int, *stream: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence([seed, epoch], spawn_key=stream))


def _cycled(
    labels: np.ndarray, rows: np.ndarray, steps: int, size: int, rng: np.random.Generator, balanced: bool
) -> Order:
    """``steps`` × ``size`` rows from as many fresh permutations as that takes, cut at the end."""
    wanted, passes = steps * size, []
    for _ in range(-(-wanted // max(1, len(rows)))):
        passes.append(rows[balanced_order(labels[rows], rng)] if balanced else rng.permutation(rows))
    order = np.concatenate([rows[:0], *passes])[:wanted]
    return order.reshape(steps, size), times_before(order).reshape(steps, size)


def times_before(order: np.ndarray) -> np.ndarray:
    """For each place how often its row stands before it."""
    by_row = np.argsort(order, kind="stable")
    grouped = order[by_row]
    first = np.searchsorted(grouped, grouped, side="left")
    times = np.empty(len(order), np.int64)
    times[by_row] = np.arange(len(order)) - first
    return times

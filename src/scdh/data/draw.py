"""Taking so many rows of each class, and putting rows in a balanced order."""

import numpy as np

from scdh.errors import DataError
from scdh.label_arrays import is_labelled, rows_per_class


def seeded(seed: int, *stream: int) -> np.random.Generator:
    """The generator of a seed, which must be a whole number from 0 on; each ``stream`` is independent of the others."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"The seed must be a whole number, 0 or more, not {seed!r}.")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=stream))


def take_per_class(
    labels: np.ndarray,
    order: np.ndarray,
    count: int,
    part: str,
    label_names: list[str] | None = None,
    *,
    at_most: bool = False,
) -> np.ndarray:
    """``count`` rows of every class, taken from ``order`` from its front; ``at_most``: all that a class has, where it
    has fewer (else that is an error).

    One label a row: exactly the first ``count`` rows of each class. Several labels a row: papers say "100 per
    class" and leave open what that means. We walk along ``order``, and a row counts for one of its labels
    only, the rarest whose quota is still open. So the part has exactly ``count`` × C rows, as the published
    sizes do, and rare labels are filled before common ones use up their rows. Either way a smaller ``count``
    takes a part of what a larger one takes.
    """
    if count < 0:
        raise DataError(f"The number of {part} rows per class must be 0 or more, not {count}.")
    if count == 0:
        return np.empty(0, np.int64)
    if labels.ndim == 2:
        return _take_multi(labels, order, count, part, label_names, at_most)
    ordered = labels[order]
    classes = label_names if label_names is not None else range(int(labels.max(initial=-1)) + 1)
    if not len(classes):
        raise DataError(f"No row has a label, so no {part} rows can be drawn.")
    taken = []
    for number in range(len(classes)):
        rows = order[ordered == number]
        if len(rows) < count and not at_most:
            raise DataError(_too_few(_name(number, label_names), len(rows), count, part))
        taken.append(rows[:count])
    return np.sort(np.concatenate(taken)).astype(np.int64)


def _take_multi(
    labels: np.ndarray, order: np.ndarray, count: int, part: str, label_names: list[str] | None, at_most: bool
) -> np.ndarray:
    frequency = rows_per_class(labels[order], labels.shape[1])
    rarest_first = np.argsort(frequency, kind="stable")
    ranked = labels[:, rarest_first].astype(bool)
    open_quota = np.full(labels.shape[1], count)
    still_open = open_quota > 0
    taken = []
    for row in order:
        wanted = ranked[row] & still_open
        place = int(wanted.argmax())
        if not wanted[place]:
            continue
        taken.append(row)
        open_quota[place] -= 1
        still_open[place] = open_quota[place] > 0
        if not still_open.any():
            break
    if at_most or (len(still_open) and not still_open.any()):
        return np.sort(np.array(taken, dtype=np.int64))
    if not len(still_open):
        raise DataError(f"No row has a label, so no {part} rows can be drawn.")
    short = int(still_open.argmax())
    number = int(rarest_first[short])
    found = count - int(open_quota[short])
    raise DataError(_too_few(_name(number, label_names), found, count, part))


def balanced_order(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions 0 … n−1 in random order, n of them, with the classes evened out ("balance by sampling").

    One label a row: every class comes equally often (±1); rows of small classes repeat, those of large ones
    take turns. Several labels: a row is drawn in proportion to the mean of 1/frequency of its labels, with
    evenly spaced draws so that no row misses its share by more than one. Unlabelled rows come once each.
    """
    labelled = is_labelled(labels)
    known = np.flatnonzero(labelled)
    picks = [np.flatnonzero(~labelled)]
    if len(known) and labels.ndim == 1:
        classes = rng.permutation(np.unique(labels[known]))
        share, more = divmod(len(known), len(classes))
        for i, number in enumerate(classes):
            rows = np.flatnonzero(labels == number)
            wanted = share + (i < more)
            rounds = [rng.permutation(rows) for _ in range(-(-wanted // len(rows)))]
            picks.append(np.concatenate(rounds)[:wanted] if rounds else rows[:0])
    elif len(known):
        hot = labels[known].astype(np.float64)
        weight = (hot / np.maximum(hot.sum(axis=0), 1)).sum(axis=1) / hot.sum(axis=1)
        ends = np.cumsum(weight) / weight.sum()
        draws = (np.arange(len(known)) + rng.random()) / len(known)
        picks.append(known[np.minimum(np.searchsorted(ends, draws, side="right"), len(known) - 1)])
    return rng.permutation(np.concatenate(picks))


def _name(number: int, label_names: list[str] | None) -> str:
    return repr(label_names[number]) if label_names is not None else str(number)


def _too_few(name: str, found: int, count: int, part: str) -> str:
    setting = {"training": "train"}.get(part, part) + "_per_class"
    return (
        f"Class {name} has only {found} rows left for the {part} part, but {count} per class were asked for; "
        f"lower {setting}."
    )

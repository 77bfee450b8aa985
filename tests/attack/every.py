"""All attacks, on small files that are made first."""

from collections.abc import Iterator
from pathlib import Path

import torch

from tests.attack import damage, forged, full_disk, hostile, interrupted, samples, threads, works
from tests.attack.samples import Stored
from tests.attack.trials import Attack
from tests.attack.works import Work


def prepare(scratch: Path) -> tuple[list[Stored], list[Work]]:
    """Small files of every kind in an empty folder, and every kind of work on them."""
    # Children have one thread, as threads do not survive a fork, and on some processors (AVX-512 of Zen 4) two threads
    # give other last bits: everything that is compared is computed by one.
    torch.set_num_threads(1)
    place, more = scratch / "samples", scratch / "more"
    for folder in (place, more):
        folder.mkdir()
    samples.prepare(place)
    samples.prepare_more(more)
    return samples.stored(place, more), works.works(place, more)


def every_attack(scratch: Path, stored: list[Stored], works: list[Work]) -> Iterator[Attack]:
    """The attacks on what :func:`prepare` made in ``scratch``."""
    yield from damage.attacks(stored)
    yield from forged.attacks(stored)
    for work in works:
        contents = interrupted.contents_of(work)
        yield from interrupted.attacks(contents)
        yield from full_disk.attacks(contents)
    yield from hostile.attacks(scratch)
    yield from threads.attacks()

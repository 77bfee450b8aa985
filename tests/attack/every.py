"""All attacks, on small files that are made first."""

from collections.abc import Iterator
from pathlib import Path

from tests.attack import damage, hostile, interrupted, samples, threads
from tests.attack.trials import Attack


def every_attack(scratch: Path) -> Iterator[Attack]:
    """The attacks; ``scratch`` is an empty folder for their files.

    Args:
        scratch: an empty folder.
    """
    place = scratch / "samples"
    place.mkdir()
    samples.prepare(place)
    yield from damage.attacks(samples.stored(place))
    yield from interrupted.attacks(samples.works(place))
    yield from hostile.attacks(scratch)
    yield from threads.attacks()

"""What a trial of an attack is, and how trials are counted."""

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from scdh.errors import ScdhError


class Failed(Exception):
    """A trial that must not have ended so: a wrong answer, a trace, something lost."""


@dataclass(frozen=True)
class Attack:
    """One kind of attack.

    Args:
        kind: its name in the table.
        trial: makes one trial with the given random numbers, and says in a word how it ended; raises ``Failed``.
        times: trials of a round: more of those that take milliseconds.
    """

    kind: str
    trial: Callable[[Random], str]
    times: int = 1


@dataclass
class Tally:
    """Trials of one kind by how they ended, and what failed."""

    endings: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def run(self, attack: Attack, seed: int) -> None:
        """One trial; anything but a sentence of scdh's own is a failure."""
        try:
            self.endings[attack.trial(Random(seed))] += 1
        except Failed as failure:
            self._fail(attack, seed, str(failure))
        except Exception:
            self._fail(attack, seed, traceback.format_exc(limit=-6))

    def _fail(self, attack: Attack, seed: int, what: str) -> None:
        self.endings["failed"] += 1
        self.failures.append(f"{attack.kind}, seed {seed}: {what}")


def contents_or_error(read: Callable[[], str]) -> str | None:
    """What ``read`` gives; None if it raises an error of one sentence."""
    try:
        return read()
    except ScdhError as error:
        text = str(error)
        if "\n" in text or not text.strip():
            raise Failed(f"the error is not one sentence: {text!r}") from None
        return None

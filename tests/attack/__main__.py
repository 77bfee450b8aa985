"""The attack on everything that is stored: ``python -m tests.attack [--seconds N] [--seed S] [--only WORDS]``.

Prints trials by kind and how they ended. Ends with 1 where one failed: a wrong answer without a word, a trace,
something lost, too much memory.
"""

import argparse
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.attack.every import every_attack, prepare
from tests.attack.full_disk import mounting_is_allowed
from tests.attack.trials import Tally

SHOWN_FAILURES = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose name contains this")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        made = prepare(Path(scratch))
        attacks = [attack for attack in every_attack(Path(scratch), *made) if chosen.only in attack.kind]
        tallies = {attack.kind: Tally() for attack in attacks}
        started = time.monotonic()
        for number in count():
            for attack in attacks:
                for again in range(attack.times):
                    tallies[attack.kind].run(attack, chosen.seed + number * attack.times + again)
            if time.monotonic() - started > chosen.seconds:
                break
    if not mounting_is_allowed():
        print("A tmpfs cannot be mounted here, so full disks were only simulated.")
    return report(tallies)


def report(tallies: dict[str, Tally]) -> int:
    """Print the table and the failures; the exit code."""
    for kind, tally in tallies.items():
        endings = ", ".join(f"{ending} {number:,}" for ending, number in sorted(tally.endings.items()))
        print(f"{kind:38} {sum(tally.endings.values()):7,}  {endings}")
    failures = [failure for tally in tallies.values() for failure in tally.failures]
    total = sum(sum(tally.endings.values()) for tally in tallies.values())
    print(f"{total:,} trials, {len(failures):,} failures.")
    for failure in failures[:SHOWN_FAILURES]:
        print(f"\n{failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

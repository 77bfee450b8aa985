"""A small portion of ``python -m tests.attack``; each kind of attack runs a few trials."""

import pytest

from tests.attack.every import every_attack
from tests.attack.trials import Tally

TRIALS = {"damage": 20, "forged": 10, "kill": 4, "full disk": 4, "full tmpfs": 3, "hostile": 2, "threads": 2}


@pytest.mark.slow
def test_no_attack_succeeds(tmp_path, capsys):
    tallies = {}
    for attack in every_attack(tmp_path):
        tally = tallies[attack.kind] = Tally()
        trials = TRIALS[attack.kind.partition(":")[0]]
        for seed in range(trials if attack.times > 1 else min(trials, 4)):
            tally.run(attack, seed)
    with capsys.disabled():
        counts = {kind: sum(tally.endings.values()) for kind, tally in tallies.items()}
        print(f"\nattack: {sum(counts.values())} trials of {len(counts)} kinds")
    assert [failure for tally in tallies.values() for failure in tally.failures] == []


def test_an_attack_that_succeeds_is_counted():
    from tests.attack.trials import Attack, Failed

    def fail(random):
        raise Failed("lost")

    tally = Tally()
    tally.run(Attack("damage: nothing", fail), 1)
    tally.run(Attack("damage: nothing", lambda random: 1 / 0), 2)
    assert tally.endings["failed"] == len(tally.failures) == 2
    assert "seed 1: lost" in tally.failures[0]
    assert "ZeroDivisionError" in tally.failures[1]

"""A small portion of ``python -m tests.attack``, every call of some works, and headers that hypothesis forges."""

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scdh.codes import Codes
from scdh.data.name_files import for_new_index, save_named_codes, save_named_index
from scdh.data.row_names import RowNames
from scdh.index import HammingIndex
from tests.attack.every import every_attack, prepare
from tests.attack.forged import changed, forge_arrays, forge_index, trial_of
from tests.attack.interrupted import contents_of, interrupt_everywhere
from tests.attack.samples import Stored, read_codes, read_index
from tests.attack.trials import Attack, Failed, Tally

TRIALS = {"damage": 60, "forged": 10, "kill": 4, "full disk": 4, "full tmpfs": 3, "hostile": 2, "threads": 2}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("attack")


@pytest.fixture(scope="module")
def made(scratch: Path):
    """Stored files of every kind, and works on them."""
    return prepare(scratch)


@pytest.mark.slow
def test_no_attack_succeeds(scratch, made, capsys):
    tallies = {}
    for attack in every_attack(scratch, *made):
        tally = tallies[attack.kind] = Tally()
        trials = TRIALS[attack.kind.partition(":")[0]]
        for seed in range(trials if attack.times > 1 else min(trials, 4)):
            tally.run(attack, seed)
    with capsys.disabled():
        counts = {kind: sum(tally.endings.values()) for kind, tally in tallies.items()}
        print(f"\nattack: {sum(counts.values())} trials of {len(counts)} kinds")
    assert [failure for tally in tallies.values() for failure in tally.failures] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        *("encode --replace", "index --replace", "index --append", "Hasher.save", "Hasher.save into a new folder"),
        *("IndexWriter.add", "HammingIndex.add and save", "save_checkpoint"),
    ],
)
def test_an_interruption_at_any_call_leaves_the_old_contents_or_the_new_ones(made, kind):
    (work,) = [work for work in made[1] if work.kind == kind]
    assert interrupt_everywhere(contents_of(work)) == {"old contents", "new contents"}


def test_an_attack_that_succeeds_is_counted():
    def fail(random):
        raise Failed("lost")

    tally = Tally()
    tally.run(Attack("damage: nothing", fail), 1)
    tally.run(Attack("damage: nothing", lambda random: 1 / 0), 2)
    assert tally.endings["failed"] == len(tally.failures) == 2
    assert "seed 1: lost" in tally.failures[0]
    assert "ZeroDivisionError" in tally.failures[1]


FEW = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Stored]:
    folder = tmp_path_factory.mktemp("forged")
    codes = Codes.from_signs(np.random.default_rng(0).normal(size=(40, 32)), ids=np.arange(40) * 3)
    names = RowNames(np.arange(40) * 3, [f"ü{row}.png" for row in range(40)], np.arange(40) % 3, ["a", "b", "c"])
    save_named_codes(folder / "codes", codes, names)
    save_named_index(folder / "index", HammingIndex(for_new_index(codes)), names)
    return {
        "codes": Stored("codes", folder / "codes", lambda: read_codes(folder / "codes")),
        "index": Stored("index", folder / "index", lambda: read_index(folder / "index")),
        "names of an index": Stored(
            "names of an index", next(folder.glob("index.items-*")), lambda: read_index(folder / "index")
        ),
    }


@pytest.mark.parametrize("kind", ["codes", "index", "names of an index"])
@FEW
@given(random=st.randoms(use_true_random=False))
def test_a_forged_header_is_rejected_in_one_sentence_or_read(stored: dict[str, Stored], kind: str, random) -> None:
    assert trial_of(stored[kind])(random) in ("rejected", "read")


@pytest.mark.parametrize(("kind", "forge"), [("codes", forge_arrays), ("index", forge_index)])
def test_most_forgeries_reach_the_checks_behind_the_checksums(stored, kind, forge, tmp_path):
    """Otherwise they would be no more than damage."""
    sample, reasons = stored[kind], []
    intact = sample.file.read_bytes()
    for seed in range(60):
        sample.file.write_bytes(forge(intact, Random(seed)))
        try:
            sample.read()
        except ValueError as error:  # every error of scdh for a bad value is one
            reasons.append(str(error))
    sample.file.write_bytes(intact)
    assert len(reasons) > 20
    assert sum("checksum" in reason for reason in reasons) < len(reasons) / 2
    assert len({reason.split(":")[-1][:30] for reason in reasons}) > 8


def test_changes_leave_the_original_alone() -> None:
    tree = {"a": [1, {"b": "x"}]}
    assert any(changed(tree, Random(seed)) != tree for seed in range(5))
    assert tree == {"a": [1, {"b": "x"}]}

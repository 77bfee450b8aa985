"""Headers that lie, found by hypothesis: what it makes smaller on a failure is the forger's random numbers."""

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
from tests.attack.forged import changed, forge_arrays, forge_index, trial_of
from tests.attack.samples import Stored, read_codes, read_index

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
def test_most_forgeries_reach_the_checks_behind_the_checksums(
    stored: dict[str, Stored], kind: str, forge, tmp_path: Path
) -> None:
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

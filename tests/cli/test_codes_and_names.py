"""Codes, names and labels belong together: whatever is killed or full, an old file keeps its own, a new one has its."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scdh import Codes, HammingIndex
from scdh.index.store import IndexWriter
from tests.cli.commands import must, run, run_json
from tests.damage import full_after, full_at, killed_at

ROWS = 40
MOST_STEPS = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Codes of two data sets of the same size, whose names and labels differ."""
    torch.set_num_threads(1)  # threads of torch do not survive a fork
    d = tmp_path_factory.mktemp("made")
    x = np.random.default_rng(0).normal(size=(ROWS, 8)).astype(np.float32)
    for name, order in (("a", np.arange(ROWS)), ("b", np.roll(np.arange(ROWS), 7))):
        labels = (x[order, 0] > 0).astype(np.int64)
        np.savez(d / f"{name}.npz", X=x[order], y=labels, ids=np.array([f"{name}{i}" for i in order]))
    must(f"train --data {d}/a.npz --method lsh --bits 16 --out {d}/run")
    for name in ("a", "b"):
        must(f"encode {d}/run {d}/{name}.npz --out {d}/{name}.codes")
    return d


def of_codes(path: Path) -> Any:
    """All that can be seen of a file of codes."""
    scores = run_json(f"evaluate --queries {path} --database {path} --leave-one-out --json")
    must(f"index {path} --out {path}.seen --replace")
    return scores["map"], Codes.load(path).packed.tolist(), of_index(path.with_name(f"{path.name}.seen"))


def of_index(path: Path) -> Any:
    """All that can be seen of an index."""
    index = HammingIndex.load(path)
    shown = run_json(f"search {path} --row 0 -k {len(index)} --json")["queries"]
    return len(index), index.codes.packed.tolist(), shown


def names_in(folder: Path, start: str) -> list[str]:
    return sorted(file.name for file in folder.iterdir() if file.name.startswith(start))


@pytest.mark.parametrize("after", [False, True])
def test_encoding_killed_at_every_rename(made: Path, tmp_path: Path, after: bool) -> None:
    target = tmp_path / "x.codes"
    new = f"encode {made}/run {made}/b.npz --out {target} --replace"
    must(f"encode {made}/run {made}/a.npz --out {target}")
    before = of_codes(target)
    must(new)
    complete, seen = of_codes(target), []
    for step in range(1, MOST_STEPS):
        must(f"encode {made}/run {made}/a.npz --out {target} --replace")
        killed = killed_at(lambda: must(new), step, after=after)
        seen.append(of_codes(target))
        assert seen[-1] in (before, complete)
        if not killed:
            break
    assert before != complete
    assert seen[-1] == complete
    assert step > 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("options", ["--replace", "--append --renumber"])
def test_an_index_killed_at_every_rename(made: Path, tmp_path: Path, options: str, after: bool) -> None:
    target = tmp_path / "x.index"
    new = f"index {made}/b.codes --out {target} {options}"
    must(f"index {made}/a.codes --out {target}")
    before = of_index(target)
    must(new)
    complete = of_index(target)
    for step in range(1, MOST_STEPS):
        must(f"index {made}/a.codes --out {target} --replace")
        killed = killed_at(lambda: must(new), step, after=after)
        seen = of_index(target)
        assert seen in (before, complete)
        # The next write makes whole what is not, and removes names that nothing refers to.
        must(f"index {made}/b.codes --out {target} --replace")
        assert of_index(target)[0] == ROWS
        assert len(names_in(tmp_path, "x.index")) == 2
        if not killed:
            break
    assert before != complete
    assert seen == complete
    assert step > 1


WRITERS = pytest.mark.parametrize(
    ("command", "look"),
    [
        ("encode {made}/run {made}/b.npz --out {target} --replace", of_codes),
        ("index {made}/b.codes --out {target} --replace", of_index),
        ("index {made}/b.codes --out {target} --append --renumber", of_index),
    ],
)


@WRITERS
def test_a_disk_that_is_full_at_any_write(made: Path, tmp_path: Path, command: str, look: Any) -> None:
    target = tmp_path / "x"
    first = f"encode {made}/run {made}/a.npz" if look is of_codes else f"index {made}/a.codes"
    new = command.format(made=made, target=target)
    must(f"{first} --out {target}")
    before = look(target)
    must(new)
    complete, codes = look(target), set()
    for call in range(1, 60):
        must(f"{first} --out {target} --replace")
        code = full_at(lambda: run_as_command(new), call)
        codes.add(code)
        assert code in (0, 2, None)
        # Where the folder cannot be synced after the rename, the new file is there, but the command fails.
        assert look(target) in ((complete,) if code in (0, None) else (before, complete))
        if code is None:
            break
    assert {2, None} <= codes


@WRITERS
def test_a_disk_that_is_full_at_any_byte(made: Path, tmp_path: Path, command: str, look: Any) -> None:
    target = tmp_path / "x"
    first = f"encode {made}/run {made}/a.npz" if look is of_codes else f"index {made}/a.codes"
    new = command.format(made=made, target=target)
    must(f"{first} --out {target}")
    before, largest = look(target), 0
    must(new)
    complete, largest = look(target), max(file.stat().st_size for file in tmp_path.iterdir())
    must(f"{first} --out {target} --replace")
    for size in (0, 1, 100, *range(500, largest, largest // 8)):
        code = full_after(lambda: run_as_command(new), size)
        assert code in (0, 2)
        assert look(target) == (complete if code == 0 else before)
        if code == 0:
            must(f"{first} --out {target} --replace")
    assert full_after(lambda: run_as_command(new), 2 * largest) == 0
    assert look(target) == complete


def run_as_command(command: str) -> None:
    code, _, message = run(command)
    assert code == 0 or (message.startswith("Error: ") and message.count("\n") == 1)
    raise SystemExit(code)


def test_codes_that_are_saved_without_names_have_none(made: Path, tmp_path: Path) -> None:
    target = tmp_path / "x.codes"
    must(f"encode {made}/run {made}/a.npz --out {target}")
    assert (
        run_json(f"search --index {write_index(made, tmp_path)} --codes {target} -k 1 --json")["queries"][3]["query"]
        == "a3"
    )
    Codes.load(target).save(target)
    assert "it holds codes only" in run(f"evaluate --queries {target} --database {target}")[2]


def write_index(made: Path, folder: Path) -> Path:
    must(f"index {made}/a.codes --out {folder}/a.index --replace")
    return folder / "a.index"


def test_a_search_needs_no_list_of_all_ids(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """96 million ids would take 768 MB; the index itself is read from disk."""
    named, nameless = write_index(made, tmp_path), tmp_path / "nameless.index"
    Codes.load(made / "a.codes").save(tmp_path / "nameless.codes")
    must(f"index {tmp_path}/nameless.codes --out {nameless}")
    expected = [of_index(path) for path in (named, nameless)]

    def reject(_: object) -> None:
        raise AssertionError("all ids were asked for")

    monkeypatch.setattr(HammingIndex, "ids", property(reject))
    for path, (_, _, shown) in zip((named, nameless), expected, strict=True):
        assert run_json(f"search {path} --row 0 -k {ROWS} --json")["queries"] == shown
        must(f"search {path} --codes {made}/b.codes -k 3")
        must(f"search {path} --row 0 --radius 2")
    must(f"search {named} --row a3")
    must(f"search {named} --row 0 --label 1")


def test_two_programs_that_write_one_index(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one removes names that are not its own while this one has not written its index yet."""
    target, save = tmp_path / "x.index", HammingIndex.save
    must(f"index {made}/a.codes --out {target}")

    def save_late(index: HammingIndex, path: Path) -> None:
        monkeypatch.undo()
        must(f"index {made}/a.codes --out {target} --replace")
        save(index, path)

    monkeypatch.setattr(HammingIndex, "save", save_late)
    must(f"index {made}/b.codes --out {target} --replace")
    assert run_json(f"search {target} --row 0 -k 1 --json")["queries"][0]["query"] == "b33"
    assert len(names_in(tmp_path, "x.index")) == 2


def test_rows_that_a_program_adds_have_no_name(made: Path, tmp_path: Path) -> None:
    index = write_index(made, tmp_path)
    with IndexWriter(index) as writer:
        writer.add(Codes.load(made / "b.codes")[:2], ids=[90, 91])
    hits = run_json(f"search {index} --row 90 -k 50 --json")["queries"][0]["hits"]
    assert {hit["name"] for hit in hits if hit["id"] == 91} == {""}
    assert all(hit["name"] for hit in hits if hit["id"] < ROWS)

"""Files with names in them: any name, any damage."""

import os
from pathlib import Path

import numpy as np
import pytest

from scdh.codes import Codes, write_codes
from scdh.data import RowNames
from scdh.data.name_files import for_new_index, load_named_codes, names_of_index, save_named_codes, save_named_index
from scdh.data.name_tensors import name_tensors
from scdh.errors import CodesError
from scdh.index import HammingIndex
from tests.attack.interrupted import in_child

ODD_NAMES = [
    os.fsdecode(b"caf\xe9.png"),
    os.fsdecode(b"\xff\xfe\x80/\xe2\x28"),
    "\ud800 alone, \udfff too",
    "",
    "a\0b\nc\x1b[31m",
    "日本語 😀",
    "caf\u00e9",
]


def named(count: int = 60, *, several: bool = False) -> tuple[Codes, RowNames]:
    rng = np.random.default_rng(3)
    codes = Codes.from_signs(rng.normal(size=(count, 20)), ids=rng.permutation(count) * 3, metadata={"model": "m1"})
    labels = rng.integers(0, 2, (count, 4)).astype(np.uint8) if several else rng.integers(-1, 4, count)
    names = [ODD_NAMES[i % len(ODD_NAMES)] + str(i) for i in range(count)]
    return codes, RowNames(codes.ids, names, labels, ["red", "green", os.fsdecode(b"bl\xfce"), "\udc80"])


def contents(codes: Codes | HammingIndex, row_names: RowNames | None) -> object:
    own = codes.codes if isinstance(codes, HammingIndex) else codes
    rows = row_names.ids.tolist(), list(row_names.names), row_names.labels.tolist(), row_names.label_names
    return own.packed.tolist(), own.bits, own.metadata, *rows


@pytest.mark.parametrize("several", [False, True])
def test_any_name_comes_back(tmp_path: Path, several: bool) -> None:
    codes, row_names = named(several=several)
    save_named_codes(tmp_path / "a.codes", codes, row_names)
    assert contents(*load_named_codes(tmp_path / "a.codes")) == contents(codes, row_names)
    assert Codes.load(tmp_path / "a.codes") == codes
    assert [file.name for file in tmp_path.iterdir()] == ["a.codes"]
    index = HammingIndex(for_new_index(codes))
    in_order = row_names.take(np.argsort(row_names.ids))
    save_named_index(tmp_path / "a.index", index, in_order)
    read = HammingIndex.load(tmp_path / "a.index")
    assert contents(read, names_of_index(tmp_path / "a.index", read)) == contents(index, in_order)
    assert row_names.ids_of(ODD_NAMES[1] + "8") == [int(row_names.ids[8])]


def test_no_rows(tmp_path: Path) -> None:
    codes, row_names = named()
    save_named_codes(tmp_path / "a", codes[:0], row_names.take(np.arange(0)))
    read = RowNames.load(tmp_path / "a")
    assert len(read.names) == len(read.ids) == 0
    assert read.position(3) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.update(name_ends=t["name_ends"][::-1].copy()),
        lambda t: t.update(name_ends=t["name_ends"][:-1]),
        lambda t: t.update(names=t["names"].astype(np.int64)),
        lambda t: t.update(labels=t["labels"] + 9),
        lambda t: t.update(labels=t["labels"].astype(np.float32)),
        lambda t: t.update(labels=t["labels"][:-1]),
        lambda t: t.pop("name_ends"),
        lambda t: t.pop("labels"),
        lambda t: t.update(label_numbers=np.array([7]), label_ends=np.ones(60, np.int64)),
        lambda t: t.update(label_numbers=np.array([0, 1]), label_ends=np.repeat([2, 1, 2], 20)),
        lambda t: t.update(names=np.full_like(t["names"], 0xFF)),
    ],
)
def test_forged_names_are_rejected(tmp_path: Path, change) -> None:
    """With checksums that match: names that make no sense."""
    codes, row_names = named()
    tensors = name_tensors(row_names)
    change(tensors)
    write_codes(tmp_path / "a.codes", codes, tensors, {})
    with pytest.raises(CodesError):
        list(load_named_codes(tmp_path / "a.codes")[1].names)
    assert Codes.load(tmp_path / "a.codes") == codes


def test_a_reader_sees_codes_and_names_of_one_writer(tmp_path: Path) -> None:
    file, (codes, row_names) = tmp_path / "a.codes", named()
    other = RowNames(codes.ids, [f"other {i}" for i in range(60)], row_names.labels, row_names.label_names)
    versions = [(codes, row_names), (Codes(255 - codes.packed & 240, 20, codes.ids), other)]
    save_named_codes(file, *versions[0])
    firsts = {pair[0].packed.tobytes(): pair[1].names[0] for pair in versions}

    def read_often() -> None:
        for _ in range(300):
            found, names = load_named_codes(file)
            assert firsts[found.packed.tobytes()] == names.names[0]

    def write_often() -> None:
        for i in range(60):
            save_named_codes(file, *versions[i % 2])

    writer = os.fork()
    if not writer:
        try:
            write_often()
        finally:
            os._exit(0)
    try:
        assert in_child(read_often) == 0
    finally:
        os.waitpid(writer, 0)


def test_temporary_files_of_killed_writers_are_removed_later(tmp_path: Path) -> None:
    for name, age in ((".a.codes.123-0123abcd.tmp", 4000), (".a.codes.124-0123abcd.tmp", 0)):
        (tmp_path / name).write_bytes(b"x")
        os.utime(tmp_path / name, (1, (tmp_path / name).stat().st_mtime - age))
    named()[0].save(tmp_path / "a.codes")
    assert sorted(file.name for file in tmp_path.iterdir()) == [".a.codes.124-0123abcd.tmp", "a.codes"]


def test_names_of_other_rows_are_rejected(tmp_path: Path) -> None:
    codes, row_names = named()
    with pytest.raises(CodesError, match="have other ids than its 59 codes"):
        save_named_codes(tmp_path / "a.codes", codes[1:], row_names)

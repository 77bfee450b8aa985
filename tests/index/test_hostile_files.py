"""No index file can hurt: forged ones with right checksums, damage in large ones, bombs, pipes, files copied over."""

import itertools
import json
import os
import subprocess
import sys
import tracemalloc
import zlib

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index import HammingIndex
from scdh.index.segments import Segment
from scdh.index.store import IndexWriter, arrays, write_index
from scdh.index.store import arrays as store_arrays
from scdh.index.store.format import BLOCK_BYTES, SLOTS_AT, Slot
from tests.index.forged import all_set, forge, search_in_all_ways, some_codes


@pytest.fixture
def mapped(monkeypatch):
    """Every file is treated as a large one is: mapped, and not verified when it is opened."""
    monkeypatch.setattr(store_arrays, "VERIFIED_BYTES", 0)


def run_program(program, *arguments, timeout=100, **variables):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=timeout, check=False
    )


# Forged contents


@pytest.mark.parametrize("bits", [1, 7, 12, 13, 33, 48, 65, 127, 250])
def test_spare_bits_are_rejected(tmp_path, bits, monkeypatch):
    words = all_set(100, bits)
    path = tmp_path / "index"
    forge(path, bits, [(words, 0)])
    sentence = f"of the words of segment 0 some have bits set beyond the {bits} of a code"
    for verify in (None, True):
        with pytest.raises(CodesError, match=sentence):
            HammingIndex.load(path, verify=verify)
    monkeypatch.setattr(store_arrays, "VERIFIED_BYTES", 0)
    queries = some_codes(2, bits)
    for use in (
        lambda index: index.search(queries, 3),
        lambda index: index.search(queries, 3, by="tables"),
        lambda index: index.search(queries, 3, only=[5]),
        lambda index: index.within(queries, 1),
        lambda index: index.codes_of([7]),
        lambda index: index.add(some_codes(80, bits)),
        HammingIndex.prepare,
    ):
        with pytest.raises(CodesError, match=sentence):
            use(HammingIndex.load(path))


@pytest.mark.parametrize("bits", [8, 16, 32, 64, 128, 256])
def test_whole_words_have_no_spare_bits(tmp_path, bits):
    forge(tmp_path / "index", bits, [(all_set(100, bits), 0)])
    assert (HammingIndex.load(tmp_path / "index", verify=True).codes.packed == 255).all()


def test_searches_of_unchecked_words_stay_in_bounds(monkeypatch):
    monkeypatch.setattr("scdh.index.search.scan.WORTH_LOADING", 1 << 62)
    assert search_in_all_ways(100, 13, ("auto", "scan")) > 80


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--bits", "13", "65"], ["--numpy", "--bits", "7", "250"]])
def test_searches_of_unchecked_words_under_a_check_of_bounds(tmp_path, options):
    command = [sys.executable, "-m", "tests.index.forged", "--rows", "100", *options]
    variables = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    process = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) > 200


def test_ids_that_repeat_within_a_segment_are_rejected_when_they_are_read(tmp_path, mapped):
    rows = 3 * BLOCK_BYTES // 8
    words = np.zeros((1, rows), np.uint8)
    in_block, across = np.arange(rows), np.arange(rows)
    in_block[5] = 4
    across[BLOCK_BYTES // 8 :] -= 1  # the first of a block is the last of the one before
    far = np.arange(rows)
    far[2 * BLOCK_BYTES // 8 :] = np.arange(BLOCK_BYTES // 8)
    for number, ids in enumerate((in_block, across, far)):
        path = tmp_path / f"{number}"
        forge(path, 8, [(words, ids)])
        index = HammingIndex.load(path)
        with pytest.raises(CodesError, match="ids of segment 0 some are not larger than the one before"):
            index.search(Codes(np.zeros((1, 1), np.uint8), 8), BLOCK_BYTES // 8)
        with pytest.raises(CodesError, match="not larger"):
            HammingIndex.load(path, verify=True)


@pytest.mark.parametrize(
    ("first", "second"), [(0, 99), (0, [50, 200]), ([1, 5, 9], [2, 5, 8]), ([1, 5, 9], 9), (0, 0), ([-7, 3], [-7, 4])]
)
def test_an_id_in_two_segments_is_rejected(tmp_path, first, second):
    sizes = [100 if isinstance(ids, int) else len(ids) for ids in (first, second)]
    parts = [(np.zeros((1, size), np.uint16), ids) for size, ids in zip(sizes, (first, second), strict=True)]
    forge(tmp_path / "index", 12, parts)
    for verify in (None, True):
        with pytest.raises(CodesError, match=r"is damaged: the id -?\d+ is in two of its segments"):
            HammingIndex.load(tmp_path / "index", verify=verify)


@pytest.mark.parametrize("at_once", [1, 7, 50, 1 << 22])
def test_repeated_ids_are_found_as_by_counting(monkeypatch, at_once):
    monkeypatch.setattr(arrays, "_AT_ONCE", at_once)
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(150):
        segments = []
        for _ in range(rng.integers(1, 6)):
            rows = int(rng.integers(1, 30))
            ids = np.sort(rng.choice(400, rows, replace=False)) - 100 if rng.random() < 0.6 else int(rng.integers(400))
            alive = rng.random(rows) < 0.5 if rng.random() < 0.5 else None
            segments.append(Segment(np.zeros((1, rows), np.uint8), ids, alive))
        everything = np.concatenate([segment.alive_ids() for segment in segments])
        values, counts = np.unique(everything, return_counts=True)
        repeated = arrays.repeated_id(segments)
        assert (repeated is None) == (len(values) == len(everything))
        assert repeated is None or repeated in values[counts > 1]
        found += repeated is not None
    assert 20 < found < 140


# Damage in large files


@pytest.fixture
def large(tmp_path, mapped):
    """Some blocks of words and of ids; its bytes, and the places of its arrays."""
    rows = 3 * BLOCK_BYTES // 16 + 1000
    index = HammingIndex(some_codes(rows, 128), np.arange(rows) * 2)
    index.save(tmp_path / "index")
    manifest = manifest_of(tmp_path / "index")
    return tmp_path / "index", rows, manifest["segments"][0]


def manifest_of(path):
    raw = path.read_bytes()
    slot = Slot(*Slot._make(np.frombuffer(raw, "<u4", 1, 20).tolist() + np.frombuffer(raw, "<u8", 4, 24).tolist()))
    return json.loads(raw[slot.manifest_at : slot.manifest_at + slot.manifest_bytes])


def flip(path, at):
    with open(path, "r+b") as handle:
        handle.seek(at)
        byte = handle.read(1)[0]
        handle.seek(at)
        handle.write(bytes([byte ^ 4]))


def test_damage_is_found_when_a_block_is_first_read(large):
    path, rows, segment = large
    queries = some_codes(2, 128, 1)
    expected = HammingIndex.load(path).search(queries, 5)
    place, size, _ = segment["words"]
    for at in range(0, size, size // 23):
        flip(path, place + at)
        index = HammingIndex.load(path)
        row = at % (8 * rows) // 8
        with pytest.raises(CodesError, match="words of segment 0 do not match their checksum"):
            index.search(queries, 5)
        with pytest.raises(CodesError, match="do not match"):
            index.codes_of([2 * row])
        # A row has two words, in different blocks; it can be read if neither block is damaged.
        block = at // BLOCK_BYTES
        healthy = [r for r in range(0, rows, 997) if block not in (8 * r // BLOCK_BYTES, 8 * (rows + r) // BLOCK_BYTES)]
        index.codes_of([2 * r for r in healthy[:50]])
        assert index.search(queries, 3, only=[2 * healthy[0]]).ids.tolist() == [[2 * healthy[0]]] * 2
        flip(path, place + at)
    assert (HammingIndex.load(path).search(queries, 5).ids == expected.ids).all()


def test_damaged_ids_are_found_when_they_are_first_read(large):
    path, _rows, segment = large
    place, size, _ = segment["ids"]
    query = HammingIndex.load(path).codes_of([0])
    for at in range(0, size, size // 11):
        flip(path, place + at)
        index = HammingIndex.load(path)
        with pytest.raises(CodesError, match="ids of segment 0 do not match their checksum"):
            index.codes_of([2])
        block_of_first = at < BLOCK_BYTES
        if not block_of_first:
            assert HammingIndex.load(path).search(query, 1).ids.tolist() == [[0]]
        flip(path, place + at)


def test_damage_is_not_merged_into_a_new_segment(large):
    path, _rows, segment = large
    flip(path, segment["words"][0] + 5)
    with pytest.raises(CodesError, match="do not match"), IndexWriter(path) as writer:
        writer.add(some_codes(200_000, 128), np.arange(200_000) * 2 + 1)
    with pytest.raises(CodesError, match="does not match its checksum"):
        HammingIndex.load(path).save(path.with_name("copy"))


def test_checksums_of_blocks_survive_an_append_and_must_not_be_missing(large):
    path, rows, segment = large
    assert len(segment["sums"]["words"]) == 16 * -(-rows * 16 // BLOCK_BYTES)
    with IndexWriter(path) as writer:
        writer.commit((*writer.segments, Segment(np.ones((2, 3), np.uint64), 10**9)))
    after = manifest_of(path)["segments"]
    assert after[0] == segment
    assert "sums" not in after[1]  # too small for more than one checksum
    # Without them, or with those of other blocks, the file is rejected.
    for change in (without_sums, lambda manifest: manifest | {"block_bytes": 2 * BLOCK_BYTES}):
        changed = path.with_name("changed")
        raw, manifest = bytearray(path.read_bytes()), json.dumps(change(manifest_of(path))).encode()
        slot = Slot(zlib.crc32(manifest), 9, len(raw) + len(manifest), len(raw), len(manifest)).pack()
        for at in SLOTS_AT:
            raw[at : at + 64] = slot
        changed.write_bytes(raw + manifest)
        with pytest.raises(CodesError, match="its manifest makes no sense"):
            HammingIndex.load(changed)


def without_sums(manifest):
    segments = [{k: v for k, v in segment.items() if k != "sums"} for segment in manifest["segments"]]
    return manifest | {"segments": segments}


# Files copied over


CUT = """
import shutil, sys
from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index import HammingIndex
from scdh.index.store import arrays
arrays.VERIFIED_BYTES = int(sys.argv[3])
index = HammingIndex.load(sys.argv[1])
query = index.codes_of([5])
shutil.copyfile(sys.argv[2], sys.argv[1])
for use in (
    lambda: index.search(query, 1), lambda: index.within(query, 0), lambda: index.codes_of([5]), lambda: index.ids,
    lambda: index.save(sys.argv[1] + ".copy"), index.prepare,
    lambda: index.add(Codes(query.packed, 64), [7]),
):
    try:
        use()
        print("done")
    except CodesError as error:
        print("was overwritten while it was open" in str(error))
"""


@pytest.mark.parametrize("rows", [3, 60_000, 90_000])
@pytest.mark.parametrize("held", [0, 64 << 20])
def test_a_file_copied_over_an_open_index_ends_nothing(tmp_path, rows, held):
    HammingIndex(some_codes(60_000, 64), np.arange(60_000) * 5).save(tmp_path / "index")
    HammingIndex(some_codes(rows, 64, 1), np.arange(rows) * 5).save(tmp_path / "other")
    process = run_program(CUT, tmp_path / "index", tmp_path / "other", held)
    assert process.returncode == 0, (process.returncode, process.stderr)
    # Small files are in memory, and go on as if nothing had happened.
    assert process.stdout.split() == (["True"] * 7 if held == 0 else ["done"] * 7)


def test_appending_and_replacing_are_no_overwriting(tmp_path, mapped):
    path = tmp_path / "index"
    HammingIndex(some_codes(500, 12)).save(path)
    index = HammingIndex.load(path)
    with IndexWriter(path) as writer:
        writer.add(some_codes(500, 12, 1))
    assert len(index.search(some_codes(1, 12), 900)[0]) == 500
    write_index(path, 12, None, [])
    assert len(index.search(some_codes(1, 12), 900)[0]) == 500


# Bombs


def peak_of(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def sparse_file(path, manifest, size, manifest_bytes=None):
    """A file whose arrays are a hole; with ``manifest_bytes`` the manifest is one too."""
    text = json.dumps(manifest).encode()
    length = manifest_bytes or len(text)
    crc = zlib.crc32(text)
    for _ in range(0, length - len(text), 1 << 20) if manifest_bytes else ():
        crc = zlib.crc32(bytes(1 << 20), crc)
    slot = Slot(crc, 1, size + length, size, length).pack()
    with open(path, "wb") as handle:
        for at in SLOTS_AT:
            handle.seek(at)
            handle.write(slot)
        handle.seek(size)
        handle.write(text)
        handle.truncate(size + length)


def test_a_file_of_holes_takes_no_memory(tmp_path):
    rows = 2_000_000_000
    path = tmp_path / "removed"
    segment = {"rows": rows, "words": [8256, rows, 0], "ids": 0, "removed": [8192, 8, zlib.crc32(bytes(8))]}
    segment["sums"] = {"words": "00" * 8 * -(-rows // BLOCK_BYTES)}
    manifest = {"bits": 8, "word": "uint8", "metadata": {}, "segments": [segment], "block_bytes": BLOCK_BYTES}
    sparse_file(path, manifest, 8256 + rows)
    assert path.stat().st_blocks * 512 < 1 << 16

    def rejected(path):
        with pytest.raises(CodesError, match="is rejected as a sparse file"):
            HammingIndex.load(path)

    assert peak_of(lambda: rejected(path)) < 1 << 24
    path = tmp_path / "manifest"
    sparse_file(path, {}, 8192, manifest_bytes=2 + (1 << 30))
    assert peak_of(lambda: rejected(path)) < 1 << 24


def test_arrays_that_overlap_are_rejected(tmp_path):
    def segment(number):
        return {"rows": 1000, "words": [8192 + 64 * number, 1000, 0], "ids": 1000 * number, "removed": None}

    path = tmp_path / "index"
    segments = [segment(number) for number in range(50)]
    sparse_file(path, {"bits": 8, "word": "uint8", "metadata": {}, "segments": segments}, 8192 + 64 * 50 + 1000)
    with pytest.raises(CodesError, match="same place"):
        HammingIndex.load(path, verify=False)


@pytest.mark.slow
@pytest.mark.parametrize("removed", [None, np.array([1, 2], np.int64)])
def test_ids_are_not_made_unless_asked_for(tmp_path, removed, mapped):
    rows = 10_000_000
    path = tmp_path / "index"
    forge(path, 8, [(np.zeros((1, rows), np.uint8), 100)], removed)
    query, far = Codes(np.zeros((1, 1), np.uint8), 8), Codes(np.full((1, 1), 255, np.uint8), 8)
    only = np.zeros(rows - (0 if removed is None else 2), np.bool_)
    only[7] = True

    def use():
        index = HammingIndex.load(path)
        count = rows - (0 if removed is None else 2)
        assert len(index) == count
        assert index.search(query, 3).ids.tolist() == [[100, 101, 102] if removed is None else [100, 103, 104]]
        assert len(index.within(far, 3)[0]) == 0
        assert len(index.codes_of([100, 5000])) == 2
        assert index.search(query, 3, only=[5, 105]).ids.tolist() == [[105]]
        assert index.search(query, 3, only=only).ids.tolist() == [[107 if removed is None else 109]]
        with pytest.raises(CodesError, match=rf"does not contain the id 5; its {count} ids go from 100 to {rows + 99}"):
            index.codes_of([5])

    use()  # loads the compiled loops
    assert peak_of(use) < 4 * rows


# Pipes


PIPE = """
import sys
from scdh.errors import CodesError
from scdh.index import HammingIndex
from scdh.codes import Codes
from scdh.index.store import IndexWriter, write_index, is_newer
for use in (
    lambda path: HammingIndex.load(path), lambda path: IndexWriter(path), lambda path: IndexWriter(path, bits=12),
    lambda path: HammingIndex(Codes.from_bits([[1]])).save(path),
):
    for path in sys.argv[1:]:
        try:
            use(path)
        except CodesError as error:
            print("is not a file on disk" in str(error))
"""


def test_a_pipe_is_rejected_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    process = run_program(PIPE, tmp_path / "pipe", tmp_path / "link", "/dev/null", timeout=60)
    assert process.returncode == 0, process.stderr
    assert process.stdout.split() == ["True"] * 12


@pytest.mark.parametrize("parts", [(range(30), range(200, 280, 2), range(50, 60)), (range(0, 90, 3), range(1, 50, 3))])
def test_masks_over_segments_in_any_order_select_the_same(parts):
    rng = np.random.default_rng(0)
    for order in itertools.permutations(np.array(part) for part in parts):
        index = HammingIndex(some_codes(1, 12))
        alive = [rng.random(len(ids)) < 0.7 for ids in order]
        index._segments = tuple(
            Segment(np.zeros((1, len(ids)), np.uint16), ids, rows) for ids, rows in zip(order, alive, strict=True)
        )
        mask = rng.random(len(index)) < 0.3
        found = index.search(some_codes(1, 12), len(index), only=mask).ids[0]
        assert sorted(found.tolist()) == index.ids[mask].tolist()

import errno
import json
import os
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.codes import Codes
from scdh.errors import CodesError
from scdh.index.segments import Segment, add_segment, make_segment, remove_ids
from scdh.index.store import IndexWriter, is_newer, read_index, write_index
from scdh.index.store import arrays as store_arrays
from scdh.index.store import file_access as store_files
from scdh.index.store import format as store_format
from scdh.index.store import writer as store_writer
from scdh.index.store.format import BODY_AT, SLOTS_AT, Manifest, Pen, Slot
from tests.index.kill_appends import apply, content

LENGTHS = [1, 7, 8, 12, 13, 48, 63, 64, 65, 128, 1000]


def some_codes(rows, bits, seed=0):
    return Codes.from_signs(np.random.default_rng(seed).random((rows, bits)) < 0.5)


def as_dict(codes, ids):
    model = {}
    apply(model, "add", np.asarray(ids), codes.packed)
    return model


def filled(path, bits=13, commits=4):
    """A small file after several commits, with every kind of array in it, and what it holds."""
    model = {}
    with IndexWriter(path, bits=bits, metadata={"model": "abc"}) as writer:
        for i in range(commits):
            codes, ids = some_codes(30 + i, bits, i), np.arange(30 + i) * (1 + i % 2) + 1000 * i
            segment = make_segment(codes, ids)
            writer.commit((*writer.segments, segment))
            apply(model, "add", ids, codes.packed)
        for gone in ([0, 5], [1002, 1004, 1006]):
            writer.remove(gone)
            apply(model, "remove", np.array(gone), None)
    return model


def rejection(path, **kwargs):
    with pytest.raises(CodesError) as caught:
        read_index(path, **kwargs)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(".")
    return str(caught.value)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    bits=st.sampled_from(LENGTHS),
    unused=st.sampled_from([0, 3000, 1 << 24]),
    mapped_from=st.sampled_from([0, 2000, 1 << 24]),
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "numbered", "several", "remove", "reopen", "rejected"]), st.integers(0, 10**6)
        ),
        max_size=8,
    ),
)
def test_any_history_equals_a_dict(tmp_path_factory, bits, unused, mapped_from, steps):
    path = tmp_path_factory.mktemp("store") / "index"
    model = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_writer, "UNUSED_BYTES", unused)
        patch.setattr(store_arrays, "VERIFIED_BYTES", mapped_from)
        writer = IndexWriter(path, bits=bits)
        for kind, seed in steps:
            rng = np.random.default_rng(seed)
            codes = some_codes(rng.choice([0, 1, 2, 17, 300]), bits, seed)
            free = np.setdiff1d(np.arange(-1000, 1000), list(model))
            if kind == "add":
                ids = rng.choice(free, size=len(codes), replace=False)
                writer.add(codes, ids)
                apply(model, "add", ids, codes.packed)
            elif kind == "numbered":
                ids = np.arange(len(codes)) + max(model, default=-1) + 1
                writer.add(codes)
                apply(model, "add", ids, codes.packed)
            elif kind == "several":
                ids = rng.choice(free, size=len(codes), replace=False)
                segments = add_segment(writer.segments, make_segment(codes, ids))
                gone = rng.permutation(sorted({*model, *ids.tolist()}))[:2]
                writer.commit(remove_ids(segments, gone))
                apply(model, "add", ids, codes.packed)
                apply(model, "remove", gone, None)
            elif kind == "remove":
                gone = rng.permutation(np.array(sorted(model), dtype=np.int64))[: rng.integers(0, len(model) + 1)]
                writer.remove(gone)
                apply(model, "remove", gone, None)
            elif kind == "reopen":
                writer.close()
                writer = IndexWriter(path)
            else:
                with pytest.raises(CodesError):
                    writer.remove([*model, 5000])
                if model:
                    with pytest.raises(CodesError):
                        writer.add(some_codes(1, bits), [next(iter(model))])
            assert content(writer) == model
            stored = read_index(path, verify=True)
            assert content(stored) == model
            assert stored.generation == writer.generation
        writer.close()
    assert [p.name for p in path.parent.iterdir()] == ["index"]


@pytest.mark.parametrize("bits", LENGTHS)
def test_whole_files(tmp_path, bits):
    codes, ids = some_codes(50, bits), np.arange(50)[::-1] * 3
    segments = remove_ids([make_segment(codes, ids), make_segment(codes, np.arange(1000, 1050))], np.array([3, 1001]))
    write_index(tmp_path / "new" / "index", bits, {"model": "ä"}, segments)
    stored = read_index(tmp_path / "new" / "index")
    assert content(stored) == {**as_dict(codes[:48], ids[:48]), **as_dict(codes[49:], ids[49:])} | as_dict(
        codes[:1], [1000]
    ) | as_dict(codes[2:], np.arange(1002, 1050))
    assert (stored.bits, stored.metadata, len(stored)) == (bits, {"model": "ä"}, 98)
    assert isinstance(stored.segments[1].ids, int)
    words = stored.segments[0].words
    assert not words.flags.writeable
    assert words.ctypes.data % 64 == 0
    first = (tmp_path / "new" / "index").read_bytes()
    write_index(tmp_path / "new" / "index", bits, {"model": "ä"}, stored.segments)
    assert (tmp_path / "new" / "index").read_bytes() == first
    assert not is_newer(tmp_path / "new" / "index", stored)
    write_index(tmp_path / "new" / "index", bits, None, [])
    assert is_newer(tmp_path / "new" / "index", stored)
    assert len(read_index(tmp_path / "new" / "index")) == 0


def test_a_reader_keeps_its_state_while_the_writer_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "index"
    monkeypatch.setattr(store_arrays, "VERIFIED_BYTES", 0)  # mapped, as large files are
    snapshots = [(filled(path), read_index(path))]
    path.chmod(0o640)
    monkeypatch.setattr(store_writer, "UNUSED_BYTES", 0)
    inodes = {path.stat().st_ino}
    with IndexWriter(path) as writer:
        for i in range(30):
            assert not is_newer(path, snapshots[-1][1])
            model = dict(snapshots[-1][0])
            gone = np.array(sorted(model))[:: 2 + i % 3]
            writer.remove(gone)
            apply(model, "remove", gone, None)
            assert is_newer(path, snapshots[-1][1])
            codes = some_codes(50 + i, 13, i)
            ids = np.arange(len(codes)) + 10_000 * (i + 1)
            writer.add(codes, ids)
            apply(model, "add", ids, codes.packed)
            snapshots.append((model, read_index(path, verify=True)))
            inodes.add(path.stat().st_ino)
    assert len(inodes) > 3
    assert path.stat().st_mode & 0o777 == 0o640
    for model, snapshot in snapshots:
        assert content(snapshot) == model


@pytest.mark.slow
def test_every_cut_is_rejected(tmp_path):
    path = tmp_path / "index"
    filled(path)
    size = path.stat().st_size
    assert size < 12_000
    for length in range(size - 1, -1, -1):
        os.truncate(path, length)
        words = rejection(path)
        expected = size if length >= 64 else BODY_AT
        assert f" {length} " in words
        assert str(expected) in words or str(read_end(path)) in words
        assert "cut short" in words


def read_end(path):
    """The end that the first slot promises."""
    return struct.unpack_from("<Q", path.read_bytes(), 32)[0]


def content_or_rejection(path):
    try:
        return content(read_index(path))
    except CodesError as error:
        return str(error)


@pytest.mark.slow
def test_every_flipped_byte_is_rejected_or_does_no_harm(tmp_path):
    path = tmp_path / "index"
    model = filled(path)
    whole = path.read_bytes()
    rng = random.Random(0)
    rejected = 0
    with open(path, "r+b", buffering=0) as handle:
        for at, byte in enumerate(whole):
            if at < BODY_AT and at % 4096 >= 64 and at % 16:
                continue  # nothing is in these bytes, so every sixteenth will do
            os.pwrite(handle.fileno(), bytes([byte ^ rng.choice([1, 128, 255, rng.randrange(1, 256)])]), at)
            found = content_or_rejection(path)
            assert found == model or ("damaged" in found and "\n" not in found)
            rejected += found != model
            os.pwrite(handle.fileno(), bytes([byte]), at)
    assert content(read_index(path)) == model
    assert 500 < rejected < len(whole) - BODY_AT  # in the unused bytes and the twins a flip does no harm


@pytest.mark.parametrize("slot", [0, 1])
def test_a_broken_slot_never_loses_a_commit(tmp_path, slot):
    path = tmp_path / "index"
    for commits in (3, 4):
        model = filled(path, commits=commits)
        with open(path, "r+b") as handle:
            handle.seek(SLOTS_AT[slot])
            handle.write(bytes(64))
        assert content(read_index(path)) == model
        with IndexWriter(path) as writer:
            assert content(writer) == model
            # Both slots are whole again before the next commit writes over one of them.
            with open(path, "rb", buffering=0) as handle:
                assert store_format.read_header(handle, path).broken == ()
            writer.add(some_codes(2, 13), [-1, -2])
        assert content(read_index(path)) == model | as_dict(some_codes(2, 13), [-1, -2])
        path.unlink()


def test_a_slot_and_its_copy_broken_is_rejected(tmp_path):
    path = tmp_path / "index"
    filled(path)
    whole = bytearray(path.read_bytes())
    slots = [Slot(*struct.unpack_from("<IQQQQ", whole, at + 20)) for at in SLOTS_AT]
    older, newest = sorted(slots, key=lambda slot: slot.generation)
    whole[SLOTS_AT[newest.generation % 2]] ^= 1
    twin = store_format.aligned(older.end)
    assert whole[twin : twin + 64] == newest.pack()
    whole[twin] ^= 1
    path.write_bytes(whole)
    assert "nor does its copy" in rejection(path)
    with pytest.raises(CodesError, match="nor does its copy"):
        IndexWriter(path)
    assert path.read_bytes() == whole


def test_what_a_killed_writer_left_counts_for_nothing(tmp_path):
    path = tmp_path / "index"
    model = filled(path)
    size = path.stat().st_size
    with open(path, "ab") as handle:
        handle.write(os.urandom(3000))
    (tmp_path / ".index.123-0a1b2c3d.tmp").write_bytes(b"half")
    (tmp_path / ".index.other.123-0a1b2c3d.tmp").write_bytes(b"of somebody else")
    assert content(read_index(path, verify=True)) == model
    with IndexWriter(path) as writer:
        assert content(writer) == model
        assert path.stat().st_size == size
        writer.add(some_codes(1, 13), [-1])
    assert content(read_index(path)) == model | as_dict(some_codes(1, 13), [-1])
    assert sorted(p.name for p in tmp_path.iterdir()) == [".index.other.123-0a1b2c3d.tmp", "index"]


def test_one_writer_many_readers(tmp_path, monkeypatch):
    monkeypatch.setattr(store_writer, "UNUSED_BYTES", 0)
    path = tmp_path / "index"
    with IndexWriter(path, bits=12) as writer:
        for _ in range(6):
            writer.add(some_codes(200, 12))
            for attempt in (lambda: IndexWriter(path), lambda: write_index(path, 12, None, [])):
                with pytest.raises(CodesError, match=r"index is open in another IndexWriter") as caught:
                    attempt()
                assert str(path) in str(caught.value)
            assert len(read_index(path)) == len(writer)
            writer.remove(np.arange(len(writer) - 10))
            writer.remove(writer.segments[0].alive_ids())
        kept = writer.segments
    # The maps of the old writer are still open, but its lock is not held any more.
    with IndexWriter(path) as second:
        assert second.generation > 6
        with pytest.raises(CodesError, match="is closed"):
            writer.commit(kept)
        second.add(some_codes(3, 12))
    write_index(path, 12, None, [])


def test_a_file_replaced_between_opening_and_locking_is_opened_again(tmp_path, monkeypatch):
    path = tmp_path / "index"
    filled(path)
    filled(tmp_path / "other", bits=12)
    real = store_files.lock

    def lock(handle, name):
        if (tmp_path / "other").exists():
            os.replace(tmp_path / "other", path)
        real(handle, name)

    monkeypatch.setattr(store_files, "lock", lock)
    with IndexWriter(path) as writer:
        assert writer.bits == 12
        writer.remove([1])
        assert content(read_index(path)) == content(writer)


def test_a_replaced_or_removed_file_is_noticed(tmp_path):
    path = tmp_path / "index"
    for change in (path.unlink, lambda: os.replace(tmp_path / "other", path)):
        filled(tmp_path / "other")
        with IndexWriter(path, bits=12) as writer:
            change()
            with pytest.raises(CodesError, match="removed or replaced"):
                writer.add(some_codes(3, 12))


def test_links_are_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(store_writer, "UNUSED_BYTES", 0)
    (tmp_path / "link").symlink_to(tmp_path / "index")
    with IndexWriter(tmp_path / "link", bits=12) as writer:
        for _ in range(4):
            writer.add(some_codes(100, 12))
            writer.remove(np.arange(100))
    write_index(tmp_path / "link", 12, None, writer.segments)
    assert (tmp_path / "link").is_symlink()
    assert len(read_index(tmp_path / "link")) == 0


def test_what_is_on_disk_is_not_written_again(tmp_path):
    path = tmp_path / "index"
    with IndexWriter(path, bits=64) as writer:
        writer.add(some_codes(50_000, 64), np.arange(50_000) * 2)
        words, ids, size = writer.segments[0].words, writer.segments[0].ids, path.stat().st_size
        writer.remove([4, 8])
        writer.commit((*writer.segments, make_segment(some_codes(10, 64), np.arange(10) + 10**6)))
        assert path.stat().st_size < size + 2000
        assert writer.segments[0].words is words
        assert writer.segments[0].ids is ids
        generation = writer.generation
        writer.commit(writer.segments)
        writer.add(some_codes(0, 64))
        writer.remove([])
        assert writer.generation == generation
        # Many removed rows are stored as bits, few as numbers.
        size = path.stat().st_size
        writer.remove(np.arange(5000, 25_000) * 2)
        assert path.stat().st_size < size + 50_000 // 8 + 1000


def test_damage_is_not_carried_into_a_new_file(tmp_path, monkeypatch):
    path = tmp_path / "index"
    monkeypatch.setattr(store_arrays, "VERIFIED_BYTES", 0)  # a copy in memory would not be damaged
    with IndexWriter(path, bits=64) as writer:
        writer.add(some_codes(1000, 64))
        writer.commit((*writer.segments, make_segment(some_codes(2000, 64), np.arange(5000, 7000))))
        at = writer._arrays.extent_of(writer.segments[0].words).at
        with open(path, "r+b") as handle:
            handle.seek(at)
            handle.write(b"\0" * 8)
        monkeypatch.setattr(store_writer, "UNUSED_BYTES", 0)
        with pytest.raises(CodesError, match=f"array at byte {at} of the file"):
            writer.commit(writer.segments[:1])
    assert "words of segment 0" in rejection(path, verify=True)
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


@pytest.mark.slow
def test_power_cuts_with_lost_and_torn_writes(tmp_path, monkeypatch):
    """What was not synced may be on disk or not, in any order and in part; each next writer starts from that."""
    path = tmp_path / "index"
    model = filled(path)
    rng = random.Random(1)
    log = []
    real_write, real_fsync, real_ftruncate = os.write, os.fsync, os.ftruncate

    def write(handle, data):
        log.append(("write", os.lseek(handle, 0, os.SEEK_CUR), bytes(data)))
        return real_write(handle, data)

    def fsync(handle):
        log.append(("sync", 0, b""))
        real_fsync(handle)

    def ftruncate(handle, size):
        log.append(("cut", size, b""))
        real_ftruncate(handle, size)

    kept = torn = 0
    for i in range(200):
        image = bytearray(path.read_bytes())
        codes = some_codes(rng.choice([1, 20]), 13, i)
        ids = np.arange(len(codes)) * 2 + 10_000 * (i + 1)
        log.clear()
        with pytest.MonkeyPatch.context() as patch:
            for name, logged in (("write", write), ("fsync", fsync), ("ftruncate", ftruncate)):
                patch.setattr(os, name, logged)
            with IndexWriter(path) as writer:
                writer.commit((*writer.segments[-3:], make_segment(codes, ids)))
                after = content(writer)
        cut = rng.randrange(len(log) + 1)
        if rng.random() < 0.5:  # the last write is the one of the slot; the sync after it may not be reached
            cut = len(log) - 1
        durable = max((n + 1 for n, (kind, _, _) in enumerate(log[:cut]) if kind == "sync"), default=0)
        for n, (kind, at, data) in enumerate(log[:cut]):
            if n >= durable and rng.random() < 0.3:
                continue
            start, end = (0, len(data)) if n < durable else sorted(rng.choices(range(len(data) + 1), k=2))
            if kind == "write":
                image.extend(bytes(max(0, at + len(data) - len(image))))
                image[at + start : at + end] = data[start:end]
            elif kind == "cut":
                del image[at:]
        path.unlink()
        path.write_bytes(image)
        found = content(read_index(path, verify=True))
        assert found in (model, after)
        assert found == after or cut < len(log)
        kept += found == after and cut < len(log)
        with open(path, "rb", buffering=0) as handle:
            torn += store_format.read_header(handle, path).from_twin
        model = found
    assert kept > 20
    assert torn > 20


@pytest.mark.parametrize("unused", [0, 1 << 24])
def test_a_full_disk_keeps_the_old_state_and_the_writer(tmp_path, unused):
    path = tmp_path / "index"
    model = filled(path)
    codes = some_codes(40, 13)
    with IndexWriter(path) as writer, pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_writer, "UNUSED_BYTES", unused)
        size = path.stat().st_size
        real, capacity = os.write, [size + 100]

        def write(handle, data):
            grown = os.lseek(handle, 0, os.SEEK_CUR) + len(data) - os.fstat(handle).st_size
            if sum(p.stat().st_size for p in tmp_path.iterdir()) + max(grown, 0) > capacity[0]:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(handle, data)

        patch.setattr(os, "write", write)
        segments = (*writer.segments, make_segment(codes, np.arange(40) * 3 - 500))
        for _ in range(2):
            with pytest.raises(CodesError, match="index could not be written and keeps its last state: No space left"):
                writer.commit(segments)
            assert path.stat().st_size == size
            assert content(read_index(path, verify=True)) == model == content(writer)
        # Enough for what is new, not for a second file.
        capacity[0] = size + 2000
        writer.commit(segments)
        capacity[0] = 10**6
        writer.remove(np.arange(39) * 3 - 500)
        assert content(read_index(path, verify=True)) == model | as_dict(codes[39:], [39 * 3 - 500])
        assert (path.stat().st_size < size) == (unused == 0)
    assert [p.name for p in tmp_path.iterdir()] == ["index"]


def test_a_failure_in_the_last_step_ends_the_writer(tmp_path, monkeypatch):
    path = tmp_path / "index"
    model = filled(path)
    with IndexWriter(path) as writer:
        calls, real = [], os.fsync

        def fsync(handle):
            calls.append(handle)
            if len(calls) == 2:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(handle)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fsync)
            with pytest.raises(CodesError, match="may or may not hold this commit"):
                writer.add(some_codes(1, 13), [-1])
        with pytest.raises(CodesError, match="was interrupted"):
            writer.add(some_codes(1, 13), [-2])
    assert content(read_index(path)) in (model, model | as_dict(some_codes(1, 13), [-1]))


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda writer, codes: writer.add(Codes.from_signs([[1.0]])), "1 bits, but 12"),
        (lambda writer, codes: writer.add(codes.packed), "must be Codes"),
        (lambda writer, codes: writer.add(codes[:2], ids=[7, 2]), "already contains the id 2"),
        (lambda writer, codes: writer.add(codes[:2], ids=[7, 7]), "id 7 occurs more than once"),
        (lambda writer, codes: writer.add(codes[:2], ids=[7]), "one id per code"),
        (lambda writer, codes: writer.remove([0, 99]), "does not contain the id 99"),
        (lambda writer, codes: writer.remove([1, 1]), "id 1 occurs more than once"),
        (lambda writer, codes: writer.remove([[1]]), "one row"),
        (lambda writer, codes: writer.commit([make_segment(some_codes(2, 64), np.arange(2))]), "12 bits hold uint16"),
        (lambda writer, codes: writer.commit([Segment(np.zeros((1, 2), np.uint16), np.array([2, 1]))]), "ascending"),
        (lambda writer, codes: writer.commit([Segment(np.zeros((1, 2), np.uint16), np.array([2]))]), "as many int64"),
        (lambda writer, codes: writer.commit([Segment(np.zeros((1, 2), np.uint16), 2**63 - 1)]), "fit into 64 bits"),
        (lambda writer, codes: writer.commit([Segment(np.zeros((1, 2), np.uint16), 0, np.ones(3, bool))]), "booleans"),
        (lambda writer, codes: IndexWriter(writer.path, bits=13), "open in another"),
    ],
)
def test_mistakes_get_one_sentence_and_change_nothing(tmp_path, action, words):
    codes = some_codes(4, 12)
    with IndexWriter(tmp_path / "index", bits=12) as writer:
        writer.add(codes)
        before = (tmp_path / "index").read_bytes()
        with pytest.raises(CodesError, match=words) as caught:
            action(writer, codes)
        assert "\n" not in str(caught.value)
        assert (tmp_path / "index").read_bytes() == before
        writer.add(codes)
        assert len(writer) == 8


def test_opening_with_other_bits_or_metadata_is_rejected(tmp_path):
    path = tmp_path / "index"
    with pytest.raises(CodesError, match=r"no scdh-index file at .*give the number of bits"):
        IndexWriter(path)
    with pytest.raises(CodesError, match="whole number"):
        IndexWriter(path, bits=0)
    with pytest.raises(CodesError, match="whole number"):
        IndexWriter(path, bits="12")
    with pytest.raises(CodesError, match="Metadata keys and values must be text"):
        IndexWriter(path, bits=12, metadata={"a": 1})
    assert not path.exists()
    IndexWriter(path, bits=12, metadata={"model": "a"}).close()
    IndexWriter(path, bits=12, metadata={"model": "a"}).close()
    with pytest.raises(CodesError, match="codes of 12 bits, but 13"):
        IndexWriter(path, bits=13)
    with pytest.raises(CodesError, match="model = 'a', but 'b' was expected"):
        IndexWriter(path, metadata={"model": "b"})
    with IndexWriter(path) as writer:
        assert writer.metadata == {"model": "a"}


def test_foreign_files_are_rejected(tmp_path):
    path = tmp_path / "index"
    assert "There is no scdh-index file" in rejection(path)
    assert "cannot be read: Is a directory" in rejection(tmp_path)
    for start in (b"x", b"PK\x03\x04" * 5000, b"\0" * 9000, b"scdh-codes" + b"\0" * 9000):
        path.write_bytes(start)
        assert "is not a scdh-index file" in rejection(path)
        with pytest.raises(CodesError, match="is not a scdh-index file"):
            IndexWriter(path, bits=12)
    path.write_bytes(b"")
    assert "at least 8192 bytes were expected, but 0 were found" in rejection(path)
    path.write_bytes(store_format.MAGIC + b"\0" * 9000)
    assert "neither of its two headers" in rejection(path)
    with pytest.raises(CodesError, match="neither of its two headers"):
        IndexWriter(path, bits=12)


def written_by_hand(path, manifest, size=BODY_AT, version=1):
    """A file with these words as its manifest, right in all checksums; arrays are a hole of zeros."""
    text = json.dumps(manifest).encode()
    slot = Slot(zlib.crc32(text), 1, size + len(text), size, len(text)).pack()
    start = slot[:16] + struct.pack("<I", version) + slot[20:-4]
    with open(path, "wb") as handle:
        for at in SLOTS_AT:
            handle.seek(at)
            handle.write(start + struct.pack("<I", zlib.crc32(start)))
        handle.seek(size)
        handle.write(text)


GOOD = {"rows": 4, "words": [8192, 8, zlib.crc32(bytes(8))], "ids": 0, "removed": None}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bits": 0}, "whole number"),
        ({"bits": True}, "whole number"),
        ({"bits": "12"}, "whole number"),
        ({"bits": 17}, "are words of uint32, not 'uint16'"),
        ({"metadata": {"a": 1}}, "Metadata keys and values must be text"),
        ({"metadata": []}, "its metadata are []"),
        ({"metadata": None}, "its metadata are None"),
        ({"segments": None}, "makes no sense"),
        ({"segments": [{}]}, "'rows'"),
        ({"segments": [GOOD | {"rows": 0}]}, "0 rows"),
        ({"segments": [GOOD | {"rows": 2**70}]}, "8 bytes for"),
        ({"segments": [GOOD | {"words": [8192, 8]}]}, "makes no sense"),
        ({"segments": [GOOD | {"words": [8192.0, 8, 0]}]}, "outside of the file"),
        ({"segments": [GOOD | {"words": [0, 8, 0]}]}, "outside of the file"),
        ({"segments": [GOOD | {"words": [8193, 8, 0]}]}, "outside of the file"),
        ({"segments": [GOOD | {"words": [81920000, 8, 0]}]}, "outside of the file"),
        ({"segments": [GOOD | {"words": [8192, 9, 0]}]}, "9 bytes for 4 rows"),
        ({"segments": [GOOD | {"ids": 2**63 - 3}]}, "4 ids from"),
        ({"segments": [GOOD | {"ids": [8256, 31, 0]}]}, "31 bytes for 4 rows"),
        ({"segments": [GOOD | {"ids": [8256, 32, zlib.crc32(bytes(32))]}]}, "not larger than the one before"),
        ({"segments": [GOOD | {"removed": [8256, 2, 0]}]}, "2 bytes for 4 rows"),
        ({"segments": [GOOD | {"removed": [8256, 1, 1]}]}, "removed rows of segment 0 do not match"),
        ({"segments": [GOOD, GOOD]}, "same place"),
        ({"segments": [GOOD | {"words": [8192, 8, 5]}]}, "words of segment 0 do not match their checksum"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_rejected(tmp_path, change, words):
    path = tmp_path / "index"
    good = {"bits": 12, "word": "uint16", "metadata": {}, "segments": [GOOD]}
    written_by_hand(path, good, size=8320)
    assert content(read_index(path, verify=True)) == dict.fromkeys(range(4), b"\0\0")
    written_by_hand(path, good | change, size=8320)
    found = rejection(path)
    assert words in found
    assert f"{path} is damaged: " in found


def test_removed_rows_outside_of_the_segment_are_rejected(tmp_path):
    path = tmp_path / "index"
    with open(path, "w+b", buffering=0) as handle:
        pen = Pen(handle, BODY_AT)
        words, gone = pen.put(np.zeros((1, 100), np.uint16)), pen.put(np.array([100]))
        entry = store_format.Entry(100, words, 0, gone)
        slot = pen.finish(Manifest(12, {}, (entry,)), 1)
        for at in SLOTS_AT:
            store_format.write_at(handle, at, slot.pack())
    assert "outside of 100 rows" in rejection(path)


def test_a_later_version_is_rejected(tmp_path):
    written_by_hand(tmp_path / "index", {}, version=2)
    assert "of version 2, but only version 1 can be read" in rejection(tmp_path / "index")


def test_large_files_are_opened_without_reading_them(tmp_path):
    path = tmp_path / "index"
    rows = 100_000_000
    segment = {"rows": rows, "words": [8192, 8 * rows, 5], "ids": 7, "removed": None}
    segment["sums"] = {"words": "00" * 8 * -(-8 * rows // (1 << 20))}
    manifest = {"bits": 64, "word": "uint64", "metadata": {}, "segments": [segment], "block_bytes": 1 << 20}
    written_by_hand(path, manifest, size=8192 + 8 * rows)
    stored = read_index(path)
    assert len(stored) == rows
    assert stored.segments[0].words[0, -1] == 0
    assert stored.segments[0].largest_id() == rows + 6
    segment |= {"rows": 9_000_000, "words": [8192, 72_000_000, 5], "sums": {"words": "00" * 8 * 69}}
    written_by_hand(path, manifest, size=8192 + 72_000_000)
    assert len(read_index(path)) == 9_000_000
    assert "do not match their checksum" in rejection(path, verify=True)


@pytest.mark.slow
def test_kills_at_random_moments():
    for kills in (10, 40, 160):  # on a busy machine a writer may be killed before it has done anything
        command = [sys.executable, "-m", "tests.index.kill_appends", "--times", str(kills)]
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        assert result["kills"] == kills
        assert result["corrupt"] == result["lost"] == 0
        if result["commits"] > 5:
            return
    pytest.fail(f"Only {result['commits']} changes were committed in {kills} runs of the writer.")

"""Hits ranked again by vectors: against a slow twin, through files, and with wrong input."""

from pathlib import Path

import numpy as np
import pytest

from scdh import Codes, HammingIndex, IndexWriter
from scdh.errors import CodesError, ConfigError
from scdh.index.store import arrays
from scdh.index.store.format import BODY_AT, SLOTS_AT, Entry, Manifest, Pen, write_at


def some_codes(rows: int, bits: int = 24, width: int = 24, kind: str = "int8", seed: int = 0) -> Codes:
    values = np.random.default_rng(seed).normal(size=(rows, max(bits, width)))
    return Codes.from_signs(values[:, :bits]).with_vectors(values[:, :width], kind)  # type: ignore[arg-type]


def slow_ranking(items: Codes, ids: np.ndarray, query: Codes, k: int, factor: int) -> list[tuple[int, float]]:
    bits, vectors = items.unpack(), items.vectors
    by_code = sorted((int((bits[row] != query.unpack()[0]).sum()), int(ids[row]), row) for row in range(len(items)))
    q, found = query.vectors[0].astype(float), []
    for _, item, row in by_code[: k * factor]:
        v = vectors[row].astype(float)
        norms = np.sqrt(v @ v) * np.sqrt(q @ q)
        found.append((round(1 - (v @ q / norms if norms else 0), 9), item))
    return [(item, distance) for distance, item in sorted(found)[:k]]


@pytest.mark.parametrize("kind", ["int8", "float16"])
@pytest.mark.parametrize(("bits", "width"), [(1, 3), (12, 12), (13, 40), (64, 64)])
def test_hits_are_those_of_the_slow_ranking(kind: str, bits: int, width: int) -> None:
    codes, ids = some_codes(60, bits, width, kind), np.random.default_rng(1).permutation(60)
    index = HammingIndex(codes[:40], ids[:40])
    index.add(codes[40:], ids[40:])
    for k, factor in ((1, 4), (5, 3), (7, 1), (30, 4)):
        hits = index.search(codes[:4], k, rescore=factor)
        for query in range(4):
            expected = slow_ranking(codes, ids, codes[query : query + 1], k, factor)
            assert hits.ids[query].tolist() == [item for item, _ in expected]
            np.testing.assert_allclose(hits.distances[query], [distance for _, distance in expected], atol=1e-8)


def test_large_factors_rank_everything_and_a_filter_holds() -> None:
    codes = some_codes(50)
    index = HammingIndex(codes)
    hits = index.search(codes[:3], 50, rescore=1)
    assert hits.ids.shape == (3, 50)
    assert index.search(codes[:3], 10, rescore=5).ids.tolist() == hits.ids[:, :10].tolist()
    assert set(index.search(codes[:3], 10, rescore=9, only=[3, 5, 8]).ids.ravel().tolist()) == {3, 5, 8}
    equal = HammingIndex(some_codes(1)[np.zeros(30, int)])
    assert equal.search(codes[:1], 4, rescore=4).ids.tolist() == [[0, 1, 2, 3]]


def test_vectors_are_rounded_to_their_direction() -> None:
    codes = Codes.from_signs(np.ones((3, 2))).with_vectors([[3.0, -4.0], [0.0, 0.0], [1e-30, 1e-30]])
    assert codes.vectors.tolist() == [[95, -127], [0, 0], [127, 127]]
    half = codes.with_vectors([[30.0, -40.0], [0.0, 0.0], [1e30, 1e30]], "float16").vectors
    assert half is not None
    np.testing.assert_allclose(half, [[0.6, -0.8], [0, 0], [0.5**0.5] * 2], atol=1e-3)
    assert codes.with_vectors(None).vectors is None


@pytest.mark.parametrize("mapped", [False, True])
def test_vectors_go_through_files_additions_and_removals(mapped, tmp_path, monkeypatch):
    if mapped:
        monkeypatch.setattr(arrays, "VERIFIED_BYTES", 0)
    codes, path = some_codes(900), tmp_path / "a.index"
    HammingIndex(codes[:400]).save(path)
    opened = HammingIndex.load(path)
    with IndexWriter(path) as writer:
        writer.add(codes[400:])
        writer.remove(np.arange(50, 700))
        writer.add(codes[50:700], np.arange(2000, 2650))
    assert opened.refresh()
    ids = np.r_[0:50, 700:900, 2000:2650]
    assert opened.ids.tolist() == ids.tolist()
    expected = HammingIndex(codes[np.r_[0:50, 700:900, 50:700]], ids)
    for index in (opened, HammingIndex.load(path, verify=True)):
        assert index.vector_kind == ("int8", 24)
        hits, right = (one.search(codes[:9], 5, rescore=4) for one in (index, expected))
        assert np.array_equal(hits.ids, right.ids)
        assert np.array_equal(hits.distances, right.distances)
    codes.save(tmp_path / "a.codes")
    assert np.array_equal(Codes.load(tmp_path / "a.codes").vectors, codes.vectors)  # type: ignore[arg-type]


@pytest.mark.parametrize("verify", [True, False])
def test_damaged_vectors_are_rejected(verify: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "VERIFIED_BYTES", 0)
    codes, path = some_codes(30_000, 64, 64), tmp_path / "a.index"
    HammingIndex(codes).save(path)
    data, place = bytearray(path.read_bytes()), codes.vectors[29_000].tobytes()  # type: ignore[index]
    data[data.index(place)] ^= 1
    path.write_bytes(data)
    with pytest.raises(CodesError, match="vectors of segment 0 do not match their checksum"):
        HammingIndex.load(path, verify=verify).search(codes[29_000:29_001], 1, rescore=2)
    if not verify:  # the other block is whole
        assert HammingIndex.load(path).codes_of([5]).vectors.tolist() == codes.vectors[5:6].tolist()  # type: ignore


def _forge(path: Path, vectors: np.ndarray, kind: tuple[str, int], rows: int = 4) -> Path:
    with open(path, "w+b", buffering=0) as handle:
        pen = Pen(handle, BODY_AT)
        entry = Entry(rows, pen.put(np.zeros((1, rows), np.uint8)), 0, None, pen.put(vectors))
        slot = pen.finish(Manifest(8, {}, (entry,), kind), 1)
        for at in SLOTS_AT:
            write_at(handle, at, slot.pack())
    return path


@pytest.mark.parametrize(
    ("vectors", "kind", "message"),
    [
        (np.zeros((4, 2), np.int8), ("int8", 3), "the vectors of segment 0 take 8 bytes for 4 rows"),
        (np.zeros((4, 2), np.int8), ("float16", 2), "the vectors of segment 0 take 8 bytes for 4 rows"),
        (np.zeros((4, 2), np.int8), ("object", 1), "numbers of type 'object'"),
        (np.zeros((4, 2), np.int8), ("int8", 0), "its vectors are 0 numbers"),
        (np.zeros((4, 2), np.int8), ("int8", True), "its vectors are True numbers"),
        (np.full((4, 2), np.nan, np.float16), ("float16", 2), "some are not finite"),
    ],
)
def test_forged_vectors_are_rejected(vectors: np.ndarray, kind: tuple[str, int], message: str, tmp_path: Path) -> None:
    with pytest.raises(CodesError, match=message):
        HammingIndex.load(_forge(tmp_path / "a.index", vectors, kind), verify=True)


def test_what_does_not_fit_is_rejected() -> None:
    codes = some_codes(6)
    index, plain = HammingIndex(codes), codes.with_vectors(None)
    with pytest.raises(CodesError, match="keeps no vectors"):
        HammingIndex(plain).search(codes, rescore=4)
    with pytest.raises(CodesError, match="queries carry no vectors"):
        index.search(plain, rescore=4)
    with pytest.raises(CodesError, match="have 20 numbers, not 24"):
        index.search(some_codes(2, width=20), rescore=4)
    with pytest.raises(ConfigError, match="leave out weights"):
        index.search(codes, rescore=4, weights=np.ones((6, 24)))
    with pytest.raises(CodesError, match="rescore must be"):
        index.search(codes, rescore=0)
    for other in (plain, some_codes(6, kind="float16"), some_codes(6, width=20)):
        with pytest.raises(CodesError, match="items of an index must have vectors of one kind"):
            index.add(other, np.arange(10, 16))
        assert len(index) == 6
    with pytest.raises(CodesError, match="all parts need vectors of one kind"):
        Codes.concatenate([codes, plain])
    for wrong in (np.zeros(6), np.full((6, 2), np.nan), [["a", "b"]] * 6):
        with pytest.raises(CodesError, match="Vectors must be"):
            codes.with_vectors(wrong)
    with pytest.raises(CodesError, match="must have the shape"):
        codes.with_vectors(np.ones((5, 2)))
    with pytest.raises(CodesError, match="int8"):
        codes.with_vectors(np.ones((6, 2)), "int4")  # type: ignore[arg-type]

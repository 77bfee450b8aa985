import copy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.codes import Codes
from scdh.errors import CodesError, ConfigError
from scdh.index import HammingIndex, segments
from scdh.index.kernels import distances, threads
from scdh.index.search import hash_tables, planner, scan
from scdh.index.search import queries as query_search
from scdh.index.store import IndexWriter
from tests.reference import slow_search

LENGTHS = [1, 7, 8, 12, 13, 48, 63, 64, 65, 128, 255, 256, 257, 1000]


def random_bits(rows, bits, seed, flip=0.1):
    """Rows near a few centres, so that there are many ties and many different distances."""
    rng = np.random.default_rng(seed)
    centres = rng.random((3, bits)) < 0.5
    return centres[rng.integers(0, 3, rows)] ^ (rng.random((rows, bits)) < flip)


def random_ids(rows, seed):
    return np.random.default_rng(seed).choice(np.arange(-1000, 1000), size=rows, replace=False)


def assert_same(hits, expected):
    assert hits.ids.tolist() == [[i for _, i in answer] for answer in expected]
    assert hits.distances.tolist() == [[d for d, _ in answer] for answer in expected]


@pytest.fixture(params=["numpy", "kernels", "three threads"])
def loops(request, monkeypatch):
    """Both ways of looking at everything, and several threads."""
    monkeypatch.setattr(scan, "WORTH_LOADING", 0 if request.param != "numpy" else 10**15)
    monkeypatch.setattr(threads, "_chosen", 3 if request.param == "three threads" else 1)
    if request.param == "three threads":
        monkeypatch.setattr(scan, "WORDS_FOR_A_THREAD", 1)


# Threads share rows whatever the length, so a few lengths will do for them.
WAYS = [(bits, way) for bits in LENGTHS for way in ("numpy", "kernels")]
WAYS += [(bits, "three threads") for bits in (12, 64, 257)]
every_way = pytest.mark.parametrize(("bits", "loops"), WAYS, indirect=["loops"])


@every_way
def test_search_equals_sorting_everything(bits, loops):
    base, asked, ids = random_bits(260, bits, 1), random_bits(7, bits, 2), random_ids(260, 3)
    index, expected = HammingIndex(Codes.from_signs(base), ids=ids), slow_search.search(asked, base, ids, 260)
    for k in (1, 2, 259, 260, 261, 10**6):
        hits = index.search(Codes.from_signs(asked), k=k)
        assert hits.ids.dtype == np.int64
        assert hits.distances.dtype == np.int32
        assert hits.ids.shape == (7, min(k, 260))
        assert_same(hits, [answer[:k] for answer in expected])


@every_way
def test_within_equals_looking_at_everything(bits, loops):
    base, asked, ids = random_bits(260, bits, 4), random_bits(7, bits, 5), random_ids(260, 6)
    index, everything = HammingIndex(Codes.from_signs(base), ids=ids), slow_search.search(asked, base, ids, 260)
    for radius in (0, 2, bits // 3, bits, bits + 5):
        hits = index.within(Codes.from_signs(asked), radius=radius)
        expected = [[pair for pair in answer if pair[0] <= radius] for answer in everything]
        assert hits.counts.tolist() == [len(answer) for answer in expected]
        assert hits.ids.tolist() == [i for answer in expected for _, i in answer]
        assert hits.distances.tolist() == [d for answer in expected for d, _ in answer]
        for query in (0, 3, -1):
            assert [(distance, number) for number, distance in hits[query]] == expected[query]
        assert hits.distances.dtype == np.int32


@settings(max_examples=60, deadline=None)
@given(
    bits=st.sampled_from([1, 3, 12, 64, 65]),
    rows=st.integers(1, 90),
    block=st.integers(1, 40),
    pairs=st.integers(1, 300),
    k=st.integers(1, 20),
    seed=st.integers(0, 10**6),
)
def test_answers_do_not_depend_on_blocks(bits, rows, block, pairs, k, seed):
    base, asked, ids = random_bits(rows, bits, seed), random_bits(5, bits, seed + 1), random_ids(rows, seed)
    index = HammingIndex(Codes.from_signs(base), ids=ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "_BLOCK_ROWS", block)
        patch.setattr(scan, "BLOCK_PAIRS", pairs)
        assert_same(index.search(Codes.from_signs(asked), k), slow_search.search(asked, base, ids, k))
        near = index.within(Codes.from_signs(asked), 2)
    expected = [pair for answer in slow_search.within(asked, base, ids, 2) for pair in answer]
    assert list(zip(near.distances.tolist(), near.ids.tolist(), strict=True)) == expected


@pytest.mark.slow
@settings(max_examples=70, deadline=None)
@given(
    bits=st.sampled_from(LENGTHS),
    rows=st.integers(0, 150),
    seed=st.integers(0, 10**6),
    flip=st.sampled_from([0.0, 0.02, 0.3]),
    k=st.integers(1, 30),
    radius=st.integers(0, 6),
    only=st.sampled_from([None, "ids", "mask", "nothing"]),
    small=st.booleans(),
    by=st.sampled_from(["scan", "tables", "auto"]),
    kernels=st.booleans(),
)
def test_every_way_to_search_what_is_left_after_changes(bits, rows, seed, flip, k, radius, only, small, by, kernels):
    """Segments, removed rows and filters, by scan and by tables, against looking at everything."""
    if by == "tables" and bits > 128:
        radius, k = min(radius, 2), 1  # far neighbours of long codes are millions of look-ups away
    rng = np.random.default_rng(seed)
    base, asked, ids = random_bits(rows, bits, seed, flip), random_bits(4, bits, seed, flip), random_ids(rows, seed)
    codes = Codes.from_signs(base)
    cut, gone = rng.integers(0, rows + 1), rng.random(rows) < 0.3
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MERGED_ROWS", 0 if small else 1 << 20)
        patch.setattr(scan, "WORTH_LOADING", 0 if kernels else 10**15)
        index = HammingIndex(codes[:cut], ids=ids[:cut])
        index.add(codes[cut:], ids=ids[cut:])
        index.remove(ids[gone])
        left = np.flatnonzero(~gone)
        chosen = {None: None, "nothing": [], "ids": [5000], "mask": None}[only]
        if only in ("ids", "mask"):
            mask = rng.random(len(left)) < rng.choice([0.1, 0.6])
            order = left[np.argsort(ids[left])]
            left = order[mask]
            # Ids that the index does not hold are passed over.
            chosen = mask if only == "mask" else np.concatenate([ids[left], ids[gone], [5000]])
        elif only == "nothing":
            left = left[:0]
        hits = index.search(Codes.from_signs(asked), k, only=chosen, by=by)
        near = index.within(Codes.from_signs(asked), radius, only=chosen, by=by)
    assert_same(hits, slow_search.search(asked, base[left], ids[left], k))
    expected = slow_search.within(asked, base[left], ids[left], radius)
    assert near.counts.tolist() == [len(answer) for answer in expected]
    assert list(zip(near.distances.tolist(), near.ids.tolist(), strict=True)) == [p for a in expected for p in a]


@pytest.mark.parametrize("bits", [12, 65, 128, 255])
def test_what_is_left_of_a_segment_that_was_put_together_again(bits, loops):
    """Once half of the rows are gone, the others are copied; kernels need them side by side in memory."""
    base, ids = random_bits(400, bits, 1), random_ids(400, 2)
    index = HammingIndex(Codes.from_signs(base), ids=ids)
    gone = np.arange(400) % 5 < 3
    index.remove(ids[gone])
    (segment,) = index._segments
    assert segment.rows == 160
    asked = random_bits(5, bits, 3)
    assert_same(index.search(Codes.from_signs(asked), 7), slow_search.search(asked, base[~gone], ids[~gone], 7))
    near = index.within(Codes.from_signs(asked), bits // 4)
    expected = [pair for answer in slow_search.within(asked, base[~gone], ids[~gone], bits // 4) for pair in answer]
    assert list(zip(near.distances.tolist(), near.ids.tolist(), strict=True)) == expected


def test_everything_within_the_radius_comes_in_pieces(monkeypatch):
    monkeypatch.setattr(query_search, "ROUND_HITS", 64)
    base, asked, ids = random_bits(50, 12, 1), random_bits(90, 12, 2), random_ids(50, 3)
    index = HammingIndex(Codes.from_signs(base[:20]), ids=ids[:20])
    monkeypatch.setattr(segments, "MERGED_ROWS", 0)
    index.add(Codes.from_signs(base[20:]), ids=ids[20:])
    for radius in (1, 12):
        near = index.within(Codes.from_signs(asked), radius)
        expected = slow_search.within(asked, base, ids, radius)
        assert near.counts.tolist() == [len(answer) for answer in expected]
        assert near.ids.tolist() == [number for answer in expected for _, number in answer]


def test_what_add_gives_is_the_caller_s_own():
    codes = Codes.from_signs(random_bits(5, 12, 0))
    index = HammingIndex(codes)
    given = np.array([100, 300, 200, 400, 555])
    got = index.add(codes, ids=given)
    got[:] = given[:] = -7
    assert index.ids.tolist() == [0, 1, 2, 3, 4, 100, 200, 300, 400, 555]


def test_no_code_is_lost_when_several_threads_add():
    codes = Codes.from_signs(random_bits(3000, 16, 0))
    index = HammingIndex(codes[:0])
    with ThreadPoolExecutor(3) as pool:
        parts = [pool.submit(index.add, codes[row : row + 20]) for row in range(0, 3000, 20)]
    ids = np.concatenate([part.result() for part in parts])
    assert len(index) == len(set(ids.tolist())) == 3000


def test_a_filter_does_not_switch_tables_off_for_others(monkeypatch):
    monkeypatch.setattr(hash_tables, "FEWEST_ROWS", 1000)
    monkeypatch.setattr(scan, "WORTH_LOADING", 0)
    rng = np.random.default_rng(0)
    codes = Codes.from_signs(rng.normal(size=(30_000, 64)))
    index = HammingIndex(codes)
    index.prepare()
    (state,) = index._planner._states.values()
    index.search(codes[:40], k=1)
    assert state.within_budget["k", 1]
    some = index.search(codes[:40], k=1, only=np.arange(20_000, 30_000))
    assert np.array_equal(some.ids, index.search(codes[:40], k=1, only=np.arange(20_000, 30_000), by="scan").ids)
    assert state.within_budget["k", 1]


@pytest.mark.slow
@pytest.mark.parametrize("crowded", [False, True])
def test_tables_are_built_when_they_pay_and_left_when_they_do_not(crowded, monkeypatch):
    monkeypatch.setattr(hash_tables, "FEWEST_ROWS", 1000)
    monkeypatch.setattr(planner, "_QUERIES_PER_TABLE", 8)
    monkeypatch.setattr(scan, "WORTH_LOADING", 0)
    rng = np.random.default_rng(0)
    base = rng.random((20_000, 64)) < 0.5
    if crowded:  # one piece is the same everywhere: every look-up there meets all rows
        base[:, :40] = True
        base[:, 40:] = rng.random((20_000, 24)) < 0.02
    index, queries = HammingIndex(Codes.from_signs(base)), Codes.from_signs(base[:300] ^ (rng.random((300, 64)) < 0.01))
    scanned = index.within(queries, 1, by="scan"), index.search(queries, 1, by="scan")
    hash_tables.load_now(index._segments[0].words)
    (state,) = index._planner._states.values()
    assert state.tables is None
    for _ in range(2):
        near, hits = index.within(queries, 1), index.search(queries, 1)
        assert np.array_equal(near.ids, scanned[0].ids)
        assert np.array_equal(near.counts, scanned[0].counts)
        assert np.array_equal(hits.ids, scanned[1].ids)
    assert state.tables is not None
    assert state.within_budget["radius", 1] is not crowded
    index.add(queries[:5])
    assert list(index._planner._states.values()) == [state]
    index.add(Codes.from_signs(base[:15_000]))  # the segments are put together, so the tables are of no use
    assert index._planner._states == {}


def test_prepared_tables_survive_removals(monkeypatch):
    monkeypatch.setattr(hash_tables, "FEWEST_ROWS", 100)
    codes = Codes.from_signs(random_bits(500, 32, 0))
    index = HammingIndex(codes)
    index.prepare()
    index.remove([0, 1])
    assert index.within(codes[:1], 0, by="tables").ids.tolist() == index.within(codes[:1], 0, by="scan").ids.tolist()
    (state,) = index._planner._states.values()
    assert state.tables is not None


@pytest.mark.parametrize("bits", [8, 48, 64, 128, 256])
def test_faiss_finds_the_same_distances(bits, loops):
    faiss = pytest.importorskip("faiss", reason="faiss is the second oracle, and not installed here")
    rng = np.random.default_rng(bits)
    base, asked = Codes.from_signs(random_bits(3000, bits, 1)), Codes.from_signs(random_bits(20, bits, 2))
    ids = rng.permutation(3000)
    ours, rival = HammingIndex(base, ids=ids), faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(bits))
    rival.add_with_ids(np.ascontiguousarray(base.packed), ids)
    queries = np.ascontiguousarray(asked.packed)
    for by in ("scan", "tables"):
        if by == "tables" and bits > 64:
            continue  # the 50th neighbour is many thousand look-ups away
        hits = ours.search(asked, k=50, by=by)
        distances, found = rival.search(queries, 50)
        assert np.array_equal(hits.distances, np.sort(distances, axis=1))
        for i in range(20):
            nearer = distances[i] < distances[i].max()
            assert set(found[i][nearer]) == set(hits.ids[i][hits.distances[i] < hits.distances[i].max()])
    radius = bits // 8
    limits, _, near = faiss.IndexBinaryFlat.range_search(_flat(faiss, base), queries, radius + 1)
    ball = ours.within(asked, radius)
    assert np.array_equal(np.diff(limits.astype(np.int64)), ball.counts)
    for i in range(20):
        assert set(ids[near[limits[i] : limits[i + 1]]]) == set(ball[i].ids)


def _flat(faiss, codes):
    index = faiss.IndexBinaryFlat(codes.bits)
    index.add(np.ascontiguousarray(codes.packed))
    return index


@pytest.mark.parametrize("count", [1, 3])
def test_many_threads_may_search_while_another_one_changes_the_index(count, monkeypatch):
    monkeypatch.setattr(scan, "WORTH_LOADING", 0)
    monkeypatch.setattr(scan, "WORDS_FOR_A_THREAD", 1)
    monkeypatch.setattr(threads, "_chosen", count)
    codes = Codes.from_signs(random_bits(3000, 64, 0))
    index = HammingIndex(codes[:2000])
    expected = index.search(codes[:50], k=5, only=np.arange(2000))

    def change(_):
        for row in range(2000, 3000, 50):
            index.add(codes[row : row + 50], ids=np.arange(row, row + 50))
            index.remove(np.arange(row, row + 25))

    def ask(_):
        return [index.search(codes[:50], k=5, only=np.arange(2000)) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(ask, i) for i in range(3)]
        pool.submit(change, 0).result()
        for answer in answers:
            for hits in answer.result():
                assert np.array_equal(hits.ids, expected.ids)
    assert len(index) == 2500


@pytest.mark.slow
def test_a_forked_child_can_search(monkeypatch):
    program = (
        "import os, numpy as np, scdh\n"
        "from scdh.index import set_threads\nfrom scdh.index.search import scan\n"
        "scan.WORTH_LOADING = 0; scan.WORDS_FOR_A_THREAD = 1; set_threads(2)\n"
        "codes = scdh.Codes.from_signs(np.random.default_rng(0).normal(size=(500, 64)))\n"
        "index = scdh.HammingIndex(codes); expected = index.search(codes, 3).ids\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(0 if np.array_equal(index.search(codes, 3).ids, expected) else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize(("value", "words"), [("0", "at least 1, got '0'"), ("two", "got 'two'")])
def test_a_wrong_number_of_threads_is_rejected(value, words, monkeypatch):
    monkeypatch.setenv("SCDH_THREADS", value)
    with pytest.raises(ConfigError, match=words):
        threads.thread_count()
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        threads.set_threads(0)
    monkeypatch.setenv("SCDH_THREADS", "3")
    assert threads.thread_count() == 3


def test_all_codes_equal_gives_the_smallest_ids():
    index = HammingIndex(Codes.from_signs(np.ones((50, 9), dtype=bool)), ids=np.arange(50)[::-1])
    hits = index.search(Codes.from_signs(np.zeros((2, 9), dtype=bool)), k=4)
    assert hits.ids.tolist() == [[0, 1, 2, 3]] * 2
    assert (hits.distances == 9).all()
    assert index.search(index.codes[:1], k=3)[0].ids.tolist() == [0, 1, 2]


def test_nothing_in_nothing_out():
    some, none = Codes.from_signs(random_bits(5, 13, 0)), Codes.from_signs(np.zeros((0, 13)))
    for index, queries in ((HammingIndex(some), none), (HammingIndex(none), some), (HammingIndex(none), none)):
        hits = index.search(queries, k=3)
        assert hits.ids.shape == hits.distances.shape == (len(queries), min(3, len(index)))
        near = index.within(queries, radius=1)
        assert near.counts.tolist() == [0] * len(queries)
        assert len(near.ids) == len(near.distances) == 0
        assert len(hits) == len(near) == len(queries)


def test_ids_come_from_the_argument_the_codes_or_the_count():
    codes = Codes.from_signs(random_bits(3, 8, 0))
    assert HammingIndex(codes).ids.tolist() == [0, 1, 2]
    carried = Codes(codes.packed, 8, ids=[4, 9, 6])
    index = HammingIndex(carried)
    assert index.ids.tolist() == [4, 6, 9]
    assert index.codes == carried[[0, 2, 1]]
    index.add(codes[:2])
    assert index.ids.tolist() == [4, 6, 9, 10, 11]
    index.add(Codes(codes.packed[:1], 8, ids=[-5]))
    index.add(codes[:1], ids=[3])
    index.remove(9)
    index.remove([])
    assert index.ids.tolist() == [-5, 3, 4, 6, 10, 11]
    assert HammingIndex(carried, ids=[1, 2, 3]).ids.tolist() == [1, 2, 3]
    assert index.bits == 8
    assert repr(index) == "HammingIndex(6 × 8 bits)"


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (lambda index, codes: index.search(codes, k=0), "k must be .* at least 1"),
        (lambda index, codes: index.search(codes, k=-1), "at least 1"),
        (lambda index, codes: index.search(codes, k=2.0), "integer"),
        (lambda index, codes: index.within(codes, radius=-1), "at least 0"),
        (lambda index, codes: index.search(Codes.from_signs([[1.0]])), "1 bits, but 12"),
        (lambda index, codes: index.within(Codes.from_signs([[1.0]])), "1 bits, but 12"),
        (
            lambda index, codes: index.search(codes.unpack()),
            r"must be Codes, got a uint8 array .*; Codes.from_bits\(array\)",
        ),
        (lambda index, codes: index.add(Codes.from_signs([[1.0]])), "1 bits, but 12"),
        (lambda index, codes: index.add(codes[:2], ids=[7, 2]), "already contains the id 2"),
        (lambda index, codes: index.add(codes[:2], ids=[7, 7]), "id 7 occurs more than once"),
        (lambda index, codes: index.add(codes[:2], ids=[7]), "one id per code"),
        (lambda index, codes: index.remove([0, 99]), "does not contain the id 99"),
        (lambda index, codes: index.remove([1, 1]), "id 1 occurs more than once"),
        (lambda index, codes: index.remove([[1]]), "one row"),
        (lambda index, codes: HammingIndex(codes, ids=[0] * 4), "id 0 occurs more than once"),
        (lambda index, codes: HammingIndex(codes.packed), "must be Codes"),
    ],
)
def test_mistakes_get_one_sentence_and_change_nothing(action, words):
    codes = Codes.from_signs(random_bits(4, 12, 0))
    index = HammingIndex(codes)
    with pytest.raises(CodesError, match=words) as caught:
        action(index, codes)
    assert "\n" not in str(caught.value)
    assert index.ids.tolist() == [0, 1, 2, 3]


def test_an_unknown_way_or_mask_is_rejected():
    codes = Codes.from_signs(random_bits(4, 12, 0))
    index = HammingIndex(codes)
    with pytest.raises(ConfigError, match="Unknown way to search 'tabels'; did you mean 'tables'"):
        index.search(codes, by="tabels")
    with pytest.raises(CodesError, match=r"mask over 4 items needs 4 values, got shape \[3\]"):
        index.search(codes, only=np.ones(3, bool))
    with pytest.raises(CodesError, match="whole numbers"):
        index.within(codes, only=["a"])
    with pytest.raises(CodesError, match="does not contain the id 9; its 4 ids go from 0 to 3"):
        index.codes_of([2, 9])


def test_the_last_id_of_all_has_no_next_one():
    codes = Codes.from_signs(random_bits(1, 12, 0))
    index = HammingIndex(codes, ids=[2**63 - 1])
    with pytest.raises(CodesError, match="no free ids"):
        index.add(codes)


@pytest.mark.parametrize("rows", [0, 5])
def test_save_and_load(tmp_path, rows):
    codes = Codes.from_signs(random_bits(rows, 13, 0), ids=random_ids(rows, 1), metadata={"model": "abc"})
    HammingIndex(codes).save(tmp_path / "index")
    back = HammingIndex.load(tmp_path / "index")
    assert back.codes == codes[np.argsort(codes.ids)]
    assert back.codes.metadata == {"model": "abc"}
    back.add(codes[:0])
    assert len(back) == rows


def test_a_reader_takes_up_what_a_writer_committed(tmp_path):
    codes = Codes.from_signs(random_bits(20, 13, 0))
    HammingIndex(codes[:5]).save(tmp_path / "index")
    reader = HammingIndex.load(tmp_path / "index")
    assert not reader.refresh()
    with IndexWriter(tmp_path / "index") as writer:
        writer.add(codes[5:])
    assert len(reader) == 5
    before = [segment.words for segment in reader._segments]
    assert reader.refresh()
    assert reader._segments[0].words is before[0] or len(reader._segments) == 1  # known words keep their tables
    assert not reader.refresh()
    assert reader.codes == Codes(codes.packed, 13, ids=np.arange(20))
    reader.remove([3])
    with pytest.raises(CodesError, match="not changed since"):
        reader.refresh()
    other = HammingIndex.load(tmp_path / "index")
    HammingIndex(Codes.from_signs(random_bits(5, 7, 0))).save(tmp_path / "index")
    with pytest.raises(CodesError, match="7 bits, but it had 13"):
        other.refresh()
    assert len(other) == 20


def test_rot_is_not_given_a_new_checksum(tmp_path):
    codes = Codes.from_signs(random_bits(300, 64, 0))
    HammingIndex(codes).save(tmp_path / "index")
    rotten = bytearray((tmp_path / "index").read_bytes())
    rotten[rotten.find(codes.packed[100].tobytes())] ^= 1
    (tmp_path / "index").write_bytes(rotten)
    with pytest.raises(CodesError, match="checksum"):
        HammingIndex.load(tmp_path / "index")
    index = HammingIndex.load(tmp_path / "index", verify=False)
    index.remove([5])
    with pytest.raises(CodesError, match="checksum"):
        index.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_distances_at_the_edges_of_their_types():
    for bits in (254, 255, 256):
        a, b = (Codes.from_signs(np.zeros((1, bits), dtype=bool)), Codes.from_signs(np.ones((1, bits), dtype=bool)))
        found = distances.hamming(distances.word_columns(a), distances.word_columns(b), bits)
        assert found.tolist() == [[bits]]
        assert np.iinfo(found.dtype).max > bits


@pytest.mark.parametrize("bits", [1, 13, 64, 65, 257])
def test_counts_within_a_radius_are_those_of_all_hits(bits):
    index = HammingIndex(Codes.from_signs(random_bits(300, bits, 1)))
    index.add(Codes.from_signs(random_bits(40, bits, 2)), np.arange(40) * 3 - 2000)
    index.remove([3, 299, -2000])
    queries = Codes.from_signs(random_bits(9, bits, 3))
    for radius in (0, 1, bits // 2, bits, bits + 5):
        for only in (None, [1, 5, -1997], np.arange(len(index)) % 3 == 0):
            expected = index.within(queries, radius, only=only).counts
            np.testing.assert_array_equal(index.count_within(queries, radius, only=only), expected)
    assert index.count_within(queries[:0], 1).tolist() == []


def test_a_change_of_a_copy_leaves_the_index_and_its_tables_alone(monkeypatch):
    monkeypatch.setattr(hash_tables, "FEWEST_ROWS", 10)
    index = HammingIndex(Codes.from_signs(random_bits(300, 64, 1)))
    index.prepare()
    words = index._segments[0].words
    other = copy.copy(index)
    assert other._planner.has_tables(words)  # they are not built again
    other.remove(np.arange(200))
    assert (len(index), len(other)) == (300, 100)
    assert index._planner.has_tables(words)
    assert not other._planner.has_tables(words)

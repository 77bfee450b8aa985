"""The map, some items, and codes of many items: against slow, obvious twins and over HTTP."""

import asyncio
import base64
import gc
import json
import weakref

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.data.row_names import RowNames
from scdh.errors import CodesError
from scdh.index import HammingIndex
from scdh.serve import overview
from scdh.serve.layout import place
from scdh.serve.overview import Maps, codes_of, make_map, some_items
from scdh.serve.request_errors import RequestError
from scdh.serve.settings import Settings
from scdh.serve.snapshot import SearchOptions, Snapshot
from tests.serve.conftest import HOSTILE
from tests.serve.hosted import hosted


def groups_of_codes(groups: int, count: int, bits: int, flips: float = 0.05) -> tuple[Codes, np.ndarray]:
    rng = np.random.default_rng(3)
    centres = rng.random((groups, bits)) < 0.5
    labels = rng.integers(0, groups, count)
    return Codes.from_bits(centres[labels] ^ (rng.random((count, bits)) < flips)), labels


def numbers(answer: dict, key: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(answer[key]), kind)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 300])
@pytest.mark.parametrize("bits", [1, 13, 130])
def test_places_are_in_the_unit_square_and_the_same_each_time(count, bits):
    codes, _ = groups_of_codes(3, count, bits)
    places = place(codes)
    assert places.shape == (count, 2)
    assert np.isfinite(places).all()
    assert places.min() >= -1e-6
    assert places.max() <= 1 + 1e-6
    np.testing.assert_array_equal(places, place(codes))


def test_near_codes_lie_near_each_other(monkeypatch):
    monkeypatch.setattr("scdh.serve.layout.LANDMARKS", 100)  # most codes are put between landmarks
    codes, labels = groups_of_codes(6, 600, 64)
    places = place(codes)
    distances = ((places[:, None] - places[None]) ** 2).sum(2)
    np.fill_diagonal(distances, np.inf)
    assert (labels[distances.argmin(1)] == labels).mean() > 0.98


def test_items_with_equal_codes_fill_a_disc_and_do_not_cover_each_other():
    codes = Codes.from_bits(np.repeat(np.eye(16, dtype=bool), 50, axis=0))
    places = place(codes)
    assert len(np.unique(places, axis=0)) == 800
    own = places.reshape(16, 50, 2)
    spread = np.linalg.norm(own - own.mean(1, keepdims=True), axis=2).max()
    apart = np.linalg.norm(own.mean(1)[:, None] - own.mean(1)[None], axis=2)[np.triu_indices(16, 1)].min()
    assert spread < apart


def labelled(labels: np.ndarray, names: list[str]) -> Snapshot:
    codes, _ = groups_of_codes(2, len(labels), 13)
    ids = 10 * np.arange(len(labels)) + 5
    index = HammingIndex(Codes(codes.packed, 13, ids))
    return Snapshot(index, RowNames(ids, [f"item {i}" for i in ids], labels, names))


def slow_labels(snapshot: Snapshot, ids: np.ndarray) -> list[str]:
    """The first label of each item, or nothing."""
    return [next(iter(item["labels"]), "") for item in snapshot.describe(ids)]


@pytest.mark.parametrize(
    "labels",
    [np.array([2, 0, -1, 2, 2, 0, -1, 2]), np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1]], np.uint8)],
    ids=["one", "several"],
)
def test_a_map_has_the_first_label_of_each_item_by_frequency(labels):
    snapshot = labelled(labels, ["a", "b", "\x1bc"])
    answer = make_map(snapshot)
    ids, numbered = numbers(answer, "ids", "<i8"), numbers(answer, "labels", "<i4")
    np.testing.assert_array_equal(ids, snapshot.index.ids)
    shown = [answer["label_names"][number] if number >= 0 else "" for number in numbered]
    assert shown == slow_labels(snapshot, ids)
    counts = [shown.count(name) for name in answer["label_names"]]
    assert counts == sorted(counts, reverse=True)
    assert 0 not in counts
    assert "\x1b" not in "".join(answer["label_names"])
    assert len(numbers(answer, "x", "<u2")) == len(numbers(answer, "y", "<u2")) == answer["points"] == len(labels)


def test_a_large_collection_is_sampled(monkeypatch):
    monkeypatch.setattr(overview, "MOST_POINTS", 20)
    snapshot = labelled(np.zeros(50, np.int64), ["a"])
    answer = make_map(snapshot)
    ids = numbers(answer, "ids", "<i8")
    assert (answer["items"], answer["points"]) == (50, 20)
    assert len(set(ids.tolist())) == 20
    assert set(ids.tolist()) <= set(snapshot.index.ids.tolist())


def test_some_items_come_from_anywhere_or_have_a_label():
    snapshot = labelled(np.arange(60) % 3, ["a", "b", "c"])
    some = some_items(snapshot, 9, [])
    assert len({item["id"] for item in some}) == 9
    assert some == some_items(snapshot, 9, [])
    assert {tuple(item["labels"]) for item in some_items(snapshot, 99, ["a", "c"])} == {("a",), ("c",)}
    assert len(some_items(snapshot, 99, ["a", "c"])) == 40
    for labels in (["d"], ["a", "d"]):  # as a search says it
        with pytest.raises(RequestError, match="No item has the label 'd'"):
            some_items(snapshot, 9, labels)


def test_a_map_of_nothing_is_not_kept():
    """Items that were added to an empty index were not on the map for five minutes."""
    empty, some = labelled(np.zeros(0, np.int64), ["a"]), labelled(np.zeros(9, np.int64), ["a"])

    async def ask() -> list[int]:
        maps = Maps()
        return [json.loads(await maps.of(snapshot))["points"] for snapshot in (empty, some)]

    assert asyncio.run(ask()) == [0, 9]


def test_codes_of_items_that_are_there():
    snapshot = labelled(np.zeros(4, np.int64), ["a"])
    expected = [{"id": i, "code": snapshot.code_of(i).packed[0].tobytes().hex()} for i in (5, 25)]
    assert codes_of(snapshot, [25, 7, 5, -3]) == expected
    assert codes_of(snapshot, [7]) == []


def test_the_routes_answer(site):
    answer = site.http.get("/v1/map")
    assert answer.json()["points"] == 12
    assert sorted(answer.json()["label_names"]) == ["apple", "pear"]
    again = site.http.get("/v1/map", headers={"if-none-match": answer.headers["etag"]})
    assert again.status_code == 304
    items = site.http.get("/v1/sample", params={"k": 50, "label": "apple"}).json()["items"]
    assert len(items) == 6
    assert any(item["name"].endswith(HOSTILE) for item in items)
    named = site.http.get("/v1/sample", params={"name": "PEAR/3"}).json()["items"]
    assert [item["name"].rsplit("/", 2)[1:] for item in named] == [["pear", "3.png"]]
    both = site.http.get("/v1/sample", params={"name": ".png", "label": "pear", "k": 4}).json()["items"]
    assert [item["labels"] for item in both] == [["pear"]] * 4
    assert site.http.get("/v1/sample", params={"name": "nowhere"}).json()["items"] == []
    large = site.http.get("/v1/items/3/thumbnail", params={"large": True})
    assert large.headers["content-type"] == "image/jpeg"
    assert site.http.get("/v1/sample", params={"label": "plum"}).json()["error"]["code"] == "invalid"
    codes = site.http.get("/v1/codes", params={"id": [3, 4, 99]}).json()["items"]
    assert codes == [{"id": i, "code": site.http.get(f"/v1/items/{i}").json()["code"]} for i in (3, 4)]
    assert site.http.get("/v1/codes", params={"id": list(range(101))}).status_code == 422


@pytest.mark.parametrize("address", ["/v1/sample", "/v1/codes?id=1", "/v1/map", "/v1/items/1/thumbnail"])
def test_an_index_that_cannot_be_read_is_no_bug(shop, address, monkeypatch):
    """A mapped file that was overwritten, or a Milvus server that does not answer."""

    def fail(*_: object) -> None:
        raise CodesError("The index was overwritten while it was open.")

    with hosted(Settings(f"{shop}/model", f"{shop}/photos.index", f"{shop}/photos")) as running:
        monkeypatch.setattr(HammingIndex, "codes_of", fail)
        monkeypatch.setattr(HammingIndex, "ids", property(fail))
        answer = running.http.get(address)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "index_unusable")


def test_a_map_does_not_keep_the_index_that_it_was_made_of():
    """Else a large file that was replaced would stay on the disk for as long as the service runs."""
    codes, _ = groups_of_codes(2, 20, 16)
    snapshot = Snapshot(HammingIndex(codes), None)

    maps = Maps()
    content = asyncio.run(maps.of(snapshot))
    seen = weakref.ref(snapshot)
    del snapshot
    gc.collect()
    assert seen() is None
    assert asyncio.run(maps.of(Snapshot(HammingIndex(codes), None))) == content


def test_codes_of_a_few_items_do_not_need_the_ids_of_all(monkeypatch):
    """The ids of 100 million items take 800 MB."""
    codes, _ = groups_of_codes(2, 20, 16)
    snapshot = Snapshot(HammingIndex(codes), None)
    monkeypatch.setattr(HammingIndex, "ids", property(lambda _: pytest.fail("all ids were made")))
    assert [one["id"] for one in codes_of(snapshot, [3, -1, 19, 20, 3])] == [3, 19]


@pytest.mark.parametrize("many", [1, 40, 10**6])
@pytest.mark.parametrize("labels", [(), ("1",)])
def test_many_hits_within_a_radius_are_counted_instead_of_gathered(many, labels, monkeypatch):
    codes, numbers_of_labels = groups_of_codes(3, 120, 16)
    names = RowNames(np.arange(120), [""] * 120, numbers_of_labels, ["0", "1", "2"])
    snapshot, queries = Snapshot(HammingIndex(codes), names), codes[:8]
    left_out = [None, None, 2, None, None, 5, None, None]
    for radius in (0, 3, 9, 16):
        options = SearchOptions(7, radius, labels)
        expected = [snapshot.find(queries[i : i + 1], options, [one])[0] for i, one in enumerate(left_out)]
        with monkeypatch.context() as patch:
            patch.setattr("scdh.serve.snapshot.MANY_HITS", many)
            patch.setattr("scdh.serve.snapshot.GATHERED_HITS", 1)
            assert snapshot.find(queries, options, left_out) == expected


def test_only_the_first_query_with_many_hits_is_gathered(monkeypatch):
    """256 queries about all of a million items took a minute, in which no other search was answered."""
    codes, _ = groups_of_codes(3, 120, 16)
    gathered = []
    real = HammingIndex.within
    monkeypatch.setattr(HammingIndex, "within", lambda *a, **o: gathered.append(len(a[1])) or real(*a, **o))
    monkeypatch.setattr("scdh.serve.snapshot.MANY_HITS", 100)
    found = Snapshot(HammingIndex(codes), None).find(codes[:50], SearchOptions(3, 16), [None] * 50)
    assert gathered == [1]
    assert {one.total for one in found} == {120}

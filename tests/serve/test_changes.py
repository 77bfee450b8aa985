"""Adding and removing items: only with the token, durable before the answer, seen by the next search."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from scdh import Client
from scdh.codes import Codes
from scdh.data.name_files import load_names
from scdh.errors import (
    CodesError,
    ConfigError,
    ExistingIdError,
    NoFreeIdError,
    RepeatedIdError,
    ServiceError,
    UnknownIdError,
)
from scdh.index import HammingIndex
from scdh.index.milvus import MilvusIndex
from scdh.index.store import IndexWriter
from scdh.model.hasher import Hasher
from scdh.serve.collection import Addition, Collection, Removal
from scdh.serve.request_errors import RequestError
from scdh.serve.settings import Limits
from scdh.serve.snapshot import Snapshot
from tests.cli.commands import must
from tests.serve.conftest import BITS, TOKEN, picture, save_index
from tests.serve.hosted import hosted


@pytest.fixture
def collection(shop, fresh_index):
    return Collection(str(fresh_index), None, Hasher.load(shop / "model").fingerprint(), BITS)


def addition(codes, ids=None, names=None, labels=None):
    return Addition(codes, ids, names, labels or [[]] * len(codes))


def some_codes(count, seed=0):
    return Codes.from_signs(np.random.default_rng(seed).random((count, BITS)) < 0.5)


def test_one_batch_of_changes_keeps_the_good_and_rejects_the_bad(collection, fresh_index):
    results = collection.change(
        [
            addition(some_codes(2), names=["x", "y"], labels=[["apple"], ["plum"]]),
            addition(some_codes(1, 1), ids=[3]),
            addition(some_codes(1, 2), ids=[100]),
            addition(some_codes(1, 2), ids=[100]),
            addition(some_codes(1), labels=[["apple", "pear"]]),
            Removal(0),
            Removal(0),
            Removal(55),
            addition(some_codes(1, 3), ids=[0], names=["again"]),
        ]
    )
    rejected = [result.code if isinstance(result, RequestError) else None for result in results]
    assert rejected == [None, "conflict", None, "conflict", "invalid", None, "not_found", "not_found", None]
    assert (results[0], results[2], results[5], results[8]) == ([12, 13], [100], [0], [0])
    on_disk = HammingIndex.load(fresh_index, verify=True)
    assert on_disk.ids.tolist() == [*range(14), 100]
    names = load_names(fresh_index)
    assert names.names_of([0, 12, 13, 100]).tolist() == ["again", "x", "y", ""]
    assert [names.label(names.position(i)) for i in (0, 12, 13)] == ["", "apple", "plum"]
    assert collection.now.index.ids.tolist() == on_disk.ids.tolist()


def test_nothing_is_added_to_an_index_whose_items_have_vectors(shop, tmp_path):
    index = HammingIndex(some_codes(3).with_vectors(np.ones((3, 4))))
    index.save(tmp_path / "a.index")
    collection = Collection(str(tmp_path / "a.index"), None, None, BITS)
    rejected, removed = collection.change([addition(some_codes(1)), Removal(1)])
    assert isinstance(rejected, RequestError)
    assert "have vectors" in str(rejected)
    assert removed == [1]


def test_items_may_have_several_labels_where_the_others_have_none(shop, tmp_path):
    model = Hasher.load(shop / "model").fingerprint()
    save_index(tmp_path / "a.index", some_codes(3), model, np.full(3, -1), [])
    collection = Collection(str(tmp_path / "a.index"), None, model, BITS)
    collection.change([addition(some_codes(1), labels=[["a", "b"]])])
    assert collection.now.describe(np.array([0, 3]))[1]["labels"] == ["a", "b"]
    again = collection.change([addition(some_codes(2, 1), labels=[["c"], []])])
    assert again == [[4, 5]]
    assert [one["labels"] for one in collection.now.describe(np.array([3, 4, 5]))] == [["a", "b"], ["c"], []]


def test_an_index_without_names_gets_them_with_the_first_that_has_one(shop, tmp_path):
    model = Hasher.load(shop / "model").fingerprint()
    HammingIndex(some_codes(3)).save(tmp_path / "a.index")
    collection = Collection(str(tmp_path / "a.index"), None, model, BITS)
    assert collection.change([addition(some_codes(1))]) == [[3]]
    assert collection.now.names is None
    assert collection.change([addition(some_codes(1), names=["named"])]) == [[4]]
    assert [one["name"] for one in collection.now.describe(np.arange(5))] == ["", "", "", "", "named"]


@pytest.mark.parametrize(
    ("error", "status"),
    [(ExistingIdError, 409), (RepeatedIdError, 422), (NoFreeIdError, 422), (UnknownIdError, 404), (CodesError, None)],
)
def test_the_class_of_an_error_decides_the_status_and_not_its_words(collection, monkeypatch, error, status):
    def fail(*_):
        raise error("Reworded.")

    monkeypatch.setattr(HammingIndex, "add", fail)
    (result,) = collection.change([addition(some_codes(1))])
    assert getattr(result, "status", None) == status


def test_another_writer_is_reported_as_busy(collection, fresh_index):
    with IndexWriter(fresh_index), pytest.raises(RequestError) as error:
        collection.change([Removal(0)])
    assert (error.value.code, error.value.retry_after) == ("busy", 1)


def test_a_change_is_on_disk_and_found_when_it_is_answered(writable, fresh_index):
    with hosted(writable) as running, Client(running.url, token=TOKEN) as client:
        (added,) = client.add_images(picture(99), names=["<b>new</b>"], labels=["plum"])
        assert added["id"] == 12
        assert HammingIndex.load(fresh_index, verify=True).codes_of([12]).packed[0].tobytes().hex() == added["code"]
        nearest = client.search_images(picture(99), k=12, labels=["plum"])[0].hits
        assert [(hit.id, hit.distance, hit.name) for hit in nearest] == [(12, 0, "<b>new</b>")]
        several = client.add_images([picture(1), picture(2)], ids=[50, 40], names=["a", "b"])
        assert [(one["id"], one["name"]) for one in several] == [(50, "a"), (40, "b")]
        by_code = client.add_codes([added["code"]], ids=[60], names=["c"], labels=[["pear"]])
        assert by_code[0]["labels"] == ["pear"]
        client.remove(12)
        assert 12 not in HammingIndex.load(fresh_index).ids
        for call in (lambda: client.remove(12), lambda: client.item(12), lambda: client.similar(12)):
            with pytest.raises(ServiceError) as error:
                call()
            assert error.value.status == 404
        with pytest.raises(ServiceError) as error:
            client.add_codes([added["code"]], ids=[60])
        assert (error.value.status, error.value.code) == (409, "conflict")
        assert client.info()["index"]["items"] == 15


def test_concurrent_additions_share_commits_and_all_get_ids_of_their_own(writable, fresh_index):
    with hosted(writable) as running:

        def add(number: int) -> int:
            with Client(running.url, token=TOKEN) as client:
                return client.add_codes(["0000"], names=[f"n{number}"])[0]["id"]

        with IndexWriter(fresh_index) as writer:
            before = writer.generation
        with ThreadPoolExecutor(8) as pool:
            ids = list(pool.map(add, range(24)))
        assert sorted(ids) == list(range(12, 36))
        with IndexWriter(fresh_index) as writer:
            assert writer.generation - before <= 24
        names = load_names(fresh_index)
        assert names.names_of(ids).tolist() == [f"n{number}" for number in range(24)]


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é", f"Bearer {TOKEN[:-1]}"]
)
def test_without_the_token_nothing_is_read_or_changed(writable_site, header):
    running, path = writable_site
    headers = {} if header is None else {b"authorization": header.encode()}
    for answer in (
        running.http.post("/v1/items", json={"items": [{"code": "0000"}]}, headers=headers),
        running.http.delete("/v1/items/0", headers=headers),
    ):
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["error"]["code"] == "unauthorized"
    assert len(HammingIndex.load(path)) == 12


@pytest.fixture(scope="module")
def writable_site(shop, tmp_path_factory):
    from scdh.serve.settings import Settings

    path = tmp_path_factory.mktemp("writable") / "own.index"
    must(["index", f"{shop}/photos.codes", "--out", str(path)])
    with hosted(Settings(f"{shop}/model", str(path), token=TOKEN)) as running:
        yield running, path


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"content": b"{}"}, 415),
        ({"json": {"items": []}}, 422),
        ({"json": {"items": [{}]}}, 422),
        ({"json": {"items": [{"code": "0000", "vector": [1.0]}]}}, 422),
        ({"json": {"items": [{"code": "0000", "id": 70}, {"code": "0000"}]}}, 422),
        ({"json": {"items": [{"code": "0000", "id": 70}, {"code": "0000", "id": 70}]}}, 422),
        ({"json": {"items": [{"code": "0000", "id": 1 << 63}]}}, 422),
        ({"json": {"items": [{"code": "0000", "name": "x" * 1001}]}}, 422),
        ({"json": {"items": [{"vector": [1.0]}]}}, 422),
        ({"json": {"items": [{"code": "00"}]}}, 422),
        ({"files": {"image": b""}}, 422),
        ({"files": {"image": b"x"}, "data": {"id": "one"}}, 422),
        ({"files": {"image": b"x"}, "data": {"name": ["a", "b"]}}, 422),
        ({"files": {"image": b"x"}, "data": {"path": "/etc/passwd"}}, 422),
        ({"files": {"picture": b"x"}}, 422),
    ],
)
def test_wrong_additions_change_nothing(writable_site, options, status):
    running, path = writable_site
    answer = running.http.post("/v1/items", headers={"authorization": f"Bearer {TOKEN}"}, **options)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert len(HammingIndex.load(path)) == 12


def test_names_are_never_opened_as_files(shop, fresh_index, tmp_path):
    from scdh.serve.pictures import Pictures

    (tmp_path / "secret.png").write_bytes(picture(7))
    pictures = Pictures(str(shop / "photos"), Limits())
    for name in (str(tmp_path / "secret.png"), "../secret.png", "/etc/passwd", "", "apple/", "//", "\0", "1.png"):
        assert pictures.row_of(name) is None
    row = pictures.row_of("/elsewhere/photos/pear/3.png")
    assert pictures.thumbnail(row)[0][:2] == b"\xff\xd8"
    assert row == pictures.row_of("pear/3.png") == pictures.row_of("C:\\photos\\pear\\3.png")
    pictures.close()


def test_rows_of_a_table_have_their_pictures_by_the_names_that_an_index_keeps(tmp_path):
    """As the demo's photos, which are in a parquet file."""
    from scdh.data.open import open_source
    from scdh.serve.pictures import Pictures
    from tests.data.data_files import write_parquet

    cells = [{"bytes": picture(seed), "path": None} for seed in range(3)]
    path = write_parquet(tmp_path / "shop.parquet", {"image": cells, "label": ["a", "b", "a"]})
    source, pictures = open_source(path), Pictures(str(path), Limits())
    assert [pictures.row_of(source.item_name(row)) for row in range(3)] == [0, 1, 2]
    assert pictures.thumbnail(1)[0] != pictures.thumbnail(2)[0]
    pictures.close()


def test_nothing_is_told_of_a_removed_item(writable):
    """Its name stays in the file until the id is given again."""
    with hosted(writable) as running:
        client = Client(running.url, token=TOKEN)
        counts = client.info()["labels"]
        item = client.item(3)
        assert client.thumbnail(3)
        client.remove(3)
        assert client.info()["labels"] == {**counts, item["labels"][0]: counts[item["labels"][0]] - 1}
        for known in (client.item, client.thumbnail, client.similar):
            with pytest.raises(ServiceError, match="no") as rejected:
                known(3)
            assert rejected.value.status == 404


def test_a_label_that_only_removed_items_had_is_not_offered(collection):
    ((added,),) = collection.change([addition(some_codes(1), labels=[["plum"]])])
    assert collection.now.label_counts()["plum"] == 1
    collection.change([Removal(added)])
    assert "plum" not in collection.now.label_counts()


def test_milvus_failing_one_change_does_not_undo_the_answers_of_others(monkeypatch):
    index = object.__new__(MilvusIndex)
    collection = object.__new__(Collection)
    collection._is_file, collection._other_names, collection.now = False, False, Snapshot(index, None)
    answers = iter([np.array([0]), ConfigError("Milvus could not answer now."), np.array([1])])

    def add(self, codes, ids, items):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(MilvusIndex, "add", add)
    results = collection.change([addition(some_codes(1))] * 3)
    assert results[0] == [0]
    assert isinstance(results[1], ConfigError)
    assert results[2] == [1]

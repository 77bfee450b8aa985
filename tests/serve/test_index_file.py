"""The index while it is served: new states are taken up without losing a request, bad ones are left alone."""

import shutil
import threading
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from scdh import Client
from scdh.codes import Codes
from scdh.data.name_files import load_names
from scdh.errors import CodesError, ScdhError, ServiceError
from scdh.index import HammingIndex
from scdh.index.store import IndexWriter
from scdh.model.hasher import Hasher
from scdh.serve.collection import Collection
from scdh.serve.service import Service
from scdh.serve.settings import Settings
from scdh.serve.snapshot import SearchOptions, SearchRequest, Snapshot, find_all
from tests.cli.commands import must
from tests.serve.conftest import BITS, picture, save_index
from tests.serve.hosted import hosted, wait_until


def some_codes(count, seed=0):
    return Codes.from_signs(np.random.default_rng(seed).random((count, BITS)) < 0.5)


def test_replaced_and_appended_files_are_taken_up_while_requests_go_on(writable, fresh_index, shop, tmp_path):
    model = Hasher.load(shop / "model").fingerprint()
    with hosted(writable) as running, Client(running.url) as client:
        stop, wrong, count = threading.Event(), [], [0]

        def ask() -> None:
            with Client(running.url, tries=1) as own:
                while not stop.is_set():
                    try:
                        hits = own.search_codes("0000", k=100)[0].hits
                    except ServiceError as error:
                        wrong.append(str(error))
                        return
                    # All hits are of one state, and each has its name.
                    numbers = {len(hits), *(int(hit.name.split("/")[0]) for hit in hits if hit.name[0].isdigit())}
                    if len(numbers) > 1 or not all(hit.name for hit in hits):
                        wrong.append(str(hits))
                    count[0] += 1

        asking = threading.Thread(target=ask)
        asking.start()
        for size in (20, 5, 30):
            labels = np.full(size, -1)
            save_index(tmp_path / "new.index", some_codes(size, size), model, labels, [])
            names = [f"{size}/{i}" for i in range(size)]
            from scdh.data.row_names import RowNames

            RowNames(np.arange(size), names, labels, []).save(tmp_path / "new.index")
            for file in tmp_path.glob("new.index.items-*"):  # names first, as they are asked for by the index
                shutil.copy(file, fresh_index.parent / file.name.replace("new", "own"))
            shutil.move(tmp_path / "new.index", fresh_index)
            wait_until(lambda size=size: client.info()["index"]["items"] == size)
        must(["encode", f"{shop}/model", f"{shop}/photos", "--workers", "0", "--out", f"{tmp_path}/more.codes"])
        stop.set()
        asking.join()
        assert wrong == []
        assert count[0] > 3
        must(["index", f"{tmp_path}/more.codes", "--out", str(fresh_index), "--append", "--renumber"])
        wait_until(lambda: client.info()["index"]["items"] == 42)
        assert client.item(35)["name"].startswith(str(shop / "photos"))
        assert "scdh_index_loads_total 4.0" in client.metrics()


def test_a_file_that_cannot_be_used_leaves_the_one_before_it(writable, fresh_index):
    with hosted(writable) as running, Client(running.url) as client:
        good = fresh_index.read_bytes()
        save_index(fresh_index, some_codes(3), "another-model", np.full(3, -1), [])
        wait_until(lambda: "scdh_index_errors_total 1.0" in client.metrics())
        assert client.info()["index"]["items"] == 12
        assert len(client.search_images(picture(0))[0].hits) == 10
        fresh_index.with_name("broken").write_bytes(b"nothing")
        fresh_index.with_name("broken").rename(fresh_index)
        wait_until(lambda: "scdh_index_errors_total 2.0" in client.metrics())
        assert client.info()["index"]["items"] == 12
        fresh_index.unlink()
        wait_until(lambda: "scdh_index_errors_total 3.0" in client.metrics())
        fresh_index.with_name("again").write_bytes(good)
        fresh_index.with_name("again").rename(fresh_index)
        assert client.info()["index"]["items"] == 12
        assert client.is_ready()


def test_a_copy_of_an_index_is_refreshed_alone(fresh_index, shop):
    collection = Collection(str(fresh_index), None, Hasher.load(shop / "model").fingerprint(), BITS)
    before = collection.now
    assert collection.refresh() is False
    must(["index", f"{shop}/photos.codes", "--out", str(fresh_index), "--append", "--renumber"])
    assert collection.refresh() is True
    assert (len(before.index), len(collection.now.index)) == (12, 24)
    assert (len(before.names.ids), len(collection.now.names.ids)) == (12, 24)
    assert before.index.search(some_codes(1), 30).ids.shape == (1, 12)


def test_an_index_of_first_bits_is_served_by_the_whole_model(writable, shop, tmp_path):
    must(["index", f"{shop}/photos.codes", "--bits", "7", "--out", f"{tmp_path}/short.index"])
    short = HammingIndex.load(tmp_path / "short.index")
    with (
        hosted(replace(writable, index=f"{tmp_path}/short.index")) as running,
        Client(running.url, token=writable.token) as client,
    ):
        assert client.info()["model"]["bits"] == client.info()["index"]["bits"] == 7
        codes, u = Hasher.load(shop / "model").encode([picture(3)], outputs=True, workers=0)
        for rank, weights in (("bits", None), ("outputs", np.abs(u[:, :7]))):
            expected = short.search(codes.truncate(7), 5, weights=weights)
            (found,) = client.search_images(picture(3), k=5, rank=rank)
            assert [hit.distance for hit in found.hits] == pytest.approx(expected.distances[0].tolist(), abs=1e-5)
        client.add_images(picture(30), names=["new"])
        assert client.info()["index"]["items"] == 13


def test_questions_asked_together_have_the_answers_they_have_alone():
    rng = np.random.default_rng(0)
    snapshot = Snapshot(HammingIndex(Codes.from_signs(rng.random((50, 6)) < 0.5)), None)
    asked = []
    for number in range(40):
        codes = Codes.from_signs(rng.random((1 + number % 3, 6)) < 0.5)
        options = SearchOptions(int(rng.integers(1, 5)), [None, 1, 6][number % 3])
        asked.append(SearchRequest(codes, options, int(rng.integers(50)) if number % 2 else None))
    together = find_all(snapshot, asked)
    assert together == [find_all(snapshot, [one])[0] for one in asked]
    for one, found in zip(asked, together, strict=True):
        for code, answer in zip(one.codes.packed, found, strict=True):
            distances = np.bitwise_count(snapshot.index.codes.packed ^ code).sum(1)
            pairs = sorted((int(d), i) for i, d in enumerate(distances) if i != one.left_out)
            if one.options.radius is not None:
                pairs = [pair for pair in pairs if pair[0] <= one.options.radius]
                assert answer.total == len(pairs)
            assert [(hit["distance"], hit["id"]) for hit in answer.hits] == pairs[: one.options.k]


def test_changes_during_the_start_are_known_when_it_is_ready(writable, monkeypatch):
    """Items that another process had removed were served for a second."""
    load = Service._load

    def load_and_change(self):
        load(self)
        with IndexWriter(self.settings.index) as writer:
            writer.remove([3])

    monkeypatch.setattr(Service, "_load", load_and_change)
    with hosted(replace(writable, watch_seconds=1000)) as running:
        assert running.http.get("/ready").status_code == 200
        assert running.http.get("/v1/items/3").status_code == 404


def test_before_it_is_ready_it_says_so(shop, monkeypatch):
    go_on = threading.Event()
    load = Service._load
    monkeypatch.setattr(Service, "_load", lambda self: (go_on.wait(30), load(self)))
    with hosted(Settings(f"{shop}/model", f"{shop}/photos.index"), waits=False) as running:
        wait_until(lambda: running.http.get("/health").status_code == 200)
        for path in ("/ready", "/v1/info", "/v1/items/3"):
            answer = running.http.get(path)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "starting")
            assert answer.headers["retry-after"]
        assert "scdh_ready 0.0" in running.http.get("/metrics").text
        go_on.set()
        wait_until(lambda: running.http.get("/ready").status_code == 200)
        assert running.http.get("/v1/info").status_code == 200
        running.loop.call_soon_threadsafe(running.service.announce_stop)
        wait_until(lambda: running.http.get("/ready").status_code == 503)
        assert running.http.get("/ready").json()["error"]["code"] == "stopping"
        assert running.http.get("/v1/items/3").status_code == 200  # those that still come are answered


@pytest.mark.parametrize("wrong", ["model", "index", "images", "names", "other model"])
def test_what_cannot_be_used_ends_the_start_with_one_sentence(shop, tmp_path, wrong):
    settings = {"model": f"{shop}/model", "index": f"{shop}/photos.index"}
    if wrong == "other model":
        settings["index"] = str(tmp_path / "other.index")
        save_index(tmp_path / "other.index", some_codes(3), "another-model", np.full(3, -1), [])
    else:
        settings[wrong] = str(tmp_path / "nothing")
    with pytest.raises(ScdhError), hosted(Settings(**settings)):
        pass


def test_milvus_is_served_as_a_file_is(shop, tmp_path):
    pytest.importorskip("pymilvus")
    # Not imported here: it needs a module that setuptools has removed, and only MilvusIndex gives it another.
    if find_spec("milvus_lite") is None:
        pytest.skip("milvus_lite is missing: pip install 'scdh[milvus]'")
    from scdh.index.milvus import MilvusIndex
    from tests.serve.conftest import TOKEN

    address = f"milvus:{tmp_path}/codes.db/photos"
    must(["index", f"{shop}/photos.codes", "--to", address])
    plain = HammingIndex.load(shop / "photos.index")
    settings = Settings(f"{shop}/model", address, names=f"{shop}/photos.codes", token=TOKEN)
    with hosted(settings) as running, Client(running.url, token=TOKEN) as client:
        found = client.search_codes(plain.codes_of([4]), k=5, labels=["apple"])[0]
        apples = load_names(shop / "photos.codes").ids_with_labels(["apple"])
        expected = plain.search(plain.codes_of([4]), 5, only=apples)
        assert [(hit.id, hit.distance) for hit in found.hits] == list(expected[0])
        assert found.hits[0].name
        codes, u = Hasher.load(shop / "model").encode([picture(60)], outputs=True)
        (by_outputs,) = client.search_images(picture(60), k=5, rank="outputs")
        (expected,) = plain.search(Codes(codes.packed, BITS), 5, weights=np.abs(u))
        assert [hit.id for hit in by_outputs.hits] == expected.ids.tolist()
        assert [hit.distance for hit in by_outputs.hits] == pytest.approx(expected.distances.tolist(), rel=1e-4)
        (added,) = client.add_codes([found.code])
        assert added["id"] == 12
        assert client.item(12)["code"] == found.code
        with pytest.raises(ServiceError, match="come from another file than the index"):
            client.add_codes([found.code], names=["x"])
        client.remove(12)
        assert client.info()["index"]["items"] == 12
        with pytest.raises(CodesError, match="does not contain the id 12"):
            running.service.collection.now.index.codes_of([12])
    with MilvusIndex.open(address) as index:  # the service has let it go
        assert len(index) == 12


def test_names_and_labels_that_an_engine_stores_are_served(shop, tmp_path):
    pytest.importorskip("lancedb")
    from scdh.serve.collection import Addition, Removal

    address = f"lance:{tmp_path}/vectors/photos"
    must(["index", f"{shop}/photos.codes", "--to", address])
    plain, names = HammingIndex.load(shop / "photos.index"), load_names(shop / "photos.codes")
    served = Collection(address, None, Hasher.load(shop / "model").fingerprint(), BITS)
    request = SearchRequest(plain.codes_of([4]), SearchOptions(k=5, labels=("apple",)))
    ((found,),) = find_all(served.now, [request])
    expected = plain.search(plain.codes_of([4]), 5, only=names.ids_with_labels(["apple"])).ids[0]
    assert [(hit["id"], hit["name"]) for hit in found.hits] == [(n, names.names[names.position(n)]) for n in expected]
    assert all(hit["labels"] == ["apple"] for hit in found.hits)
    (wrong,) = find_all(served.now, [SearchRequest(request.codes, SearchOptions(k=5, labels=("aple",)))])
    assert "has the label 'aple'" in str(wrong)
    ((added,),) = served.change([Addition(Codes(request.codes.packed, BITS), None, ["new.png"], [["plum"]])])
    assert served.now.describe(np.array([added])) == [{"id": added, "name": "new.png", "labels": ["plum"]}]
    assert served.now.name_of(added) == "new.png"
    served.change([Removal(added)])
    assert not served.now.holds(added)
    served.close()


def test_an_int8_model_is_served_and_an_index_of_float32_codes_is_rejected(shop: Path, tmp_path: Path) -> None:
    model, codes, index = tmp_path / "int8", tmp_path / "photos.codes", tmp_path / "photos.index"
    Hasher.load(shop / "model").quantised([picture(seed) for seed in range(12)], workers=0).save(model)
    must(["encode", str(model), f"{shop}/photos", "--workers", "0", "--out", str(codes)])
    must(["index", str(codes), "--out", str(index)])
    with hosted(Settings(str(model), str(index), f"{shop}/photos", engine="torch")) as site:
        model_info = site.http.get("/v1/info").json()["model"]
        assert (model_info["fingerprint"], model_info["precision"]) == (Hasher.load(model).fingerprint(), "int8")
        answer = site.http.post("/v1/search/image?k=3", files={"image": picture(3)}).json()
        assert answer["results"][0]["hits"][0]["distance"] == 0
    with (
        pytest.raises(ScdhError, match="model"),
        hosted(Settings(str(model), f"{shop}/photos.index", f"{shop}/photos", engine="torch")),
    ):
        pass

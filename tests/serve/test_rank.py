"""Ranking by real outputs: the hits and distances of the index itself, alone and computed together with others."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh import Client
from scdh.codes import Codes
from scdh.errors import CodesError, ConfigError, ServiceError
from scdh.index import HammingIndex
from scdh.index.search import loading, scan
from scdh.model.hasher import Hasher
from scdh.serve import warm
from scdh.serve.encoder import Encoded
from scdh.serve.request_errors import RequestError
from scdh.serve.service import Service
from scdh.serve.settings import Settings
from scdh.serve.snapshot import SearchOptions, SearchRequest, Snapshot, find_all
from tests.serve.conftest import BITS, picture, save_index, save_model, save_own_distance, some_vectors
from tests.serve.hosted import hosted


@pytest.fixture(scope="module")
def client(site):
    with Client(site.url) as calls:
        yield calls


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    """A service of embeddings, and its index."""
    folder = tmp_path_factory.mktemp("rank")
    hasher = save_model(folder / "model", width=5)
    save_index(
        folder / "own.index", hasher.encode(some_vectors(30)), hasher.fingerprint(), np.arange(30) % 2, ["a", "b"]
    )
    with hosted(Settings(str(folder / "model"), str(folder / "own.index"))) as running, Client(running.url) as calls:
        yield calls, hasher, HammingIndex.load(folder / "own.index")


def pairs(answer):
    return [(hit.id, hit.distance) for hit in answer.hits]


def assert_hits(answer, expected):
    """The same ids in the same order; the number of queries changes last digits of products."""
    assert [hit.id for hit in answer.hits] == expected.ids.tolist()
    assert [hit.distance for hit in answer.hits] == pytest.approx(expected.distances.tolist(), abs=1e-6)


def test_pictures_are_ranked_as_the_index_does_it(client, site, shop):
    index, hasher = HammingIndex.load(shop / "photos.index"), Hasher.load(shop / "model")
    files = [picture(seed) for seed in (3, 60, 61)]
    answers = client.search_images(files, k=12, rank="outputs")
    by_bits = client.search_images(files, k=12)
    for file, answer, plain in zip(files, answers, by_bits, strict=True):
        # A batch of three pictures may differ in the last digits from one of one, so each code is compared alone.
        (alone,) = client.search_images(file, k=12, rank="outputs")
        codes, u = hasher.encode([file], outputs=True)
        (expected,) = index.search(Codes(codes.packed, BITS), 12, weights=np.abs(u))
        assert [hit.id for hit in alone.hits] == expected.ids.tolist()
        assert [hit.distance for hit in alone.hits] == pytest.approx(expected.distances.tolist(), rel=1e-4, abs=1e-5)
        assert [hit.distance for hit in answer.hits] == pytest.approx(expected.distances.tolist(), rel=1e-4, abs=1e-5)
        assert {hit.id for hit in answer.hits} == {hit.id for hit in plain.hits}
        assert (answer.code, answer.total) == (plain.code, None)
    assert [pairs(one) for one in answers] != [pairs(one) for one in by_bits]
    only = client.search_images(files[0], k=12, labels=["pear"], rank="outputs")[0]
    assert {label for hit in only.hits for label in hit.labels} == {"pear"}
    assert len(only.hits) == 6


def test_embeddings_are_ranked_as_the_index_does_it(vectors):
    client, hasher, index = vectors
    rows = np.random.default_rng(5).normal(size=(4, 5)).astype(np.float32)
    for row in rows:
        codes, u = hasher.encode(row[None], outputs=True)
        (expected,) = index.search(Codes(codes.packed, BITS), 7, weights=np.abs(u))
        (answer,) = client.search_vectors(row, k=7, rank="outputs")
        assert pairs(answer) == list(expected)
        assert all(isinstance(hit.distance, float) for hit in answer.hits)
        assert all(isinstance(hit.distance, int) for hit in client.search_vectors(row, k=7)[0].hits)


def test_vectors_may_be_given_in_any_common_form(vectors):
    client, _, _ = vectors
    rows = np.random.default_rng(7).normal(size=(2, 5)).astype(np.float32)
    expected = client.search_vectors(rows.tolist())
    for form in (rows, list(rows), tuple(map(tuple, rows)), [list(row) for row in rows]):
        assert client.search_vectors(form) == expected
    assert client.search_vectors(list(rows[0])) == expected[:1]
    for wrong in ([[1.0, 2.0], [1.0]], "words", [[[1.0]]], [[float("nan")] * 5]):
        with pytest.raises(ConfigError, match="Vectors must be finite real numbers"):
            client.search_vectors(wrong)


def test_many_clients_at_once_get_what_each_gets_alone(vectors):
    client, hasher, index = vectors
    rows = np.random.default_rng(6).normal(size=(24, 5)).astype(np.float32)

    def ask(number: int):
        return client.search_vectors(rows[number], k=5, rank=("outputs", "bits")[number % 2])[0]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(len(rows))))
    for number, answer in enumerate(answers):
        codes, u = hasher.encode(rows[number : number + 1], outputs=True)
        differ = index.codes.unpack() != codes.unpack()
        sums, bits = (differ * np.abs(u)).sum(1), differ.sum(1)
        order = np.lexsort((index.ids, sums, bits) if number % 2 else (index.ids, sums))[:5]
        assert [hit.id for hit in answer.hits] == index.ids[order].tolist()
        expected = (bits if number % 2 else sums)[order]
        assert [hit.distance for hit in answer.hits] == pytest.approx(expected.tolist(), rel=1e-4, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1 << 16), bits=st.sampled_from([1, 6, 13, 64]))
def test_weighted_questions_asked_together_have_the_answers_they_have_alone(data, seed, bits):
    rng = np.random.default_rng(seed)
    snapshot = Snapshot(HammingIndex(Codes.from_signs(rng.random((40, bits)) < 0.5)), None)
    asked = []
    for _ in range(data.draw(st.integers(1, 12))):
        u = rng.normal(size=(data.draw(st.integers(1, 3)), bits)).astype(np.float32)
        by_outputs = data.draw(st.booleans())
        options = SearchOptions(data.draw(st.integers(1, 45)), rank="outputs" if by_outputs else "bits")
        asked.append(SearchRequest(Codes.from_signs(u), options, outputs=u if by_outputs else None))
    together = find_all(snapshot, asked)
    assert together == [find_all(snapshot, [one])[0] for one in asked]
    items = snapshot.index.codes.unpack().astype(bool)
    for one, found in zip(asked, together, strict=True):
        for code, outputs, answer in zip(
            one.codes.unpack().astype(bool), one.outputs if one.outputs is not None else found, found, strict=True
        ):
            weights = np.ones(bits) if one.outputs is None else np.abs(outputs).astype(np.float64)
            distances = ((items != code) * weights).sum(1)
            k = min(one.options.k, 40)
            assert [hit["distance"] for hit in answer.hits] == pytest.approx(np.sort(distances)[:k].tolist())
            own = [distances[hit["id"]] for hit in answer.hits]
            assert own == pytest.approx([hit["distance"] for hit in answer.hits])


def test_kept_vectors_rank_as_in_the_index_itself(vectors, tmp_path):
    _, hasher, plain = vectors
    rows, queries = some_vectors(30), -some_vectors(3)
    codes = Codes(plain.codes.packed, BITS, metadata=plain.codes.metadata)
    index = HammingIndex(codes.with_vectors(hasher.hash_outputs(rows)))
    index.save(tmp_path / "kept.index")
    hasher.save(tmp_path / "model")
    u = hasher.hash_outputs(queries)
    expected = index.search(hasher.encode(queries).with_vectors(u, "float16"), 3, rescore=4)
    own = index.search(index.codes_of([4]), 4, rescore=4)[0]
    with hosted(Settings(f"{tmp_path}/model", f"{tmp_path}/kept.index")) as running, Client(running.url) as client:
        for answer, hits in zip(client.search_vectors(queries, k=3, rank="vectors"), expected, strict=True):
            assert_hits(answer, hits)
        similar = client.similar(4, k=3, rank="vectors")
        assert [hit.id for hit in similar.hits] == own.ids[own.ids != 4][:3].tolist()
        with pytest.raises(ServiceError, match="A radius counts bits"):
            client.similar(4, radius=3, rank="vectors")


def test_what_has_no_outputs_is_rejected_in_a_sentence(site, vectors):
    code = site.http.get("/v1/items/3").json()["code"]
    answers = {
        "code": site.http.post("/v1/search/code", json={"codes": [code], "rank": "outputs"}),
        "item": site.http.get("/v1/items/3/similar?rank=outputs"),
        "kept": site.http.get("/v1/items/3/similar?rank=vectors"),
        "radius": site.http.post("/v1/search/image?rank=outputs&radius=2", files={"image": picture(0)}),
        "word": site.http.post("/v1/search/image?rank=floats", files={"image": picture(0)}),
    }
    messages = {}
    for name, answer in answers.items():
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid"), answer.text
        messages[name] = answer.json()["error"]["message"]
    assert "only the bits are known" in messages["code"]
    assert "for items there are 'bits' and 'vectors'" in messages["item"]
    assert messages["kept"].startswith("This index keeps no outputs")
    assert messages["radius"].startswith("A radius counts bits")
    assert messages["word"].startswith("rank is not accepted")
    assert site.http.post("/v1/search/code", json={"codes": [code], "rank": "bits"}).status_code == 200
    with pytest.raises(ServiceError, match="A radius counts bits"):
        vectors[0].search_vectors([0.0] * 5, radius=3, rank="outputs")


def test_outputs_beyond_all_numbers_are_rejected(tmp_path):
    service = Service(Settings("model", "index"))
    encoded = Encoded(Codes.from_signs(np.ones((1, 4))), np.array([[1.0, np.inf, 1.0, 1.0]], np.float32))
    with pytest.raises(RequestError, match="non-finite outputs") as error:
        asyncio.run(service._search_encoded(encoded, SearchOptions(3, rank="outputs")))
    assert error.value.status == 422


def test_the_document_has_the_parameter(site):
    document = site.http.get("/openapi.json").json()
    parameters = document["paths"]["/v1/search/image"]["post"]["parameters"]
    (rank,) = [one for one in parameters if one["name"] == "rank"]
    assert rank["schema"]["enum"] == ["bits", "outputs", "vectors"]
    content = document["paths"]["/v1/search/vector"]["post"]["requestBody"]["content"]["application/json"]
    assert content["example"]["rank"] == "outputs"
    assert document["components"]["schemas"]["Hit"]["properties"]["distance"]["type"] == "number"


@pytest.fixture(scope="module", params=["dqn", "cls_onehot"])
def own(request, tmp_path_factory):
    """A service whose method ranks by a distance of its own, its model, items and settings."""
    folder = tmp_path_factory.mktemp("own")
    hasher, codes = save_own_distance(folder, request.param, 40)
    given = Settings(str(folder / "model"), str(folder / "own.index"), token="a-secret-of-length")
    with hosted(given) as running, Client(running.url, token="a-secret-of-length") as calls:
        yield calls, hasher, HammingIndex(codes), given


def test_a_distance_of_the_methods_own_is_served(own):
    calls, hasher, index, _ = own
    queries = some_vectors(3)
    codes, u = hasher.encode(queries, outputs=True)
    expected = index.search(codes, 6, byte_tables=hasher.distance_tables(u))
    answers = calls.search_vectors(queries.tolist(), k=6)
    for answer, one in zip(answers, expected, strict=True):
        assert_hits(answer, one)
    assert calls.info()["model"]["ranking"] == hasher.method.ranking
    odd = np.arange(1, 40, 2)
    (only_odd,) = index.search(codes[:1], 6, byte_tables=hasher.distance_tables(u[:1]), only=odd)
    assert_hits(calls.search_vectors(queries[0].tolist(), k=6, labels=["odd"])[0], only_odd)


def test_codes_and_items_are_looked_up_by_what_they_stand_for(own):
    calls, hasher, index, _ = own
    code = index.codes_of([7])
    (expected,) = index.search(code, 40, byte_tables=hasher.distance_tables(code))
    assert_hits(calls.search_codes(code.packed[0].tobytes().hex(), k=40)[0], expected)
    similar = calls.similar(7, k=39)
    assert [hit.id for hit in similar.hits] == [own_id for own_id in expected.ids.tolist() if own_id != 7]


def test_items_are_added_to_an_index_of_such_codes(own):
    calls, hasher, index, _ = own
    vector = some_vectors(41)[40:]
    codes, u = hasher.encode(vector, outputs=True)
    added = calls.add_codes(codes.packed[0].tobytes().hex(), names=["new"])[0]
    try:
        index.add(Codes(codes.packed, codes.bits, metadata=codes.metadata), [added["id"]])
        expected = index.search(codes, 5, byte_tables=hasher.distance_tables(u))[0]
        assert_hits(calls.search_vectors(vector[0].tolist(), k=5)[0], expected)
    finally:
        calls.remove(added["id"])
        index.remove([added["id"]])


@pytest.mark.parametrize(("option", "word"), [({"radius": 2}, "radius"), ({"rank": "outputs"}, "'rank'")])
def test_what_counts_bits_is_rejected_where_bits_do_not_rank(own, option, word):
    with pytest.raises(ServiceError, match=f"This model ranks by .*, which does not support {word}; leave it out"):
        own[0].search_vectors(some_vectors(1)[0].tolist(), **option)


def test_an_index_that_another_distance_ranks_is_rejected(own, tmp_path):
    _, _, index, given = own
    HammingIndex(Codes(index.codes.packed, index.bits)).save(tmp_path / "plain.index")
    with pytest.raises(CodesError, match=r"^The index is ranked by Hamming distance, but the model ranks by .*\.$"):
        Service(replace(given, index=str(tmp_path / "plain.index")))._load()
    with pytest.raises(ConfigError, match=r"ranks by .*, which search engines cannot; serve an index file\.$"):
        Service(replace(given, index="milvus:vectors.db/own"))._load()


def test_a_method_that_gives_no_outputs_for_codes_rejects_items(own, monkeypatch):
    calls, hasher, _, _ = own
    monkeypatch.delattr(type(hasher.method), "outputs_of_codes")
    with pytest.raises(ServiceError, match="cannot recover outputs from codes, so an id or a row cannot be a query"):
        calls.similar(3)


@pytest.mark.parametrize("bits", [10, 1000])
def test_the_loop_for_tables_is_loaded_before_the_first_request(bits, monkeypatch):
    counted: dict[tuple[str, str], int] = {}
    monkeypatch.setattr(scan, "_counted_pairs", counted)
    monkeypatch.setattr(scan, "WORTH_LOADING", 1 << 22)
    codes = Codes(np.zeros((3, -(-bits // 8)), np.uint8), bits, metadata={"ranking": "its own"})
    warm.warm_search(Snapshot(HammingIndex(codes), None, lambda outputs: None))
    (kernel,) = {name for name, _ in counted}
    assert kernel == "byte tables"
    assert max(counted.values()) >= 1 << 22
    assert all(loading.is_loaded(key) for key, work in counted.items() if work >= 1 << 22)

"""The contract of the HTTP API: what every route answers, and its errors."""

import json
import re

import numpy as np
import pytest

from scdh.index import HammingIndex
from scdh.model.hasher import Hasher
from scdh.serve.http.static import FOLDER
from tests.serve.conftest import BITS, HOSTILE, picture
from tests.serve.hosted import hosted


def error_of(answer, status):
    """The code of an error, whose form is checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    content = answer.json()
    assert set(content) == {"error"}
    assert set(content["error"]) == {"code", "message"}
    message = content["error"]["message"]
    assert message.endswith((".", "?"))
    assert "\n" not in message
    assert "Traceback" not in message
    return content["error"]["code"]


def test_state(site):
    assert site.http.get("/health").json() == {"status": "ok"}
    assert site.http.get("/ready").json() == {"status": "ok"}
    info = site.http.get("/v1/info").json()
    hasher = Hasher.load(site.service.settings.model)
    assert info["model"] == {
        "method": "scdh",
        "bits": BITS,
        "ranking": "Hamming distance",
        "backbone": "small_conv",
        "fingerprint": hasher.fingerprint(),
        "input": "images",
        "width": None,
        "learned_labels": True,
        "precision": "float32",
    }
    assert info["index"] == {"items": 12, "bits": BITS}
    assert info["labels"] == {"apple": 6, "pear": 6}


def test_metrics_count_requests_batches_and_items(site):
    site.http.post("/v1/search/image", files={"image": picture(1)})
    site.http.get("/nowhere")
    text = site.http.get("/metrics").text
    assert 'scdh_requests_total{method="POST",route="/v1/search/image",status="200"}' in text
    assert 'scdh_requests_total{method="GET",route="other",status="404"}' in text
    assert 'scdh_request_seconds_bucket{le="0.001",route="/v1/search/image"}' in text
    assert 'scdh_batch_size_count{kind="images"}' in text
    assert 'scdh_queue_length{kind="images"} 0.0' in text
    assert "scdh_items 12.0" in text
    assert re.search(r"^process_resident_memory_bytes [0-9.e+]+$", text, re.MULTILINE)


def test_images_give_the_hits_of_the_index_itself(site, shop):
    index = HammingIndex.load(shop / "photos.index")
    files = [("image", picture(seed, kind)) for seed, kind in ((3, "PNG"), (50, "JPEG"), (51, "WEBP"))]
    answer = site.http.post("/v1/search/image?k=5", files=files)
    results = answer.json()["results"]
    codes, u = Hasher.load(shop / "model").encode([content for _, content in files], outputs=True)
    assert [result["code"] for result in results] == [row.tobytes().hex() for row in codes.packed]
    items = index.codes.unpack()
    for result, code, outputs in zip(results, codes.unpack(), u, strict=True):
        differ = items != code
        order = np.lexsort((index.ids, (differ * np.abs(outputs)).sum(1), differ.sum(1)))[:5]
        found = [(hit["id"], hit["distance"]) for hit in result["hits"]]
        assert found == [(int(index.ids[row]), int(differ[row].sum())) for row in order]
        assert result["total"] is None
    same = [hit for hit in results[0]["hits"] if hit["name"].endswith("photos/pear/3.png")]
    assert [(set(hit), hit["distance"], hit["labels"]) for hit in same] == [
        ({"id", "distance", "name", "labels"}, 0, ["pear"])
    ]
    assert len({result["code"] for result in results}) > 1


def test_codes_by_k_by_radius_and_by_label(site, shop):
    index = HammingIndex.load(shop / "photos.index")
    queries = index.codes_of([0, 5])
    digits = [row.tobytes().hex() for row in queries.packed]

    def search(**question):
        answer = site.http.post("/v1/search/code", json={"codes": digits, **question})
        assert answer.status_code == 200, answer.text
        return answer.json()["results"]

    pairs = [[(hit["id"], hit["distance"]) for hit in one["hits"]] for one in search(k=4)]
    assert pairs == [list(hits) for hits in index.search(queries, 4)]
    assert len(search()[0]["hits"]) == 10
    within = search(radius=5)
    assert [[(hit["id"], hit["distance"]) for hit in one["hits"]] for one in within] == [
        list(hits) for hits in index.within(queries, 5)
    ]
    assert [one["total"] for one in within] == index.within(queries, 5).counts.tolist()
    cut = search(radius=BITS, k=2)[0]
    assert (len(cut["hits"]), cut["total"]) == (2, 12)
    only = search(labels=["pear"], k=12)[0]["hits"]
    assert len(only) == 6
    assert {label for hit in only for label in hit["labels"]} == {"pear"}


def test_an_item_its_picture_and_those_like_it(site, shop):
    item = site.http.get("/v1/items/3").json()
    index = HammingIndex.load(shop / "photos.index")
    assert item["code"] == index.codes_of([3]).packed[0].tobytes().hex()
    assert item["picture"] is True
    similar = site.http.get("/v1/items/3/similar?k=12").json()["results"][0]["hits"]
    assert 3 not in [hit["id"] for hit in similar]
    assert len(similar) == 11
    near = site.http.get(f"/v1/items/3/similar?radius={BITS}&k=3&label=pear").json()["results"][0]
    hit_labels = {label for hit in near["hits"] for label in hit["labels"]}
    assert (len(near["hits"]), hit_labels) == (3, {"pear"})
    picture_answer = site.http.get("/v1/items/3/thumbnail")
    assert picture_answer.headers["content-type"] == "image/jpeg"
    assert picture_answer.content[:2] == b"\xff\xd8"
    again = site.http.get("/v1/items/3/thumbnail", headers={"if-none-match": picture_answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_hostile_names_are_data(site):
    names = [site.http.get(f"/v1/items/{item_id}").json()["name"] for item_id in range(12)]
    hostile = [name for name in names if name.endswith(HOSTILE)]
    assert len(hostile) == 1  # as text within JSON, which no browser takes for a page:
    answer = site.http.get("/v1/items/0")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "/nowhere", {}, 404, "not_found"),
        ("GET", "/../../etc/passwd", {}, 404, "not_found"),
        ("GET", "/%2e%2e/app.js", {}, 404, "not_found"),
        ("PUT", "/v1/search/code", {}, 405, "method_not_allowed"),
        ("GET", "/v1/search/code", {}, 405, "method_not_allowed"),
        ("GET", "/v1/items/99", {}, 404, "not_found"),
        ("GET", "/v1/items/99/similar", {}, 404, "not_found"),
        ("GET", "/v1/items/99/thumbnail", {}, 404, "not_found"),
        ("GET", "/v1/items/one", {}, 422, "invalid"),
        ("GET", "/v1/items/..%2f..%2fetc/thumbnail", {}, 404, "not_found"),
        ("GET", f"/v1/items/{1 << 63}", {}, 422, "invalid"),
        ("GET", "/v1/items/1.5", {}, 422, "invalid"),
        ("GET", "/v1/items/3/similar?k=0", {}, 422, "invalid"),
        ("GET", "/v1/items/3/similar?k=1001", {}, 422, "invalid"),
        ("GET", "/v1/items/3/similar?radius=-1", {}, 422, "invalid"),
        ("GET", "/v1/items/3/similar?label=plum", {}, 422, "invalid"),
        ("POST", "/v1/search/code", {"json": {"codes": ["00"]}}, 422, "invalid"),
        ("POST", "/v1/search/code", {"json": {"codes": ["0007"]}}, 422, "invalid"),  # a spare bit is 1
        ("POST", "/v1/search/code", {"json": {"codes": ["zz00"]}}, 422, "invalid"),
        ("POST", "/v1/search/code", {"json": {"codes": []}}, 422, "invalid"),
        ("POST", "/v1/search/code", {"json": {"codes": ["0000"] * 257}}, 422, "invalid"),
        ("POST", "/v1/search/code", {"json": {"codes": ["0000"], "raduis": 2}}, 422, "invalid"),
        ("POST", "/v1/search/code", {"json": {"codes": ["0000"], "k": "many"}}, 422, "invalid"),
        ("POST", "/v1/search/code", {"content": b"{"}, 422, "invalid"),
        ("POST", "/v1/search/code", {"content": b"[" * 100_000}, 422, "invalid"),
        ("POST", "/v1/search/code", {"content": b'{"codes": ["0000"], "k": ' + b"9" * 5000 + b"}"}, 422, "invalid"),
        ("POST", "/v1/search/vector", {"json": {"vectors": [[1.0]]}}, 422, "invalid"),
        ("POST", "/v1/search/image", {}, 422, "invalid"),
        ("POST", "/v1/search/image", {"data": {"image": "text"}}, 422, "invalid"),
        ("POST", "/v1/search/image", {"files": {"image": b""}}, 422, "bad_image"),
        ("POST", "/v1/search/image", {"files": {"image": b"GIF89a"}}, 422, "bad_image"),
        ("POST", "/v1/search/image", {"files": [("image", b"x")] * 17}, 422, "invalid"),
        ("POST", "/v1/items", {"files": {"image": b""}}, 403, "read_only"),
        ("DELETE", "/v1/items/3", {}, 403, "read_only"),
    ],
)
def test_errors_have_one_form(site, method, path, options, status, code):
    if "content" in options:
        options = {**options, "headers": {"content-type": "application/json"}}
    answer = site.http.request(method, path, **options)
    found = error_of(answer, answer.status_code)
    # Some parsers give up earlier, and say that the body cannot be read.
    allowed = [(status, code), (400, "bad_request")] if "content" in options else [(status, code)]
    assert (answer.status_code, found) in allowed


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/v1/info", "/v1/items/3", "/"])
def test_head_is_get_without_the_body(site, path):
    """Load balancers and monitors ask so."""
    answer, whole = site.http.head(path), site.http.get(path)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == whole.headers["content-type"]
    assert path == "/metrics" or int(answer.headers["content-length"]) == len(whole.content)
    assert (site.http.head("/v1/items/99").status_code, site.http.head("/v1/search/code").status_code) == (404, 405)
    route = "other" if path == "/" else path.replace("3", "{id}")
    assert f'scdh_requests_total{{method="HEAD",route="{route}",status="200"}}' in site.http.get("/metrics").text


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/items/3", {"GET", "HEAD", "DELETE"}),
        ("GET", "/v1/items", {"POST"}),
        ("POST", "/health", {"GET", "HEAD"}),
        ("OPTIONS", "/v1/search/code", {"POST"}),
        ("DELETE", "/", {"GET", "HEAD"}),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(site, method, path, allowed):
    answer = site.http.request(method, path)
    assert error_of(answer, 405) == "method_not_allowed"
    assert set(answer.headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/v1/items/3/similar?raduis=2", "Unknown parameter 'raduis'; known are k, label, radius, rank."),
        ("/v1/items/3/similar?k=2&labels=pear", "Unknown parameter 'labels'"),
        ("/v1/search/image?labels=pear", "Unknown parameter 'labels'"),
        ("/v1/search/code?k=2", "Unknown parameter 'k'; settings belong into the body."),
        ("/v1/sample?count=2", "Unknown parameter 'count'; known are k, label, name."),
    ],
)
def test_a_misspelt_parameter_is_not_passed_over(site, path, message):
    sent = {"files": {"image": picture(1)}} if "image" in path else {"json": {"codes": ["0000"]}}
    answer = site.http.get(path) if "search" not in path else site.http.post(path, **sent)
    assert error_of(answer, 422) == "invalid"
    assert message in answer.json()["error"]["message"]


def test_every_answer_has_the_headers_for_browsers(site):
    for path in ("/", "/app.js", "/docs", "/v1/info", "/nowhere", "/metrics", "/v1/items/3/thumbnail"):
        headers = site.http.get(path).headers
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
        assert "access-control-allow-origin" not in site.http.get(path, headers={"origin": "https://a.example"}).headers


def test_the_page_has_no_inline_scripts_and_no_outside_requests(site):
    for path, kind in (
        ("/", "text/html"),
        ("/docs", "text/html"),
        ("/app.js", "text/javascript"),
        ("/docs.js", "text/javascript"),
    ):
        answer = site.http.get(path)
        assert answer.headers["content-type"].startswith(kind)
        assert "http://" not in answer.text
        assert "https://" not in answer.text
        assert "innerHTML" not in answer.text
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
        assert " on" + "click" not in answer.text
    same = site.http.get("/app.js", headers={"if-none-match": site.http.get("/app.js").headers["etag"]})
    assert same.status_code == 304


def test_the_openapi_document_has_every_route_and_examples(site):
    document = site.http.get("/openapi.json").json()
    assert {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods} == {
        "GET /health",
        "GET /ready",
        "GET /metrics",
        "GET /v1/codes",
        "GET /v1/info",
        "GET /v1/map",
        "GET /v1/sample",
        "POST /v1/search/image",
        "POST /v1/search/vector",
        "POST /v1/search/code",
        "GET /v1/items/{id}",
        "GET /v1/items/{id}/similar",
        "GET /v1/items/{id}/thumbnail",
        "POST /v1/items",
        "DELETE /v1/items/{id}",
    }
    for path in ("/v1/search/code", "/v1/search/vector", "/v1/items"):
        assert document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["example"]
    assert "ValidationError" not in json.dumps(document["paths"])


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    from scdh.serve.settings import Settings
    from tests.serve.conftest import save_index, save_model, some_vectors

    folder = tmp_path_factory.mktemp("vectors")
    hasher = save_model(folder / "model", width=5)
    rows = some_vectors(20)
    save_index(folder / "own.index", hasher.encode(rows), hasher.fingerprint(), np.arange(20) % 2, ["a", "b\udce9"])
    with hosted(Settings(str(folder / "model"), str(folder / "own.index"))) as running:
        yield running, rows


def test_embeddings(vectors):
    running, rows = vectors
    assert running.http.get("/v1/info").json()["model"]["input"] == "embeddings"
    answer = running.http.post("/v1/search/vector", json={"vectors": rows[:3].tolist(), "k": 2}).json()["results"]
    for number, result in enumerate(answer):
        assert any(hit["distance"] == 0 for hit in result["hits"]), number
        assert len(result["hits"]) == 2
    for wrong in ([[1.0]], [[1.0] * 6], [[1e300] * 5], [], [[]]):
        error_of(running.http.post("/v1/search/vector", json={"vectors": wrong}), 422)
    nan = running.http.post(
        "/v1/search/vector", content=b'{"vectors": [[NaN, 1, 1, 1, 1]]}', headers={"content-type": "application/json"}
    )
    assert nan.status_code in (400, 422)
    assert error_of(running.http.post("/v1/search/image", files={"image": picture(0)}), 422) == "invalid"
    assert error_of(running.http.get("/v1/items/3/thumbnail"), 404) == "not_found"


def test_labels_that_are_no_unicode_can_be_shown_and_asked_for(vectors):
    running, _ = vectors
    labels = running.http.get("/v1/info").json()["labels"]
    assert labels == {"a": 10, "b\\xe9": 10}
    found = running.http.get("/v1/items/0/similar", params={"label": "b\\xe9", "k": 20}).json()["results"][0]["hits"]
    assert {hit["labels"][0] for hit in found} == {"b\\xe9"}
    assert len(found) == 10


def test_pages_work_below_a_path_of_a_proxy():
    """So they name their files and the API relative to themselves."""
    for file in FOLDER.iterdir():
        if file.suffix in (".html", ".js", ".css"):
            assert not re.search(r"""(href|src)="/|url\(["']?/|(fetch|request)\(["'`]/""", file.read_text("utf-8")), (
                file
            )

"""Bounds on sizes, times and queues: whatever is sent, the service answers, stays small, and is there afterwards."""

import asyncio
import errno
import io
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from scdh.extras import missing_packages
from scdh.model.hasher import Hasher
from scdh.nets.export.graph import ExportedNetwork
from scdh.serve.batching import Batcher
from scdh.serve.encoder import Encoder
from scdh.serve.http.answers import search_answer
from scdh.serve.http.bodies import CodesBody, ItemsBody, VectorsBody
from scdh.serve.settings import Limits, Settings
from tests.serve.conftest import TOKEN, picture
from tests.serve.hosted import hosted, wait_until, with_limits
from tests.serve.malformed import BOMBS, png


@pytest.fixture(scope="module")
def strict(shop):
    """A service with small limits."""
    plain = Settings(f"{shop}/model", f"{shop}/photos.index", hosts=("127.0.0.1",), origins=("https://shop.example",))
    limits = {"upload": 200_000, "json": 10_000, "pixels": 100_000, "head_seconds": 0.5, "body_seconds": 0.7}
    with hosted(with_limits(plain, **limits)) as running:
        yield running


def resident_bytes() -> int:
    with open("/proc/self/statm") as handle:
        return int(handle.read().split()[1]) * 4096


def post_image(running, content, **options):
    return running.http.post("/v1/search/image", files={"image": content}, **options)


def test_bombs_are_rejected_before_they_are_decoded(strict):
    post_image(strict, picture(0))
    before = resident_bytes()
    for name, content in BOMBS.items():
        answer = post_image(strict, content)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_image"), name
    large = post_image(strict, png(400, 300))
    assert "the limit is 100,000" in large.json()["error"]["message"]
    assert resident_bytes() - before < 100e6


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (CodesBody, {"codes": ["z"] * 1000}),
        (CodesBody, {"codes": ["00"], "labels": [""] * 1000}),
        (CodesBody, {"codes": ["00"], **{f"key {number}": 0 for number in range(1000)}}),
        (VectorsBody, {"vectors": [["x"] * 1000] * 10}),
        (ItemsBody, {"items": [{"code": "z"}] * 1000}),
        (ItemsBody, {"items": [{"code": "00", **{f"key {number}": 0 for number in range(1000)}}]}),
    ],
)
def test_reading_a_body_stops_at_its_first_mistake(kind, body):
    """Reading a million mistakes took a gigabyte and six seconds, in which no other request was answered."""
    with pytest.raises(ValidationError) as caught:
        kind.model_validate_json(json.dumps(body))
    assert caught.value.error_count() <= 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/search/code", b'{"codes":[' + b"{}," * 2000 + b"{}]}"),
        ("/v1/search/vector", b'{"vectors":[' + b"[0]," * 2000 + b"[0]]}"),
        ("/v1/items", b'{"items":[' + b"{}," * 2000 + b"{}]}"),
        ("/v1/search/code", b'{"codes":["\\\\", ' + b"[]," * 2000 + b"[]]}"),
        ("/v1/search/code", b"{" + b",".join(b'"%d":0' % number for number in range(3000)) + b"}"),
    ],
)
def test_the_number_of_items_is_checked_before_they_are_parsed(writable, path, body):
    """4 MB of ``{}`` blocked all other requests for seven seconds."""
    with hosted(writable) as running:
        headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
        answer = running.http.post(path, content=body, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["error"]["message"].startswith("A request may have 256 queries or items")


def test_brackets_in_text_are_not_counted(site):
    labels = ['\\"' + "[{::" * 45 + '"'] * 30
    answer = site.http.post("/v1/search/code", json={"codes": ["0000"], "labels": labels})
    assert "queries or items" not in answer.text  # but the labels are too many


@pytest.mark.parametrize("sent", [{"data": {"image": "photo.jpg"}}, {"content": b"JPEG"}, {"files": {"foto": b"JPEG"}}])
def test_an_image_that_is_no_file_of_a_form_is_explained(strict, sent):
    answer = strict.http.post("/v1/search/image", **sent)
    message = "Send images as files in the field 'image' of a form, as curl does with -F image=@photo.jpg."
    assert (answer.status_code, answer.json()["error"]["message"]) == (422, message)


def test_a_misspelt_key_is_named(strict):
    answer = strict.http.post("/v1/search/code", json={"codes": ["0000"], "radus": 3})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "The body is not accepted: it has no field 'radus'."


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["0000", "ffF8"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["codes", "k", "radius", "labels"]), inner)
    ),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    body=st.dictionaries(st.sampled_from(["codes", "k", "radius", "labels", "vectors", "x"]), JSON),
    query=st.text(max_size=20),
)
def test_any_json_is_answered_or_rejected(strict, body, query):
    content = json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    for path in ("/v1/search/code", "/v1/search/vector"):
        answer = strict.http.post(path, content=content, headers=headers)
        assert answer.status_code in (200, 400, 422)
    answer = strict.http.get("/v1/items/3/similar", params={"label": query.encode("utf-8", "replace")})
    assert answer.status_code in (200, 422)


def raw(port: int, *parts: bytes, pause: float = 0.0, seconds: float = 60.0) -> bytes:
    """What comes back for bytes that are sent one part after the other."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection:
        for part in parts:
            try:
                connection.sendall(part)
            except (BrokenPipeError, ConnectionResetError):
                break
            time.sleep(pause)
        received = b""
        try:
            while block := connection.recv(65536):
                received += block
        except (TimeoutError, ConnectionResetError):
            pass
        return received


HEAD = b"POST /v1/search/image HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"


def test_slow_senders_are_cut_off(strict):
    field = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'
    body = raw(strict.port, HEAD + b"Content-Length: 1000\r\n\r\n" + field, *([b"-"] * 8), pause=0.15)
    assert body.startswith(b"HTTP/1.1 408")
    assert b'"slow"' in body
    head = raw(strict.port, *[HEAD[:20], b"a", b"b", b"c", b"d", b"e"], pause=0.15)
    assert head.startswith(b"HTTP/1.1 408")
    assert raw(strict.port).startswith(b"HTTP/1.1 408")  # says nothing at all
    first = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    second = raw(strict.port, first, b"G", b"E", b"T", b" ", b"/", b"h", b"e", b"a", pause=0.15)
    assert second.count(b"HTTP/1.1 ") == 2
    assert b"HTTP/1.1 408" in second


def test_bytes_that_are_not_http_are_rejected_in_the_same_form(strict):
    for content in (b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/x\r\n\r\n", b"GET /\r\nx: " + b"y" * 70_000):
        answer = raw(strict.port, content)
        assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 408", b"HTTP/1.1 431"))
        assert b'{"error": {"code": ' in answer
    # Empty where it was closed while the rest was still being sent.
    for many in (b"x: y\r\n" * 50_000, b"x: " + b"y" * 300_000, b"x: " + b"y" * 500_000 + b"\r\n\r\n"):
        endless = raw(strict.port, b"GET /health HTTP/1.1\r\n" + many, pause=0.05)
        assert endless.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")) or endless == b""


def patiently(send):
    """The answer; asked again where a busy machine was too slow, or the connection was closed while sending."""
    for _ in range(5):
        try:
            if (answer := send()).status_code not in (408, 503):
                return answer
        except httpx.TransportError:
            continue
    raise AssertionError("no answer in five attempts")


def test_large_bodies_are_rejected_with_or_without_a_length(strict):
    answer = patiently(lambda: post_image(strict, b"x" * 300_000))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
    headers = {"content-type": "multipart/form-data; boundary=x"}
    field = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a"\r\n\r\n'

    def send_without_length():
        chunks = (part for part in (field, *[b"x" * 50_000] * 8))
        return strict.http.post("/v1/search/image", content=chunks, headers=headers)

    answer = patiently(send_without_length)
    assert answer.status_code == 413
    answer = patiently(lambda: strict.http.post("/v1/search/code", json={"codes": ["0" * 20_000]}))
    assert answer.status_code == 413
    answer = raw(strict.port, HEAD + b"Content-Length: 999999999999999999999999\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400"))


def test_other_names_are_not_answered_and_cors_is_for_the_sites_that_were_named(strict):
    answer = strict.http.get("/v1/info", headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "wrong_host")
    asked = {"origin": "https://shop.example"}
    assert strict.http.get("/v1/info", headers=asked).headers["access-control-allow-origin"] == "https://shop.example"
    other = strict.http.get("/v1/info", headers={"origin": "https://other.example"})
    assert "access-control-allow-origin" not in other.headers


def test_a_full_queue_is_told_with_retry_after(shop):
    limited = with_limits(Settings(f"{shop}/model", f"{shop}/photos.index"), images=2, waiting_images=2)
    with hosted(limited) as running:
        entered, go_on = threading.Event(), threading.Event()
        run = running.service.encoder._batcher._work

        def blocked(items):
            entered.set()
            assert go_on.wait(30)
            return run(items)

        running.service.encoder._batcher._work = blocked
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(post_image(running, picture(1))))
        waiting.start()
        assert entered.wait(30)
        # One is inside, so two more do not fit; other routes go on.
        two = running.http.post("/v1/search/image", files=[("image", picture(2)), ("image", picture(3))])
        assert (two.status_code, two.json()["error"]["code"]) == (503, "busy")
        assert int(two.headers["retry-after"]) >= 1
        assert running.http.get("/v1/items/3/similar").status_code == 200
        assert 'scdh_queue_length{kind="images"} 1.0' in running.http.get("/metrics").text
        go_on.set()
        waiting.join()
        assert answers[0].status_code == 200


def test_concurrent_uploads_are_encoded_together_with_the_codes_they_have_alone(shop):
    with hosted(Settings(f"{shop}/model", f"{shop}/photos.index")) as running:
        alone = [post_image(running, picture(seed)).json() for seed in range(8)]
        sizes, entered, go_on = [], threading.Event(), threading.Event()
        run = running.service.encoder._batcher._work

        def blocked(items):
            sizes.append(len(items))
            entered.set()
            assert go_on.wait(30)
            return run(items)

        running.service.encoder._batcher._work = blocked
        together = [None] * 8
        threads = [
            threading.Thread(target=lambda n=n: together.__setitem__(n, post_image(running, picture(n)).json()))
            for n in range(8)
        ]
        threads[0].start()
        assert entered.wait(30)
        for thread in threads[1:]:
            thread.start()
        deadline = time.monotonic() + 30
        while len(running.service.encoder._batcher._waiting) < 7 and time.monotonic() < deadline:
            time.sleep(0.01)
        go_on.set()
        for thread in threads:
            thread.join()
        assert sizes == [1, 7]
        assert together == alone


def test_what_takes_too_long_is_broken_off(shop):
    limited = with_limits(Settings(f"{shop}/model", f"{shop}/photos.index"), request_seconds=0.3, body_seconds=0.3)
    with hosted(limited) as running:
        run = running.service._find._work
        running.service._find._work = lambda items: (time.sleep(1), run(items))[1]
        answer = running.http.get("/v1/items/3/similar")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "timeout")
        # A body that does not arrive is the client's fault, whichever time is over first.
        answer = raw(running.port, HEAD + b"Content-Length: 1000\r\n\r\n--x\r\n")
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_client_that_goes_away_is_no_error_of_the_service(shop, caplog):
    with hosted(Settings(f"{shop}/model", f"{shop}/photos.index", token=TOKEN)) as running:
        more = f"Authorization: Bearer {TOKEN}\r\n".encode()
        for head in (HEAD, HEAD.replace(b"/v1/search/image", b"/v1/items") + more):
            with socket.create_connection(("127.0.0.1", running.port)) as connection:
                connection.sendall(head + b"Content-Length: 1000\r\n\r\n--x\r\n")
                time.sleep(0.1)
        deadline = time.monotonic() + 30
        while running.http.get("/metrics").text.count('status="4') < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        text = running.http.get("/metrics").text
        assert 'status="5' not in text
        assert 'route="/v1/items",status="499"' in text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_an_address_with_a_slash_too_many_is_not_there(site):
    answer = site.http.get("/v1/info/", headers={"host": "evil.example"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert "location" not in answer.headers


@pytest.mark.parametrize("problem", [errno.EMFILE, errno.ENOSPC])
def test_an_upload_that_cannot_be_stored_may_be_sent_again(writable, monkeypatch, problem):
    """It was answered with 400, or with 500 where items are added."""

    def fail(*_, **__):
        raise OSError(problem, "full")

    monkeypatch.setattr("starlette.formparsers.SpooledTemporaryFile", fail)
    with hosted(writable) as running:
        for path in ("/v1/search/image", "/v1/items"):
            headers = {"authorization": f"Bearer {TOKEN}"}
            answer = running.http.post(path, files={"image": picture(0)}, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy"), path


def test_a_bug_is_told_without_its_trace(shop):
    with hosted(Settings(f"{shop}/model", f"{shop}/photos.index")) as running:
        running.service._find._work = lambda items: 1 / 0
        answer = running.http.get("/v1/items/3/similar")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        assert "division" not in answer.text
        assert answer.headers["x-request-id"] in answer.json()["error"]["message"]
        assert running.http.get("/health").status_code == 200


def test_impossible_limits_are_rejected():
    with pytest.raises(ValueError, match="above 0"):
        Limits(batch=0)
    with pytest.raises(ValueError, match="raise the queue"):
        Limits(images=65)
    for token in ("short", "with a space in it", "né" * 10):
        with pytest.raises(ValueError, match="token"):
            Settings("m", "i", token=token)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(groups=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=5), max_size=12), largest=st.integers(1, 6))
def test_batches_keep_order_and_errors_concern_their_item_alone(groups, largest):
    """Each group of items gets its own results, whatever is computed together; 7 is rejected."""
    from concurrent.futures import ThreadPoolExecutor

    sizes = []

    def work(items):
        return [ValueError("seven") if item == 7 else 2 * item for item in items]

    async def go():
        with ThreadPoolExecutor(1) as pool:
            batcher = Batcher(work, pool, largest, sizes.append)
            results = await asyncio.gather(*(batcher.run(group) for group in groups), return_exceptions=True)
            await batcher.finish()
            return results

    for group, result in zip(groups, asyncio.run(go()), strict=True):
        if 7 in group:
            assert isinstance(result, ValueError)
        else:
            assert result == [2 * item for item in group]
    assert max(sizes, default=1) <= largest


def test_the_decoder_looks_at_the_header_first():
    from scdh.data.images.decode import decode
    from scdh.data.source import BadImage

    buffer = io.BytesIO()
    Image.new("RGB", (100, 100)).save(buffer, "PNG")
    assert decode(buffer.getvalue(), "x", most_pixels=10_000).size == (100, 100)
    with pytest.raises(BadImage, match=r"100 × 100 pixels, but the limit is 9,999"):
        decode(buffer.getvalue(), "x", most_pixels=9_999)


def test_others_are_answered_while_a_large_answer_is_made():
    results = [{"code": "00", "hits": [{"id": i, "distance": 0} for i in range(5)], "total": None}] * 20
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> bytes:
        other = asyncio.create_task(others())
        answer = await search_answer(results)
        other.cancel()
        return bytes(answer.body)

    assert json.loads(asyncio.run(run())) == {"results": results}
    assert turns >= 19


def test_too_many_images_are_counted_in_the_message(writable):
    files = [("image", picture(0))] * 17
    with hosted(writable) as running:
        for path in ("/v1/search/image", "/v1/items"):
            answer = running.http.post(path, files=files, headers={"authorization": f"Bearer {TOKEN}"})
            assert answer.status_code == 422, path
            assert answer.json()["error"]["message"] == "Send 1 to 16 images in the field 'image', got 17."


@pytest.mark.skipif(bool(missing_packages("openvino")), reason="openvino is not installed")
def test_no_batch_has_to_wait_for_a_compiler_after_warming_up(shop, monkeypatch):
    compiled = []
    real = ExportedNetwork._compiled

    def counted(self, batch, streams):
        compiled.append((batch, streams))
        return real(self, batch, streams)

    monkeypatch.setattr(ExportedNetwork, "_compiled", counted)
    monkeypatch.setattr("scdh.nets.export.graph.PIXELS", 4 * 16 * 16)  # full pieces have 4 images
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    for _ in range(2):  # after exporting, all is compiled to compare codes; after reading a kept export it is not
        compiled.clear()
        encoder = Encoder(Hasher.load(shop / "model"), Limits(batch=12), engine="openvino")
        encoder.warm()
    warmed = set(compiled)
    image = np.zeros((3, 16, 16), np.uint8)
    for count in range(1, 13):
        encoder._runner.submit(encoder._run, [image] * count).result()
    assert set(compiled) == warmed
    asyncio.run(encoder.close())


def test_a_slow_picture_that_is_asked_for_again_delays_no_other(shop, monkeypatch):
    """Its thumbnail is made once, even if the first client has given up."""
    slow, go_on, started = 3, threading.Event(), []
    settings = with_limits(Settings(f"{shop}/model", f"{shop}/photos.index", f"{shop}/photos"), request_seconds=1.5)
    with hosted(settings) as running, ThreadPoolExecutor(4) as pool:
        slow_row = running.service.pictures.row_of(running.http.get(f"/v1/items/{slow}").json()["name"])

        def thumbnail(row, side):
            if row == slow_row:
                started.append(row)
                go_on.wait(20)
            return b"a JPEG", "tag"

        monkeypatch.setattr(running.service.pictures, "thumbnail", thumbnail)
        address = "/v1/items/%d/thumbnail"
        try:
            for _ in range(2):
                asked = [pool.submit(running.http.get, address % slow) for _ in range(4)]
                assert {answer.result().status_code for answer in asked} == {503}
                assert running.http.get(address % 5).status_code == 200
            assert started == [slow_row]
        finally:
            go_on.set()
        wait_until(lambda: running.http.get(address % slow).status_code == 200)

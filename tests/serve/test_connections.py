"""Bounds on connections: trailers, pipelining, unread answers, idle floods, and the names of hosts and sites."""

import contextlib
import socket
import time

import pytest

from scdh.serve.http import guard
from scdh.serve.http.connections import MOST_PIPELINED
from scdh.serve.settings import Settings
from tests.serve.conftest import picture
from tests.serve.hosted import hosted, wait_until, with_limits
from tests.serve.test_limits import raw, resident_bytes

HEALTH = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LAST_HEALTH = HEALTH[:-2] + b"Connection: close\r\n\r\n"
CHUNKED = (
    b"POST /v1/search/code HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
)
QUERY = b'{"codes": ["0000"]}'
CHUNK = b"%x\r\n%s\r\n" % (len(QUERY), QUERY)


@pytest.fixture(scope="module")
def local(shop):
    """A service that answers to the names of this machine only."""
    plain = Settings(
        f"{shop}/model", f"{shop}/photos.index", hosts=("127.0.0.1", "::1"), origins=("https://a.example",)
    )
    with hosted(with_limits(plain, connections=40, request_seconds=3, body_seconds=3)) as running:
        yield running


def test_a_chunked_body_without_trailers_is_answered(local):
    assert raw(local.port, CHUNKED + CHUNK + b"0\r\n\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("trailer", [b"X: y", b"Host: evil.example", b"Authorization: Bearer a"])
def test_trailers_are_rejected(local, trailer):
    """They were merged into the headers after these had been checked."""
    answer = raw(local.port, CHUNKED + CHUNK + b"0\r\n" + trailer + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"Trailers" in answer


@pytest.mark.parametrize(("start", "filler"), [(b"0\r\n", b"x: y\r\n"), (b"0\r\n", b"x" * 8), (b"1;", b"extension")])
def test_what_frames_a_chunked_body_takes_no_memory(local, start, filler):
    """Trailers of 300 MB took 1.7 GB."""
    before = resident_bytes()
    with socket.create_connection(("127.0.0.1", local.port), timeout=60) as connection:
        connection.sendall(CHUNKED + start)
        with pytest.raises(OSError, match=r"reset|pipe"):
            send_megabytes(connection, filler, 300)
    assert resident_bytes() - before < 50e6


def send_megabytes(connection: socket.socket, filler: bytes, count: int) -> None:
    block = filler * (1_000_000 // len(filler))
    for _ in range(count):
        connection.sendall(block)


def test_some_requests_may_be_pipelined(local):
    answer = raw(local.port, HEALTH * (MOST_PIPELINED // 2) + LAST_HEALTH)
    assert answer.count(b"HTTP/1.1 200") == MOST_PIPELINED // 2 + 1


def test_endless_pipelining_delays_no_other_request_and_takes_no_memory(local):
    """Other requests waited for 6 s, because all of these were answered before them."""
    before, answered = resident_bytes(), local.server.server_state.total_requests
    with contextlib.ExitStack() as stack:
        senders = [
            stack.enter_context(socket.create_connection(("127.0.0.1", local.port), timeout=60)) for _ in range(8)
        ]
        for sender in senders:
            sender.setblocking(False)
        for _ in range(20):
            for sender in senders:
                with contextlib.suppress(OSError):
                    sender.send(HEALTH * 20_000)
            assert local.http.get("/health").status_code == 200
    assert local.server.server_state.total_requests - answered <= 20 + len(senders) * 2 * MOST_PIPELINED
    assert resident_bytes() - before < 50e6


def test_checks_do_not_wait_for_a_body(local, monkeypatch):
    """Each kept its place for a second, so a few clients made ``/health`` answer 503."""
    monkeypatch.setattr(guard, "DRAIN_SECONDS", 1000)
    with socket.create_connection(("127.0.0.1", local.port), timeout=60) as connection:
        connection.sendall(HEALTH[:-2] + b"Content-Length: 10\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_bodies_are_bounded_together(shop):
    """256 forms of 20 MB took gigabytes."""
    plain = Settings(f"{shop}/model", f"{shop}/photos.index")
    with hosted(with_limits(plain, bodies=1 << 20, upload=1 << 20)) as running:
        bodies = running.server.config.app._bodies
        start = (
            b"POST /v1/search/image HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=x\r\n"
            b"Content-Length: 1000000\r\n\r\n--x\r\n"
        )
        with socket.create_connection(("127.0.0.1", running.port), timeout=60) as first:
            first.sendall(start + b'Content-Disposition: form-data; name="k"\r\n\r\n' + b"a" * 900_000)
            wait_until(lambda: bodies.inside > 800_000)
            answer = running.http.post("/v1/search/image", files={"image": b"a" * 900_000})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")
            assert "retry-after" in answer.headers
            small = running.http.post("/v1/search/image", files={"image": picture(0)})
            assert small.status_code == 200
        wait_until(lambda: bodies.inside == 0)


def test_a_client_that_does_not_read_is_disconnected(shop):
    """Its answer was kept for as long as the connection was open, which was for ever."""
    plain = Settings(f"{shop}/model", f"{shop}/photos.index")
    with hosted(with_limits(plain, request_seconds=1, body_seconds=1)) as running:
        running.service.search_codes = large_answer
        body = b'{"codes": ["0000"], "k": 1}'
        head = (
            b"POST /v1/search/code HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        )
        with socket.create_connection(("127.0.0.1", running.port), timeout=10) as connection:
            connection.sendall(head % len(body) + body)
            deadline = time.monotonic() + 120
            while len(running.server.server_state.connections) == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            while len(running.server.server_state.connections) > 0 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert time.monotonic() < deadline


async def large_answer(*_):
    return [{"code": "0" * 50_000_000, "hits": [], "total": None}]


def test_unread_answers_are_bounded_together(shop):
    plain = Settings(f"{shop}/model", f"{shop}/photos.index")
    with hosted(with_limits(plain, answers=1 << 20)) as running:
        running.service.search_codes = large_answer
        answer = running.http.post("/v1/search/code", json={"codes": ["0000"]})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "busy")


def test_idle_connections_make_room_for_new_ones(local):
    """1,000 silent connections made ``/health`` answer 503 for ten seconds."""
    idle = [socket.create_connection(("127.0.0.1", local.port), timeout=10) for _ in range(60)]
    try:
        assert raw(local.port, LAST_HEALTH).startswith(b"HTTP/1.1 200")
    finally:
        for one in idle:
            one.close()


@pytest.mark.parametrize("host", ["127.0.0.1:80@evil", "[::1]evil.example", "[::1", "127.0.0.1 evil", "127.0.0.1:x"])
def test_a_host_that_only_looks_like_this_machine_is_rejected(local, host):
    answer = raw(local.port, LAST_HEALTH.replace(b"127.0.0.1", host.encode()))
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 421"))


def test_two_hosts_are_rejected(local):
    answer = raw(local.port, LAST_HEALTH.replace(b"\r\n\r\n", b"\r\nHost: evil.example\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 400")
    assert raw(local.port, LAST_HEALTH.replace(b"127.0.0.1", b"[::1]:80")).startswith(b"HTTP/1.1 200")


def test_a_broken_chunk_is_answered_in_json(local):
    answer = raw(local.port, CHUNKED + b"zz\r\n")
    assert answer.startswith(b"HTTP/1.1 400")
    assert b'{"error": {"code": "bad_request"' in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:1"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://behind.a.proxy"}, 200),
        ({"origin": "https://a.example"}, 200),
        ({"sec-fetch-site": "cross-site", "origin": "https://a.example"}, 200),
    ],
)
def test_pages_of_other_sites_may_not_send_bodies(local, headers, status):
    answer = local.http.post("/v1/search/code", json={"codes": ["0000"]}, headers=headers)
    assert answer.status_code == status
    own = local.http.post("/v1/search/code", json={"codes": ["0000"]}, headers={"origin": local.url})
    assert own.status_code == 200


@pytest.mark.parametrize("charset", ["punycode", "utf-7", "idna", "klingon", '"utf-16"'])
def test_forms_are_utf_8(local, charset):
    """Decoding 400 KB of punycode took six seconds, in which no other request was answered."""
    body = b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\na-' + b"b" * 400_000 + b"\r\n--x--\r\n"
    headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    assert local.http.post("/v1/search/image", content=body, headers=headers).status_code == 415


def test_utf_8_may_be_named(local):
    headers = {"content-type": "multipart/form-data; boundary=x; charset=UTF-8"}
    assert local.http.post("/v1/search/image", content=b"--x--\r\n", headers=headers).status_code == 422

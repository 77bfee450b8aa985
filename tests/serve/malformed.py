"""Requests that no honest client sends, made up from a seed: each is bytes for a socket, in the order they are sent."""

import io
import json
import random
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from scdh.data.images.formats import FORMATS
from tests.data.data_files import encoded

TOKEN = "a-token-for-malformed-uploads"
SEARCH, ITEMS = "/v1/search/image", "/v1/items"
# What a service may say to a request that is wrong; anything else is an error of the service.
ERRORS = frozenset({400, 401, 403, 404, 405, 408, 409, 413, 415, 421, 422, 431, 503})


@dataclass(frozen=True)
class Malformed:
    """A request.

    Args:
        kind: what is wrong with it.
        parts: bytes, sent one after the other.
        pause: seconds between two parts.
        may_close: whether the service may close the connection without an answer, because there is none for this, or
            because it does not wait for what it has rejected.
        hangs_up: whether the client goes away without waiting for an answer.
        half_closes: whether the client says, after the last part, that no more will come.
        waits: whether the service may wait for more, so that an answer comes only when its time is over.
    """

    kind: str
    parts: tuple[bytes, ...]
    pause: float = 0.0
    may_close: bool = False
    hangs_up: bool = False
    half_closes: bool = False
    waits: bool = False

    @property
    def is_slow(self) -> bool:
        return self.waits or self.pause > 0


def unfinished(rng: random.Random, kind: str, content: bytes) -> Malformed:
    """A request of which more may be to come; mostly the client says that it is not."""
    half_closes = rng.random() < 0.8
    return Malformed(kind, (content,), may_close=True, half_closes=half_closes, waits=not half_closes)


def png(width: int, height: int, data: bytes = b"", extra: bytes = b"") -> bytes:
    """A PNG that says it has this size; ``extra`` are further chunks."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def webp(width: int, height: int) -> bytes:
    canvas = b"VP8X" + struct.pack("<I", 10) + bytes(4)
    canvas += (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF" + struct.pack("<I", 4 + len(canvas)) + b"WEBP" + canvas


def tiff(width: int, height: int) -> bytes:
    """A TIFF of one strip that says it has this size."""
    tags = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (278, 4, height)]
    tags += [(279, 4, min(width * height, (1 << 32) - 1))]
    entries = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(4)


def many_scans(side: int, scans: int) -> bytes:
    """A progressive JPEG whose last scan is there many times; each makes the decoder go through all pixels."""
    buffer = io.BytesIO()
    Image.new("L", (side, side)).save(buffer, "JPEG", progressive=True)
    content = buffer.getvalue()
    start, end = content.rindex(b"\xff\xda"), content.rindex(b"\xff\xd9")
    return content[:start] + content[start:end] * scans + content[end:]


def with_second_picture(jpeg: bytes) -> bytes:
    """A JPEG that says that another picture follows, which Pillow calls MPO."""
    buffer, small = io.BytesIO(), Image.new("L", (8, 8))
    small.save(buffer, "MPO", save_all=True, append_images=[small])
    content = buffer.getvalue()
    start = content.index(b"\xff\xe2")
    end = start + 2 + int.from_bytes(content[start + 2 : start + 4], "big")
    return jpeg[:2] + content[start:end] + jpeg[2:]


def in_a_box(kind: str, width: int, height: int) -> bytes:
    """A small AVIF or HEIC that says it has this size; empty without a reader of this format."""
    if kind not in FORMATS:
        return b""
    content = encoded(0, (64, 64), kind)
    size = struct.pack(">II", 64, 64)
    return content.replace(b"ispe\0\0\0\0" + size, b"ispe\0\0\0\0" + struct.pack(">II", width, height))


def bmp_row(width: int) -> bytes:
    """A run-length encoded BMP of one row."""
    runs = b"\xff\x00" * 500
    head = struct.pack("<IiiHHIIiiII", 40, width, 1, 1, 8, 1, len(runs), 1, 1, 256, 0)
    start = 14 + len(head) + 1024
    return b"BM" + struct.pack("<IHHI", start + len(runs), 0, 0, start) + head + bytes(1024) + runs


def _largest() -> bytes:
    """A small file of as many pixels as the service decodes at all (7,000²), all of one colour."""
    buffer = io.BytesIO()
    Image.new("RGB", (7000, 7000)).save(buffer, "PNG")
    return buffer.getvalue()


LARGEST = _largest()
BOMBS = {
    "png": png(30_000, 30_000, zlib.compress(bytes(10_000_000), 9)),
    "png above Pillow's limit": png(60_000, 60_000),
    "png with a huge text": png(10, 10, b"", chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(50_000_000), 9))),
    "png with a huge profile": png(10, 10, b"", chunk(b"iCCP", b"a\0\0" + zlib.compress(bytes(50_000_000), 9))),
    "png with a chunk that never ends": png(10, 10)[:33] + struct.pack(">I", 0xFFFFFFFF) + b"IDAT" + bytes(4),
    "webp": webp(16_000, 16_000),
    "gif": b"GIF89a" + struct.pack("<HH", 65_535, 65_535) + b"\x00\x00\x00,\x00\x00\x00\x00" + b"\xff" * 8,
    "bmp": b"BM" + bytes(12) + struct.pack("<IiiHHIIiiII", 40, 40_000, 40_000, 1, 24, 0, 0, 1, 1, 0, 0),
    "bmp of one row": bmp_row(50_000_000),
    "jpeg of many scans": many_scans(2000, 2000),
    "mpo of many scans": with_second_picture(many_scans(2000, 2000)),
    "avif": in_a_box("AVIF", 30_000, 30_000),
    "heic": in_a_box("HEIF", 30_000, 30_000),
    "avif of 4 G pixels a side": in_a_box("AVIF", 0xFFFFFFFF, 0xFFFFFFFF),
    "heic of 4 G pixels a side": in_a_box("HEIF", 0xFFFFFFFF, 0xFFFFFFFF),
    "ppm": b"P6 50000 50000 255\n",
    "tiff": tiff(60_000, 60_000),
    "tiff of 4 G pixels a side": tiff(0xFFFFFFFF, 0xFFFFFFFF),
    "jpeg": encoded(0, (40, 30), "JPEG").replace(b"\x00\x1e\x00\x28\x03", b"\xff\xff\xff\xff\x03"),
}
OVERFULL = png(10, 10, zlib.compress(bytes(50_000_000), 9))  # a picture, with more data than it has pixels
OTHER_TYPES = (
    b"%PDF-1.4\n%\xe2\xe3\xcf\xd3",
    b"<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>",
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file",
    b"PK\x03\x04" + bytes(60),
    b"\x7fELF\x02\x01\x01" + bytes(60),
    b"<html><script>alert(1)</script></html>",
    b"\0\0\0\x20ftypisom" + bytes(60),
    b"#!/bin/sh\nrm -rf /\n",
    b"push graphic-context\nimage over 0,0 0,0 'https://example.org/x'\n",
    "naïve text".encode("utf-16"),
)


def head(
    path: str, kind: str, length: object, *, host: str = "127.0.0.1", method: str = "POST", more: str = ""
) -> bytes:
    text = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}\r\n"
    return text.encode("utf-8", "surrogateescape")


def form(*files: bytes, field: str = "image", name: str = "a.jpg", boundary: str = "x") -> bytes:
    start = f'--{boundary}\r\nContent-Disposition: form-data; name="{field}"; filename="{name}"\r\n\r\n'.encode()
    return b"".join(start + file + b"\r\n" for file in files) + f"--{boundary}--\r\n".encode()


def upload(rng: random.Random, *files: bytes, name: str = "a.jpg") -> tuple[bytes, ...]:
    """A whole request with these files, to a search or, with the token, as new items."""
    body = form(*files, name=name)
    kind = "multipart/form-data; boundary=x"
    path = SEARCH if rng.random() < 0.8 else ITEMS
    return (head(path, kind, len(body), more=f"Authorization: Bearer {TOKEN}\r\n") + body,)


def some_picture(rng: random.Random) -> bytes:
    return encoded(rng.randrange(50), (rng.randrange(1, 60), rng.randrange(1, 60)), rng.choice(FORMATS))


def truncated(rng: random.Random) -> Malformed:
    content = some_picture(rng)
    return Malformed("truncated image", upload(rng, content[: rng.randrange(len(content))]))


def damaged(rng: random.Random) -> Malformed:
    """Some bytes changed, or another file put into the middle."""
    content = bytearray(some_picture(rng))
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(content))
        way = rng.randrange(3)
        if way == 0:
            for _ in range(rng.randrange(1, 20)):
                content[rng.randrange(len(content))] = rng.randrange(256)
        elif way == 1:
            content[place : place + 4] = b"\xff\xff\xff\xff"
        else:
            content[place:place] = some_picture(rng)[:200]
    return Malformed("damaged image", upload(rng, bytes(content)))


def bomb(rng: random.Random) -> Malformed:
    # What is decoded after all takes a second, so it is rare.
    content = LARGEST if rng.random() < 0.03 else rng.choice([*BOMBS.values(), OVERFULL])
    return Malformed("bomb", upload(rng, content))


def wrong_type(rng: random.Random) -> Malformed:
    content = rng.choice(OTHER_TYPES) + rng.randbytes(rng.randrange(200))
    return Malformed("wrong type", upload(rng, content, name=rng.choice(["a.png", "../../a", "a.svg", "%00", "é.jpg"])))


def empty(rng: random.Random) -> Malformed:
    kind = "multipart/form-data; boundary=x"
    ways = (upload(rng, b""), (head(SEARCH, kind, 0),), upload(rng, b"", b"", b""), (head(ITEMS, kind, 0),))
    return Malformed("0 bytes", rng.choice(ways))


def many_parts(rng: random.Random) -> Malformed:
    way = rng.randrange(3)
    if way == 0:
        return Malformed("many parts", upload(rng, *[b"x"] * rng.randrange(17, 400)))
    field = b'--x\r\nContent-Disposition: form-data; name="' + (b"k" if way == 1 else b"k" * 5000) + b'"\r\n\r\nv\r\n'
    body = field * rng.randrange(100, 3000 if way == 1 else 200) + form(some_picture(rng))
    return Malformed("many parts", (head(SEARCH, "multipart/form-data; boundary=x", len(body)) + body,), may_close=True)


def huge_headers(rng: random.Random) -> Malformed:
    size = rng.randrange(60_000, 300_000)
    more = rng.choice(
        [
            "X: " + "y" * size,
            "\r\n".join(f"X{n}: y" for n in range(size // 10)),
            "x" * size + ": y",
            "Cookie: " + "a=b;" * (size // 4),
        ]
    )
    ways = (
        head(SEARCH, "multipart/form-data; boundary=x", 0, more=f"{more}\r\n"),
        f"GET /{'a' * size} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
        head(SEARCH, f"multipart/form-data; boundary={'b' * size}", 0),
        f"GET /v1/items/1/similar?label={'a' * size} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode(),
    )
    return Malformed("huge headers", (rng.choice(ways),), may_close=True)


def wrong_length(rng: random.Random) -> Malformed:
    """The length is not that of the body, or not a number, or there are two."""
    body = form(some_picture(rng))
    kind = "multipart/form-data; boundary=x"
    length = rng.choice([len(body) // 2, 1, -1, "", "ten", "0x10", "1e3", 10**12, 10**30, "5, 6", "+5", "٥", 1 << 63])
    more = rng.choice(
        ["", "", "Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: gzip\r\n"]
    )
    return unfinished(rng, "wrong content-length", head(SEARCH, kind, length, more=more) + body)


def wrong_chunks(rng: random.Random) -> Malformed:
    body = form(some_picture(rng))
    start = f"POST {SEARCH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    start += "Transfer-Encoding: chunked\r\n\r\n"
    size = rng.choice(
        [b"%x" % len(body), b"%x" % (len(body) // 2), b"ffffffffffffffff", b"-5", b"zz", b"", b"0" * 5000 + b"5"]
    )
    end = rng.choice([b"\r\n0\r\n\r\n", b"\r\n0\r\nX: " + b"y" * 9000 + b"\r\n\r\n", b"", b"\r\n", b"0\r\n\r\n"])
    return unfinished(rng, "broken chunks", start.encode() + size + b"\r\n" + body + end)


def with_trailers(rng: random.Random) -> Malformed:
    """Headers after a chunked body."""
    body = b'{"codes": ["0000"]}'
    trailer = rng.choice([b"Host: evil.example", b"Authorization: Bearer x", b"X: " + b"y" * rng.randrange(200_000)])
    start = b"POST /v1/search/code HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n" % (len(body), body)
    repeated = (trailer + b"\r\n") * rng.choice([1, 2, 500])
    return Malformed("trailers", (start + chunks + repeated + b"\r\n",), may_close=True)


def odd_charset(rng: random.Random) -> Malformed:
    """A form in an encoding that takes long to decode, or does not exist."""
    text = rng.choice([b"a-" + b"b" * 200_000, b"xn--" * 20_000, b"+AAA" * 20_000, rng.randbytes(1000)])
    body = b'--x\r\nContent-Disposition: form-data; name="k"\r\n\r\n' + text + b"\r\n--x--\r\n"
    charset = rng.choice(["punycode", "idna", "utf-7", "unicode_escape", "rot13", "zlib", "cp037", "klingon"])
    return Malformed(
        "charset", (head(SEARCH, f"multipart/form-data; boundary=x; charset={charset}", len(body)) + body,)
    )


def pipelined(rng: random.Random) -> Malformed:
    """Many requests at once, of which the answers may not be read."""
    path = rng.choice(["/health", "/metrics", "/v1/info", "/v1/items/1/similar"])
    requests = head(path, "text/plain", 0, method="GET") * rng.choice([5, 40, 2000])
    return Malformed("pipelined", (requests,), may_close=True, hangs_up=rng.random() < 0.5)


def from_another_site(rng: random.Random) -> Malformed:
    """What a page of another web site can make a browser send."""
    more = rng.choice(["Origin: https://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"])
    body = form(some_picture(rng))
    return Malformed("other site", (head(SEARCH, "multipart/form-data; boundary=x", len(body), more=more) + body,))


def bad_multipart(rng: random.Random) -> Malformed:
    body = bytearray(form(some_picture(rng)))
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(90) if rng.random() < 0.8 else rng.randrange(len(body))
        body[place] = rng.randrange(256)
    content = bytes(body[: rng.randrange(len(body))] if rng.random() < 0.5 else body)
    boundary = rng.choice(["x", "x", "x", "y", "", "x; charset=klingon", "é", '"', "x" * 200, "\udcff"])
    kinds = (f"multipart/form-data; boundary={boundary}", "multipart/form-data", "multipart/mixed; boundary=x", "")
    return Malformed("bad multipart", (head(SEARCH, rng.choice(kinds), len(content)) + content,), may_close=True)


def junk_json(rng: random.Random) -> Malformed:
    """JSON of another form, text that is not JSON or not UTF-8, or nested beyond reason."""
    path = rng.choice(["/v1/search/code", "/v1/search/vector", ITEMS])
    key = {"/v1/search/code": "codes", "/v1/search/vector": "vectors", ITEMS: "items"}[path]
    number = rng.choice(
        ["9" * 5000, "-" + "9" * 400, "1e999", "-1e-999", "0x10", "NaN", "Infinity", "1" + "0" * 400 + ".5"]
    )
    body: bytes = rng.choice(
        [
            lambda: b"",
            lambda: b"{",
            lambda: b"null",
            lambda: rng.randbytes(rng.randrange(1, 300)),
            lambda: b'{"%s": ["\xff\xfe\xed\xa0\x80"]}' % key.encode(),
            lambda: b'{"%s": ["\\ud800"]}' % key.encode(),
            lambda: b"[" * rng.choice([100, 10_000, 200_000]),
            lambda: b'{"a":' * rng.choice([100, 50_000]) + b"1" + b"}" * 100,
            lambda: f'{{"{key}": [{number}], "k": {number}}}'.encode(),
            lambda: f'{{"{key}": [[{number}]], "radius": {number}}}'.encode(),
            lambda: b'{"%s": [' % key.encode() + b",".join([rng.choice([b"{}", b"[0]", b'""'])] * 300_000) + b"]}",
            lambda: json.dumps({key: [["a"] * 3, {}, None, "zz", -1], "rank": rng.choice([1, None, "both"])}).encode(),
            lambda: json.dumps({key: ["00" * rng.randrange(1, 9000)] * rng.randrange(1, 300)}).encode(),
            lambda: json.dumps({key: [[0.5] * 5], "rank": "outputs", "radius": 2}).encode(),
            lambda: json.dumps(
                {key: [{"code": "0000", "name": "n" * 2000, "labels": ["l"] * 50, "id": 1 << 70}]}
            ).encode(),
            lambda: json.dumps("x" * 100_000).encode("utf-16"),
            lambda: b'{"%s": ["0000"], "labels": ["%s"]}' % (key.encode(), b"\\u0000" * 300),
        ]
    )()
    kind = rng.choice(["application/json"] * 4 + ["text/plain", "application/json; charset=utf-16", "application/xml"])
    return Malformed("junk JSON", (head(path, kind, len(body), more=f"Authorization: Bearer {TOKEN}\r\n") + body,))


def wrong_address(rng: random.Random) -> Malformed:
    value = rng.choice(
        [
            "-1",
            "0",
            "9" * 400,
            "1e9",
            "%00",
            "%ff%fe",
            "NaN",
            "",
            "1;drop table",
            "../../etc/passwd",
            "%F0%9F%92%A9",
            "[]",
        ]
    )
    path = rng.choice(
        [
            f"{SEARCH}?k={value}",
            f"{SEARCH}?radius={value}",
            f"{SEARCH}?rank={value}",
            f"{SEARCH}?label={value}&label={value}",
            f"{SEARCH}?" + "&".join(["k=1"] * 3000),
            f"/v1/items/{value}",
            f"/v1/items/{value}/similar",
            f"/v1/items/{value}/thumbnail",
            f"/v1/codes?id={value}",
            f"/{value}",
        ]
    )
    method = rng.choice(["POST", "GET", "DELETE", "PUT", "HEAD", "TRACE", "OPTIONS", "BREW"])
    body = form(some_picture(rng)) if method == "POST" else b""
    host = rng.choice(["127.0.0.1"] * 5 + ["evil.example", "[::1", "[::1]evil", "127.0.0.1:x", "127.0.0.1:80@evil", ""])
    more = f"Authorization: Bearer {TOKEN}\r\n"
    content = head(path, "multipart/form-data; boundary=x", len(body), host=host, method=method, more=more) + body
    return Malformed("wrong address", (content,), may_close=True)


def not_http(rng: random.Random) -> Malformed:
    content = rng.choice(
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + rng.randbytes(64),
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost 127.0.0.1\r\n\r\n",
            b"GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            b"\r\n" * 100,
            b"SSH-2.0-x\r\n\r\n",
            rng.randbytes(rng.randrange(1, 400)) + b"\r\n\r\n",
            b"GET \xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"\0" * 500 + b"\r\n\r\n",
        ]
    )
    return unfinished(rng, "no HTTP", content)


def hung_up(rng: random.Random) -> Malformed:
    """The client goes away in the middle."""
    (content,) = upload(rng, some_picture(rng), some_picture(rng))
    return Malformed("hung up", (content[: rng.randrange(1, len(content))],), may_close=True, hangs_up=True)


def too_large(rng: random.Random) -> Malformed:
    kind = "multipart/form-data; boundary=x"
    start = form(b"")[:-9]
    answer = head(SEARCH, kind, rng.choice([21 << 20, 1 << 31, 1 << 40])) + start + bytes(1000)
    json_head = head("/v1/search/code", "application/json", 5 << 20)
    return unfinished(rng, "too large", rng.choice([answer, json_head + b'{"codes": ["']))


def slow_body(rng: random.Random) -> Malformed:
    body = form(some_picture(rng))
    start = head(SEARCH, "multipart/form-data; boundary=x", len(body) + 5000) + body[: rng.randrange(1, len(body))]
    return Malformed("slow body", (start, *[b"-"] * 12), pause=rng.uniform(0.2, 0.4), may_close=True)


def slow_head(rng: random.Random) -> Malformed:
    start = b"" if rng.random() < 0.3 else head(SEARCH, "text/plain", 5)[: rng.randrange(1, 90)]
    return Malformed("slow head", (start, *[b"a"] * 30), pause=rng.uniform(0.3, 0.5), may_close=True)


Way = Callable[[random.Random], Malformed]
# How often each is sent, in parts of all.
WAYS: dict[Way, float] = {
    truncated: 20,
    damaged: 20,
    bomb: 8,
    wrong_type: 8,
    empty: 4,
    many_parts: 2,
    huge_headers: 6,
    wrong_length: 6,
    wrong_chunks: 4,
    with_trailers: 2,
    odd_charset: 2,
    pipelined: 2,
    from_another_site: 2,
    bad_multipart: 12,
    junk_json: 10,
    wrong_address: 6,
    not_http: 3,
    hung_up: 6,
    too_large: 3,
    slow_body: 1.0,
    slow_head: 0.5,
}


def some_request(rng: random.Random) -> Malformed:
    (way,) = rng.choices(list(WAYS), list(WAYS.values()))
    return way(rng)

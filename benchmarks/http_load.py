"""Requests over a few connections that stay open, as fast as they are answered.

A client of its own, because the usual ones take longer for a request than the service does.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Load:
    """What a load gave: seconds of each answer, and answers other than 200 by status (0: the connection broke)."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    errors: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Good answers per second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        """Milliseconds within which this share of the good answers came."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def request_bytes(port: int, path: str, body: bytes, kind: str) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def form_bytes(image: bytes) -> tuple[bytes, str]:
    """A form with one image, and its content type."""
    head = b'--x\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n'
    return head + image + b"\r\n--x--\r\n", "multipart/form-data; boundary=x"


def run_load(port: int, requests: Sequence[bytes], *, connections: int, seconds: float) -> Load:
    """Send whole requests in turn for some seconds; each connection sends the next one after an answer."""
    return asyncio.run(_run(port, requests, connections, seconds))


async def _run(port: int, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    load = Load()
    begun = time.perf_counter()
    turn = iter(range(1 << 62))

    async def work() -> None:
        reader = writer = None
        while True:
            number, start = next(turn), time.perf_counter()
            if start - begun >= seconds:
                break
            try:
                if writer is None or reader is None:
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(requests[number % len(requests)])
                status = await _answer(reader)
            except (OSError, asyncio.IncompleteReadError):
                status = 0
                reader = None
                writer = None
            if status == 200:
                load.latencies.append(time.perf_counter() - start)
            else:
                load.errors[status] = load.errors.get(status, 0) + 1
        if writer is not None:
            writer.close()

    await asyncio.gather(*(work() for _ in range(connections)))
    load.seconds = time.perf_counter() - begun
    return load


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])

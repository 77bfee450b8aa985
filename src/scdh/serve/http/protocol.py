"""Connections: a bounded number of them, and a bounded time for the head of a request.

uvicorn bounds the time between requests, but waits for ever for the rest of a head; the time of a body and of an answer
is bounded by ``guard``.
"""

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from scdh.serve.settings import Limits

MOST_HEAD_BYTES = 32 << 10


class PatientProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn with such bounds."""

    limits = Limits()
    _head_timer: asyncio.TimerHandle | None = None

    @classmethod
    def with_limits(cls, limits: Limits) -> type["PatientProtocol"]:
        return type("LimitedProtocol", (cls,), {"limits": limits})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self.send_error(503, "busy", "Too many connections are open; try again in a moment.")
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._is_idle():
            self._expect_head()
        super().data_received(data)
        if not self._is_idle():
            self._stop_timer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # What came behind the request, as the start of the next one, has its own time.
        if self._is_idle() and self.conn.trailing_data[0]:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self.send_error(400, "bad_request", "This is not a request of HTTP/1.1.")

    def send_error(self, status: int, code: str, message: str) -> None:
        """Answer without the application, and close."""
        content = json.dumps({"error": {"code": code, "message": message}}).encode()
        headers: list[Any] = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            (b"connection", b"close"),
        ]
        if status == 503:
            headers.append((b"retry-after", b"1"))
        try:
            for event in (
                h11.Response(status_code=status, headers=headers, reason=b""),
                h11.Data(data=content),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # an answer has begun already
        self.transport.close()

    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self._is_idle() and not self.transport.is_closing():
            self.send_error(408, "slow", f"No request arrived within {self.limits.head_seconds:g} seconds.")

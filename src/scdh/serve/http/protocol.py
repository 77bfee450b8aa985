"""Connections: a bounded number of them, and a bounded size and time for the head of a request.

uvicorn bounds the time between requests, but waits for ever for the rest of a head; the size and time of a body and of
an answer are bounded by ``guard``. httptools, which is written in C, parses requests where it is installed, else h11.
"""

import asyncio
import json
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from scdh.serve.settings import Limits

if TYPE_CHECKING or find_spec("httptools") is None:
    from uvicorn.protocols.http.h11_impl import H11Protocol as ParsedProtocol
else:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as ParsedProtocol

MOST_HEAD_BYTES = 64 << 10


class PatientProtocol(ParsedProtocol):
    """HTTP/1.1 of uvicorn with such bounds."""

    limits = Limits()
    _head_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0

    @classmethod
    def with_limits(cls, limits: Limits) -> type["PatientProtocol"]:
        return type("LimitedProtocol", (cls,), {"limits": limits})

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            self.send_error(503, "busy", "Too many connections are open; try again in a moment.")
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():  # what still comes after a refusal
            return
        if self._is_idle():
            self._expect_head()
            self._head_bytes += len(data)
        super().data_received(data)
        if not self._is_idle():
            self._stop_timer()
        elif self._head_bytes > MOST_HEAD_BYTES:
            self.send_error(431, "too_large", f"The head of a request may have at most {MOST_HEAD_BYTES:,} bytes.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self.send_error(400, "bad_request", "This is not a request of HTTP/1.1.")

    def send_error(self, status: int, code: str, message: str) -> None:
        """Answer without the application, and close."""
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self._is_idle():  # else an answer may have begun already
            content = json.dumps({"error": {"code": code, "message": message}})
            head = [
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                "content-type: application/json",
                f"content-length: {len(content)}",
                "connection: close",
                *(["retry-after: 1"] if status == 503 else []),
            ]
            self.transport.write("\r\n".join([*head, "", content]).encode("ascii"))
        self.transport.close()

    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self._give_up)

    def _stop_timer(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self._is_idle():
            self.send_error(408, "slow", f"No request arrived within {self.limits.head_seconds:g} seconds.")

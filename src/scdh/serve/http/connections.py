"""Bounds on the number of connections, and on what the service stores for each.

uvicorn bounds the time between requests, but waits forever for the rest of a head, merges the trailers of a chunked
body into the headers, queues any number of pipelined requests, and keeps answers that a client does not read. The size
and time of a body and of an answer are bounded in ``guard``.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from scdh.serve.settings import Limits

MOST_HEAD_BYTES = 64 << 10
MOST_PIPELINED = 32  # requests of one connection that wait for the answer to an earlier one


class _RejectedRequest(Exception):
    """Raised in a callback of the parser, which then stops."""


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with these bounds."""

    limits = Limits()
    _head_timer: asyncio.TimerHandle | None = None
    _bytes_without_body = 0  # since the connection was idle or a body made progress
    _idle_since = 0.0
    _blocked_since: float | None = None  # when the client stopped reading its answer
    _is_reading_body = False
    _mistake = "This is not a request of HTTP/1.1."
    _running: RequestResponseCycle | None = None

    @classmethod
    def with_limits(cls, limits: Limits) -> type["BoundedProtocol"]:
        return type("LimitedProtocol", (cls,), {"limits": limits})

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._idle_since = self.loop.time()
        if len(self.connections) > self.limits.connections and not self._close_idlest():
            self.send_error(503, "busy", "Too many connections are open; try again in a moment.")
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():  # more data after an error
            return
        if self._is_idle():
            self._expect_head()
        self._bytes_without_body += len(data)
        super().data_received(data)
        if not self._is_idle():
            self._stop_timer()
        if self._bytes_without_body > MOST_HEAD_BYTES:
            self.send_error(431, "too_large", f"The head of a request may have at most {MOST_HEAD_BYTES:,} bytes.")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_PIPELINED:
            self._reject(f"At most {MOST_PIPELINED} requests may wait on one connection.")
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers would be merged into the headers, after these have been checked.
        if self._is_reading_body:
            self._reject("Trailers after a chunked body are not accepted.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._is_reading_body = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # Only the request that is being answered resets the count; the bytes of queued requests count.
        if not self.pipeline:
            self._bytes_without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_reading_body = False
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGIApp) -> None:  # type: ignore[override]
        self._running = cycle
        super()._start_asgi_task(cycle, app)  # type: ignore[arg-type]

    def on_response_complete(self) -> None:
        if not self.pipeline:
            self._bytes_without_body = 0
        self._idle_since = self.loop.time()
        super().on_response_complete()
        if self.pipeline:  # super has resumed reading
            self.flow.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._abandon_requests()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        self.send_error(400, "bad_request", self._mistake)

    def send_error(self, status: int, code: str, message: str) -> None:
        """Answer without the application unless an answer has begun, and close."""
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self._is_idle() or not (self._running and self._running.response_started):
            content = json.dumps({"error": {"code": code, "message": message}})
            head = [
                f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                "content-type: application/json",
                f"content-length: {len(content)}",
                "connection: close",
                *(["retry-after: 1"] if status == 503 else []),
            ]
            self.transport.write("\r\n".join([*head, "", content]).encode("ascii"))
        self._abandon_requests()
        self.transport.close()

    def abort_if_blocked(self, now: float, patience: float) -> None:
        """End the connection of a client that has not read what was sent to it for ``patience`` seconds."""
        if not self.transport.get_write_buffer_size():
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        elif now - self._blocked_since > patience:
            self.transport.abort()

    def _reject(self, mistake: str) -> None:
        self._mistake = mistake
        raise _RejectedRequest

    def _close_idlest(self) -> bool:
        """Make room for a new connection: close the one that has been idle longest; False if all are in use."""
        idle = (one for one in self.connections if one is not self and one._is_idle())  # type: ignore[union-attr]
        idlest = min(idle, key=lambda one: one._idle_since, default=None)  # type: ignore[union-attr]
        if idlest is not None:
            self.connections.discard(idlest)
            idlest.transport.abort()  # type: ignore[union-attr]
        return idlest is not None

    def _abandon_requests(self) -> None:
        """The application learns that the client is gone, and requests that wait are not begun."""
        self.pipeline.clear()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()

    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._running is None or self._running.response_complete

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        self._head_timer = None
        if self._is_idle():
            self.send_error(408, "slow", f"No request arrived within {self.limits.head_seconds:g} seconds.")

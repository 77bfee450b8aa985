"""Around all routes: limits of size and time, headers for browsers, the log and the counters."""

import asyncio
import logging
import secrets
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scdh.serve.admission import Admission
from scdh.serve.http.answers import GONE, REQUEST_ID, answer_bug, error_answer
from scdh.serve.logs import log
from scdh.serve.refusals import Refusal, too_large
from scdh.serve.service import Service

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
ALWAYS = ("/health", "/ready", "/metrics")  # answered whatever else is going on
UPLOADS = ("/v1/search/image", "/v1/items")
# Before an answer, this much of a body that nobody wanted is read: a client that still sends would not see the answer.
DRAINED_BYTES, DRAIN_SECONDS = 1 << 20, 1.0


class BodyRefused(HTTPException):
    """A body that is too large or too slow, in the form that the framework passes on as it is."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.status, refusal.message, {"connection": "close"})
        self.refusal = refusal


class Guard:
    """The outermost layer.

    Args:
        app: the routes.
        service: its settings have the limits.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service, self._limits = app, service, service.settings.limits
        self._requests = Admission(self._limits.requests, "requests")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._body_limit(scope["path"]), self._limits.body_seconds)
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await self._answer(exchange)
        except TimeoutError:
            slow = Refusal(503, "timeout", "This took too long; try again, or ask for less at once.", retry_after=1)
            await exchange.refuse(exchange.too_slow() if exchange.awaits_body else slow)
        except Refusal as refusal:
            await exchange.refuse(refusal)
        except Exception as error:
            log("request failed", logging.ERROR, error, id=exchange.id)
            if not exchange.status:
                answer = await answer_bug(Request(exchange.scope), error)
                await answer(exchange.scope, receive, exchange.send)
        finally:
            self._record(exchange)

    async def _answer(self, exchange: "_Exchange") -> None:
        scope = exchange.scope
        self._check_host(Headers(scope=scope).get("host", ""))
        if scope["path"] in ALWAYS:
            await self._app(scope, exchange.receive, exchange.send)
            return
        if scope["path"].startswith("/v1/"):
            self._service.check_ready()
        exchange.check_length()
        with self._requests.admit():
            await self._app(scope, exchange.receive, exchange.send)

    def _body_limit(self, path: str) -> int:
        return self._limits.upload if path in UPLOADS else self._limits.json

    def _check_host(self, host: str) -> None:
        allowed = self._service.settings.hosts
        name = host.lower()
        name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if allowed is not None and name not in allowed:
            raise Refusal(421, "wrong_host", "This service does not answer under that name; see --allow-host.")

    def _record(self, exchange: "_Exchange") -> None:
        route = getattr(exchange.scope.get("route"), "path", None) or "other"
        seconds, method = time.perf_counter() - exchange.begun, exchange.method
        method = method if method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS") else "other"
        measures = self._service.measures
        measures.requests.labels(route, method, str(exchange.status or GONE)).inc()
        measures.seconds.labels(route).observe(seconds)
        log(
            "request",
            logging.DEBUG if route in ALWAYS else logging.INFO,
            id=exchange.id,
            client=(exchange.scope.get("client") or ("",))[0],
            method=method,
            route=route,
            status=exchange.status or GONE,
            milliseconds=round(1000 * seconds, 1),
            bytes=exchange.received,
        )


class _Exchange:
    """One request and its answer: counts the body, bounds its time, adds headers."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, limit: int, seconds: float) -> None:
        self._receive, self._send, self._limit = receive, send, limit
        # HEAD is answered as GET, of whose answer the server leaves out the body.
        self.method: str = scope["method"]
        self.scope = {**scope, "method": "GET"} if self.method == "HEAD" else scope
        self.id, self.begun, self.status, self.received = secrets.token_hex(8), time.perf_counter(), 0, 0
        self._seconds = seconds
        self.scope[REQUEST_ID] = self.id
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._is_read = self.awaits_body = False

    def check_length(self) -> None:
        """Refuse a body that is said to be too large, before any of it is read."""
        length = Headers(scope=self.scope).get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > self._limit:
            raise self._too_large()

    async def receive(self) -> Message:
        if self._is_read:
            return await self._receive()  # only whether the client is still there
        self.awaits_body = True
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            raise BodyRefused(self.too_slow()) from None
        self.awaits_body = False
        self.received += len(message.get("body", b""))
        self._is_read = message["type"] != "http.request" or not message.get("more_body", False)
        if self.received > self._limit:
            raise BodyRefused(self._too_large())
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers["x-request-id"] = self.id
            if not self._is_read and not await self._drain():
                headers["connection"] = "close"
            headers.setdefault("cache-control", "no-store")
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        if self.status:  # in the middle of an answer, which the server then breaks off
            return
        await error_answer(refusal)(self.scope, self._receive, self.send)

    async def _drain(self) -> bool:
        """Read what is left of a small body; False if more is left."""
        left = DRAINED_BYTES
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                while not self._is_read and left > 0:
                    message: dict[str, Any] = dict(await self._receive())
                    left -= len(message.get("body", b""))
                    self._is_read = message["type"] != "http.request" or not message.get("more_body", False)
        except TimeoutError:
            pass
        return self._is_read

    def too_slow(self) -> Refusal:
        return Refusal(408, "slow", f"The body did not arrive within {self._seconds:g} seconds.")

    def _too_large(self) -> Refusal:
        return too_large(f"The body of this request may have at most {self._limit:,} bytes.")

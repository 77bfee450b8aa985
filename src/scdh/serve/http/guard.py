"""Around all routes: limits of size and time, checks of where a request comes from, headers for browsers, the log and
the counters.
"""

import asyncio
import logging
import re
import secrets
import time
from typing import Any

from python_multipart.multipart import parse_options_header
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scdh.serve.admission import Admission
from scdh.serve.http.answers import DISCONNECTED, REQUEST_ID, answer_bug, error_answer
from scdh.serve.logs import log
from scdh.serve.request_errors import RequestError, busy, too_large
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
CHECKS = ("/health", "/ready", "/metrics")  # have their own slots, so that they are answered under load
MOST_CHECKS = 32
READING = ("GET", "HEAD", "OPTIONS")
HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]@:/\s]*)(:[0-9]{1,5})?", re.IGNORECASE)
PIECE_BYTES = 64 << 10  # of an answer that are handed to the connection at once
UNCOUNTED_BYTES = 64 << 10  # of each body, so that large ones keep no small one out
UPLOADS = ("/v1/search/image", "/v1/items")
# This much of an unwanted body is read before the answer, because a client that is still sending would not see it.
DRAINED_BYTES, DRAIN_SECONDS = 1 << 20, 1.0


class BodyRejected(HTTPException):
    """A body that is too large or too slow, in the form that the framework passes on as it is."""

    def __init__(self, error: RequestError) -> None:
        super().__init__(error.status, error.message, {"connection": "close"})
        self.cause = error


class Guard:
    """The outermost layer.

    Args:
        app: the routes.
        service: its settings have the limits.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service
        self._limits = service.settings.limits
        self._requests = Admission(self._limits.requests, "requests")
        self._checks = Admission(MOST_CHECKS, "checks")
        self._bodies = Admission(max(self._limits.bodies, self._limits.upload), "uploads")
        self._answers = Admission(self._limits.answers, "answers")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit, seconds = self._body_limit(scope["path"]), self._limits.body_seconds
        exchange = _Exchange(scope, receive, send, limit, seconds, self._bodies, self._answers)
        try:
            async with asyncio.timeout(self._limits.request_seconds):
                await self._answer(exchange)
        except TimeoutError:
            slow = RequestError(
                503, "timeout", "The request timed out; try again with a smaller request.", retry_after=1
            )
            await exchange.reject(exchange.too_slow() if exchange.awaits_body else slow)
        except RequestError as error:
            await exchange.reject(error)
        except Exception as error:
            log("request failed", logging.ERROR, error, id=exchange.id)
            if not exchange.status:
                answer = await answer_bug(Request(exchange.scope), error)
                await answer(exchange.scope, receive, exchange.send)
        finally:
            self._bodies.leave(exchange.held)
            self._record(exchange)

    async def _answer(self, exchange: "_Exchange") -> None:
        scope = exchange.scope
        headers = Headers(scope=scope)
        self._check_host(headers)
        if scope["path"] in CHECKS:
            with self._checks.admit():
                await self._app(scope, exchange.receive, exchange.send)
            return
        if exchange.method not in READING:
            self._check_site(headers)
            _check_charset(headers)
        if scope["path"].startswith("/v1/"):
            self._service.check_ready()
        exchange.check_length()
        with self._requests.admit():
            await self._app(scope, exchange.receive, exchange.send)

    def _body_limit(self, path: str) -> int:
        return self._limits.upload if path in UPLOADS else self._limits.json

    def _check_host(self, headers: Headers) -> None:
        given = headers.getlist("host")
        match = HOST.fullmatch(given[0]) if len(given) == 1 else None
        if given and match is None:
            raise RequestError(400, "bad_request", "A request must have one header Host with a name and a port.")
        name = "" if match is None else match[1].lower().strip("[]")
        allowed = self._service.settings.hosts
        if allowed is not None and name not in allowed:
            raise RequestError(421, "wrong_host", "This service does not answer under that name; see --allow-host.")

    def _check_site(self, headers: Headers) -> None:
        """Reject what a page of another web site sends: a form or a fetch needs no permission to be sent.

        Browsers send Sec-Fetch-Site over HTTPS and to this machine, and Origin always; other clients send neither.
        """
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is None and site is None:
            return
        allowed = self._service.settings.origins
        if "*" in allowed or (origin is not None and origin in allowed):
            return
        own = (f"http://{headers.get('host')}", f"https://{headers.get('host')}")
        if site not in ("same-origin", "none") if site is not None else origin not in own:
            message = "This service takes no requests from pages of other web sites; see --cors."
            raise RequestError(403, "other_site", message)

    def _record(self, exchange: "_Exchange") -> None:
        route = getattr(exchange.scope.get("route"), "path", None) or "other"
        seconds, method = time.perf_counter() - exchange.begun, exchange.method
        method = method if method in ("GET", "HEAD", "POST", "DELETE", "OPTIONS") else "other"
        measures = self._service.measures
        measures.requests.labels(route, method, str(exchange.status or DISCONNECTED)).inc()
        measures.seconds.labels(route).observe(seconds)
        log(
            "request",
            logging.DEBUG if route in CHECKS else logging.INFO,
            id=exchange.id,
            client=(exchange.scope.get("client") or ("",))[0],
            method=method,
            route=route,
            status=exchange.status or DISCONNECTED,
            milliseconds=round(1000 * seconds, 1),
            bytes=exchange.received,
        )


def _check_charset(headers: Headers) -> None:
    """Reject forms that are not UTF-8: the framework would decode them with any codec that the client names, some of
    which take quadratic time."""
    content_type = headers.get("content-type", "")
    if content_type.lower().startswith("multipart/"):
        charset = parse_options_header(content_type)[1].get(b"charset", b"utf-8")
        if charset.lower() not in (b"utf-8", b"utf8"):
            raise RequestError(415, "unsupported", "Send forms in UTF-8, without another charset.")


class _Exchange:
    """One request and its answer: counts the body, bounds its time, adds headers."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        limit: int,
        seconds: float,
        bodies: Admission,
        answers: Admission,
    ) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        # HEAD is answered as GET, of whose answer the server leaves out the body.
        self.method: str = scope["method"]
        self.scope = {**scope, "method": "GET"} if self.method == "HEAD" else scope
        self.id = secrets.token_hex(8)
        self.begun = time.perf_counter()
        self.status = 0
        self.received = 0
        self.held = 0  # bytes of the body that count among the bodies of all requests
        self._seconds = seconds
        self._bodies = bodies
        self._answers = answers
        self.scope[REQUEST_ID] = self.id
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._is_read = self.awaits_body = self._is_replaced = False

    def check_length(self) -> None:
        """Reject a body whose declared length is too large, before any of it is read."""
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
            raise BodyRejected(self.too_slow()) from None
        self.awaits_body = False
        self.received += len(message.get("body", b""))
        self._is_read = message["type"] != "http.request" or not message.get("more_body", False)
        if self.received > self._limit:
            raise BodyRejected(self._too_large())
        held = max(0, self.received - UNCOUNTED_BYTES)
        try:
            self._bodies.enter(held - self.held)
        except RequestError as error:
            raise BodyRejected(error) from None
        self.held = held
        return message

    async def send(self, message: Message) -> None:
        if self._is_replaced:
            return
        if message["type"] == "http.response.start":
            await self._send_start(message)
            return
        body = message.get("body", b"")
        if len(body) <= PIECE_BYTES:
            await self._send(message)
            return
        # Piece by piece, each when the client has read enough of those before it.
        with self._answers.admit(len(body)):
            for start in range(0, len(body), PIECE_BYTES):
                piece = body[start : start + PIECE_BYTES]
                more = message.get("more_body", False) or start + len(piece) < len(body)
                await self._send({**message, "body": piece, "more_body": more})

    async def _send_start(self, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        if int(headers.get("content-length", "0")) > max(PIECE_BYTES, self._answers.free):
            await self.reject(busy("unread answers"))
            self._is_replaced = True
            return
        self.status = message["status"]
        for name, value in HEADERS.items():
            headers[name] = value
        headers["x-request-id"] = self.id
        if not self._is_read and not await self._drain():
            headers["connection"] = "close"
        headers.setdefault("cache-control", "no-store")
        await self._send(message)

    async def reject(self, error: RequestError) -> None:
        if self.status:  # in the middle of an answer, which the server then ends
            return
        await error_answer(error)(self.scope, self._receive, self.send)

    async def _drain(self) -> bool:
        """Read what is left of a small body; False if more is left."""
        left = DRAINED_BYTES
        # Checks have few places, so they do not wait for a body.
        seconds = 0.0 if self.scope["path"] in CHECKS else DRAIN_SECONDS
        try:
            async with asyncio.timeout(seconds):
                while not self._is_read and left > 0:
                    message: dict[str, Any] = dict(await self._receive())
                    left -= len(message.get("body", b""))
                    self._is_read = message["type"] != "http.request" or not message.get("more_body", False)
        except TimeoutError:
            pass
        return self._is_read

    def too_slow(self) -> RequestError:
        return RequestError(408, "slow", f"The body did not arrive within {self._seconds:g} seconds.")

    def _too_large(self) -> RequestError:
        return too_large(f"The body of this request may have at most {self._limit:,} bytes.")

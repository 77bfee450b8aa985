"""Answers: JSON of plain values, and all errors in one form."""

import asyncio
import errno
import json
import logging
from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from scdh.serve.logs import log
from scdh.serve.request_errors import RequestError, busy, invalid

DISCONNECTED = 499  # a client that went away, in the log
REQUEST_ID = "scdh.request_id"  # where the scope of a request has its id


class Json(Response):
    """JSON of plain values; non-ASCII letters are escaped, so names may hold any text."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return _to_json(content)


async def search_answer(results: list[dict[str, Any]]) -> Response:
    """``{"results": […]}``, made query by query: of 256 queries with 1,000 hits each it takes half a second, in which
    other requests must be answered too."""
    parts: list[bytes] = []
    for result in results:
        if parts:
            await asyncio.sleep(0)
        parts.append(_to_json(result))
    return Response(b'{"results":[' + b",".join(parts) + b"]}", media_type=Json.media_type)


def _to_json(content: Any) -> bytes:
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def error_answer(error: RequestError, headers: Mapping[str, str] | None = None) -> Json:
    """``{"error": {"code", "message"}}``."""
    sent = dict(headers or {})
    if error.retry_after is not None:
        sent["retry-after"] = str(error.retry_after)
    if error.status == 401:
        sent["www-authenticate"] = "Bearer"
    content = {"error": {"code": error.code, "message": error.message}}
    return Json(content, error.status, headers=sent)


async def answer_request_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_answer(error)


async def answer_invalid(_: Request, error: Exception) -> Response:
    """Answer a body that pydantic rejects, in one sentence about the first mistake."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return error_answer(invalid("The body is not JSON."))
    if first["loc"][:2] == ("body", "image"):
        form = "Send images as files in the field 'image' of a form, as curl does with -F image=@photo.jpg."
        return error_answer(invalid(form))
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    reason = str(first["msg"]).removeprefix("Value error, ")
    reason = reason[:1].lower() + reason[1:]
    return error_answer(invalid(f"{place or 'The body'} is not accepted: {reason.rstrip('.')}."))


async def answer_http(request: Request, error: Exception) -> Response:
    """Answer errors that the framework raises."""
    assert isinstance(error, HTTPException)
    if isinstance(own := getattr(error, "cause", None), RequestError):
        return error_answer(own, error.headers)
    if isinstance(error.__cause__, OSError):
        return await answer_os_error(request, error.__cause__)
    known = {
        404: RequestError(404, "not_found", "This path does not exist; see /docs for the available paths."),
        405: RequestError(405, "method_not_allowed", "This path does not support the method; see /docs."),
    }
    unreadable = RequestError(error.status_code, "bad_request", "The request body cannot be read.")
    headers = {"allow": _methods_of(request)} if error.status_code == 405 else error.headers
    return error_answer(known.get(error.status_code, unreadable), headers)


async def answer_os_error(_: Request, error: Exception) -> Response:
    """No descriptor or no disk space for the files of a form."""
    if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT):
        raise error
    log("the body cannot be stored", logging.ERROR, reason=str(error))
    return error_answer(busy("files"))


def _methods_of(request: Request) -> str:
    """The methods of the address; the framework names those of one of its routes only."""

    def is_taken(method: str) -> bool:
        asked = {**request.scope, "method": method}
        return any(route.matches(asked)[0] is Match.FULL for route in request.app.routes)

    # The guard answers HEAD as GET.
    taken = {"GET": "GET, HEAD", "POST": "POST", "DELETE": "DELETE"}
    return ", ".join(shown for method, shown in taken.items() if is_taken(method))


async def answer_disconnected(_: Request, __: Exception) -> Response:
    """The client went away in the middle of its request; the status is for the log and the counters alone."""
    return Response(status_code=DISCONNECTED)


async def answer_bug(request: Request, _: Exception) -> Response:
    """Answer any other error; the guard writes it to the log."""
    request_id = request.scope.get(REQUEST_ID, "")
    message = f"This should not have happened; the log of the service says more under {request_id}."
    return error_answer(RequestError(500, "internal", message))

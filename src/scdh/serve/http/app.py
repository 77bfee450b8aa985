"""The ASGI application: routes, the page, and the guard around them."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from scdh._version import __version__
from scdh.serve.http import item_routes, overview_routes, search_routes, state_routes
from scdh.serve.http.answers import (
    answer_bug,
    answer_disconnected,
    answer_http,
    answer_invalid,
    answer_os_error,
    answer_request_error,
)
from scdh.serve.http.guard import Guard
from scdh.serve.http.static import page_routes
from scdh.serve.request_errors import RequestError
from scdh.serve.service import Service

ABOUT = 'Search by picture, embedding, code or item. Errors are `{"error": {"code", "message"}}`.'


def create_app(service: Service) -> ASGIApp:
    """The application of a service, which the caller starts and stops."""
    # The pages of FastAPI load scripts from other sites; /docs is our own.
    app = FastAPI(title="scdh", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    # An address with an extra slash does not exist; a redirect would use the host that the client names.
    app.router.redirect_slashes = False
    app.state.service = service
    reading = (state_routes.router, search_routes.router, item_routes.router, overview_routes.router)
    for router in (*reading, item_routes.writing):
        app.include_router(router)
    app.router.routes.extend(page_routes())
    app.add_exception_handler(RequestError, answer_request_error)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_http)
    app.add_exception_handler(ClientDisconnect, answer_disconnected)
    app.add_exception_handler(OSError, answer_os_error)
    app.add_exception_handler(Exception, answer_bug)
    guarded: ASGIApp = Guard(app, service)
    if service.settings.origins:
        guarded = CORSMiddleware(
            guarded,
            allow_origins=service.settings.origins,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["authorization", "content-type"],
            expose_headers=["retry-after", "x-request-id"],
        )
    return guarded

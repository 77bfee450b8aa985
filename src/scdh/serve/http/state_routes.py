"""The state of the service: health, readiness, counters, description."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from scdh.serve.http.answers import Json
from scdh.serve.http.bodies import Info, Status, errors
from scdh.serve.request_errors import starting, stopping
from scdh.serve.service import Service

router = APIRouter(tags=["state"])


@router.get("/health", response_model=Status)
async def health() -> Json:
    """Whether the process is alive."""
    return Json({"status": "ok"})


@router.get("/ready", response_model=Status, responses=errors())
async def ready(request: Request) -> Json:
    """Whether model and index are warm; 503 before that and while stopping."""
    service: Service = request.app.state.service
    if service.state != "ready":
        raise starting() if service.state == "starting" else stopping()
    return Json({"status": "ok"})


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request) -> Response:
    """Counters for Prometheus."""
    service: Service = request.app.state.service
    return Response(service.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@router.get("/v1/info", response_model=Info, responses=errors())
async def info(request: Request) -> Json:
    """The model, the index, its labels, and limits."""
    service: Service = request.app.state.service
    return Json(await service.info())

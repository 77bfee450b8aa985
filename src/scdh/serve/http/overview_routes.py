"""The whole collection as the page shows it: the map, some items, codes of many items."""

import asyncio
import hashlib
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from scdh.serve.http.answers import Json
from scdh.serve.http.bodies import Id, errors
from scdh.serve.http.search_routes import KNOWN_ONLY, LabelFilter
from scdh.serve.overview import Maps, codes_of, some_items
from scdh.serve.service import Service

router = APIRouter(prefix="/v1", tags=["collection"])
MOST_CODES = 100
_MAPS = "maps"


class MapAnswer(BaseModel):
    """Arrays are base64 of little-endian numbers, in the same order."""

    items: int = Field(description="Items of the index; a map has at most 100,000 of them.")
    points: int
    label_names: list[str] = Field(description="The most frequent ones first.")
    ids: str = Field(description="int64")
    x: str = Field(description="uint16")
    y: str = Field(description="uint16, upwards")
    labels: str = Field(description="int32, places in label_names; −1: none")


class SampleItem(BaseModel):
    id: int
    name: str
    labels: list[str]


class SampleAnswer(BaseModel):
    items: list[SampleItem]


class ItemCode(BaseModel):
    id: int
    code: str


class CodesAnswer(BaseModel):
    items: list[ItemCode]


@router.get("/map", response_model=MapAnswer, responses=errors(404))
async def collection_map(request: Request) -> Response:
    """Places of items on a plane, similar items close to each other. It is made on the first request, in seconds."""
    service: Service = request.app.state.service
    if not hasattr(request.app.state, _MAPS):
        setattr(request.app.state, _MAPS, Maps())
    maps: Maps = getattr(request.app.state, _MAPS)
    with service.hiding_index_errors():
        content = await maps.of(service.collection.now)
    headers = {"etag": f'"{hashlib.sha256(content).hexdigest()[:16]}"', "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="application/json", headers=headers)


@router.get("/sample", response_model=SampleAnswer, responses=errors(404, 422), dependencies=KNOWN_ONLY)
async def sample(
    request: Request,
    k: Annotated[int, Query(ge=1, le=200, description="Most items.")] = 24,
    label: LabelFilter = [],  # noqa: B006 - FastAPI copies it
    name: Annotated[str, Query(max_length=200, description="Only items with this text in their name.")] = "",
) -> Json:
    """A sample of items from the whole collection, to start a search from; or the first ones with a name like this."""
    service: Service = request.app.state.service
    with service.hiding_index_errors():
        return Json({"items": await asyncio.to_thread(some_items, service.collection.now, k, label, name)})


@router.get("/codes", response_model=CodesAnswer, responses=errors(422))
async def item_codes(
    request: Request,
    id: Annotated[list[Id], Query(min_length=1, max_length=MOST_CODES, description="Ids of items.")],
) -> Json:
    """The codes of items; unknown ids are left out."""
    service: Service = request.app.state.service
    with service.hiding_index_errors():
        return Json({"items": await asyncio.to_thread(codes_of, service.collection.now, id)})

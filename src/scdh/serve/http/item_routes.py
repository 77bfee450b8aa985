"""Items: their names, labels and pictures, similar items; adding and removing with a token."""

import hashlib
import hmac
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Security
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import UploadFile
from starlette.responses import Response

from scdh.serve.collection import Addition
from scdh.serve.http.answers import Json, search_answer
from scdh.serve.http.bodies import (
    LARGEST_ID,
    AddedItems,
    Id,
    Item,
    ItemsBody,
    Labels,
    Name,
    RemovedItem,
    SearchAnswer,
    errors,
    make_options,
    media_type,
    read_json,
)
from scdh.serve.http.search_routes import KNOWN_ONLY, K, LabelFilter, Radius, RankBy
from scdh.serve.pictures import LARGE_SIDE, SIDE
from scdh.serve.request_errors import RequestError, invalid
from scdh.serve.service import Service

router = APIRouter(prefix="/v1/items", tags=["items"])

ItemId = Annotated[int, Path(alias="id", ge=-LARGEST_ID - 1, le=LARGEST_ID, description="Id of an item.")]


@router.get("/{id}", response_model=Item, responses=errors(404, 422))
async def item(request: Request, item_id: ItemId) -> Json:
    """The description of an item."""
    service: Service = request.app.state.service
    return Json(await service.item(item_id))


@router.get("/{id}/similar", response_model=SearchAnswer, responses=errors(404, 422), dependencies=KNOWN_ONLY)
async def similar(
    request: Request,
    item_id: ItemId,
    k: K = None,
    radius: Radius = None,
    label: LabelFilter = [],  # noqa: B006 - FastAPI copies it
    rank: RankBy = "bits",
) -> Response:
    """The items nearest to an item, without itself."""
    service: Service = request.app.state.service
    options = make_options(k, radius, label, service.settings.limits.hits, rank, ("bits", "vectors"))
    return await search_answer(await service.search_item(item_id, options))


@router.get(
    "/{id}/thumbnail",
    response_class=Response,
    responses={200: {"content": {"image/jpeg": {}}}, **errors(404, 422)},
)
async def thumbnail(
    request: Request,
    item_id: ItemId,
    large: Annotated[bool, Query(description=f"At most {LARGE_SIDE} pixels instead of {SIDE}.")] = False,
) -> Response:
    """A small picture of an item, if the service has pictures."""
    service: Service = request.app.state.service
    content, tag = await service.thumbnail(item_id, LARGE_SIDE if large else SIDE)
    headers = {"etag": f'"{tag}"', "cache-control": "private, max-age=60"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type="image/jpeg", headers=headers)


class WriteRoute(APIRoute):
    """The token is checked before the body is read, so only clients with a token can make the service read uploads."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def checked(request: Request) -> Response:
            check_token(request.app.state.service.settings.token, request.headers.get("authorization", ""))
            return await handle(request)

        return checked


def check_token(token: str | None, header: str) -> None:
    """RequestError unless the header ``Authorization`` has the token; takes as long for any wrong one."""
    if token is None:
        raise RequestError(403, "read_only", "This service takes no changes, as it was started without a token.")
    kind, _, given = header.partition(" ")
    digests = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given.strip(), token)]
    if not hmac.compare_digest(*digests) or kind.lower() != "bearer":
        raise RequestError(401, "unauthorized", "Changes need the header 'Authorization: Bearer' with the right token.")


writing = APIRouter(
    prefix="/v1/items",
    tags=["items"],
    route_class=WriteRoute,
    dependencies=[Security(HTTPBearer(auto_error=False))],  # for the document; WriteRoute has checked it
)
FORM = {
    "type": "object",
    "required": ["image"],
    "properties": {
        "image": {"type": "array", "items": {"type": "string", "format": "binary"}},
        "id": {"type": "array", "items": {"type": "integer"}, "description": "One for each image, or none."},
        "name": {"type": "array", "items": {"type": "string"}, "description": "One for each image, or none."},
        "label": {"type": "array", "items": {"type": "string"}, "description": "Labels of all these images."},
    },
}
JSON_EXAMPLE = {"items": [{"code": "90b1c35e", "name": "shop/18.jpg", "labels": ["pear"]}]}


@writing.post(
    "",
    status_code=201,
    response_model=AddedItems,
    responses=errors(400, 401, 403, 408, 409, 413, 415, 422),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": FORM},
                "application/json": {"schema": ItemsBody.model_json_schema(), "example": JSON_EXAMPLE},
            },
        }
    },
)
async def add_items(request: Request) -> Json:
    """Add items: images as a form, or codes and embeddings as JSON. They are on disk before the answer."""
    service: Service = request.app.state.service
    kind = media_type(request)
    if kind == "multipart/form-data":
        addition = await _of_form(service, request)
    elif kind == "application/json":
        addition = await _of_json(service, request)
    else:
        raise RequestError(415, "unsupported", "Send images as multipart/form-data, or codes as application/json.")
    return Json({"items": await service.add(addition)}, 201)


@writing.delete("/{id}", response_model=RemovedItem, responses=errors(401, 403, 404, 422))
async def remove_item(request: Request, item_id: ItemId) -> Json:
    """Remove an item. It is gone from the disk before the answer."""
    service: Service = request.app.state.service
    await service.remove(item_id)
    return Json({"id": item_id})


async def _of_form(service: Service, request: Request) -> Addition:
    async with request.form() as form:
        unknown = set(form) - {"image", "id", "name", "label"}
        if unknown:
            raise invalid("The form has the fields image, id, name and label only.")
        files = [part for part in form.getlist("image") if isinstance(part, UploadFile)]
        texts = {key: [part for part in form.getlist(key) if isinstance(part, str)] for key in ("id", "name", "label")}
        for key in ("id", "name"):
            if texts[key] and len(texts[key]) != len(files):
                raise invalid(f"Give one {key} for each of the {len(files)} images, or none; got {len(texts[key])}.")
        ids = _accepted(list[Id], texts["id"], "id")
        names = _accepted(list[Name], texts["name"], "name")
        labels = _accepted(Labels, texts["label"], "label")
        encoded = await service.encoder.images([file.file for file in files])
    return Addition(encoded.codes, ids or None, names or None, [list(dict.fromkeys(labels))] * len(files))


async def _of_json(service: Service, request: Request) -> Addition:
    items = (await read_json(request, ItemsBody)).items
    codes = [one.code for one in items if one.code is not None]
    vectors = [one.vector for one in items if one.vector is not None]
    if len(codes) + len(vectors) != len(items) or (codes and vectors):
        raise invalid("Each item needs a code, or each a vector.")
    ids = [one.id for one in items if one.id is not None]
    if ids and len(ids) != len(items):
        raise invalid("Either all items of a request have an id, or none.")
    packed = service.read_codes(codes) if codes else (await service.encoder.vectors(vectors)).codes
    has_names = any(one.name is not None for one in items)
    names = [one.name or "" for one in items] if has_names else None
    return Addition(packed, ids or None, names, [list(dict.fromkeys(one.labels)) for one in items])


def _accepted(kind: Any, values: list[str], field: str) -> Any:
    try:
        return TypeAdapter(kind).validate_python(values)
    except ValidationError as error:
        raise RequestValidationError([{**one, "loc": (field, *one["loc"])} for one in error.errors()]) from None

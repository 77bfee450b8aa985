"""Searches: by picture, by embedding, by code."""

from typing import Annotated

from fastapi import APIRouter, Depends, File, Query, Request, UploadFile
from starlette.responses import Response

from scdh.serve.http.answers import search_answer
from scdh.serve.http.bodies import (
    RANK,
    CodesBody,
    Label,
    SearchAnswer,
    VectorsBody,
    errors,
    json_body,
    make_options,
    read_json,
    reject_unknown_parameters,
)
from scdh.serve.service import Service
from scdh.serve.snapshot import Rank

KNOWN_ONLY = [Depends(reject_unknown_parameters)]
router = APIRouter(prefix="/v1/search", tags=["search"], dependencies=KNOWN_ONLY)

K = Annotated[int | None, Query(ge=1, description="Most hits of a query (10, or all within the radius).")]
Radius = Annotated[int | None, Query(ge=0, le=1 << 16, description="Only items at most this many bits away.")]
LabelFilter = Annotated[list[Label], Query(max_length=16, description="Only items with one of these labels.")]
RankBy = Annotated[Rank, Query(description=RANK)]


@router.post("/image", response_model=SearchAnswer, responses=errors(400, 408, 413, 422))
async def search_image(
    request: Request,
    image: Annotated[list[UploadFile], File(description="One image file, or several.")],
    k: K = None,
    radius: Radius = None,
    label: LabelFilter = [],  # noqa: B006 - FastAPI copies it
    rank: RankBy = "bits",
) -> Response:
    """The items nearest to each picture. A model of images is needed."""
    service: Service = request.app.state.service
    options = make_options(k, radius, label, service.settings.limits.hits, rank)
    return await search_answer(await service.search_images([upload.file for upload in image], options))


@router.post(
    "/vector",
    response_model=SearchAnswer,
    responses=errors(400, 408, 413, 415, 422),
    openapi_extra=json_body(VectorsBody),
)
async def search_vector(request: Request) -> Response:
    """The items nearest to each embedding. A model of embeddings is needed."""
    service: Service = request.app.state.service
    body = await read_json(request, VectorsBody)
    return await search_answer(await service.search_vectors(body.vectors, body.options(service.settings.limits.hits)))


@router.post(
    "/code", response_model=SearchAnswer, responses=errors(400, 408, 413, 415, 422), openapi_extra=json_body(CodesBody)
)
async def search_code(request: Request) -> Response:
    """The items nearest to each code."""
    service: Service = request.app.state.service
    body = await read_json(request, CodesBody)
    return await search_answer(await service.search_codes(body.codes, body.options(service.settings.limits.hits)))

"""Bodies of requests and answers, with examples for the OpenAPI document."""

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.requests import Request

from scdh.serve.request_errors import RequestError, invalid
from scdh.serve.settings import MOST_QUERIES
from scdh.serve.snapshot import Rank, SearchOptions

DEFAULT_K = 10
LARGEST_ID = (1 << 63) - 1
MOST_BRACKETS = 4 * MOST_QUERIES  # lists and objects of a body; an item is an object with two lists
MOST_KEYS = 8 * MOST_QUERIES  # an item has five

Id = Annotated[int, Field(ge=-LARGEST_ID - 1, le=LARGEST_ID)]
Name = Annotated[str, Field(max_length=1000)]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Labels = Annotated[list[Label], Field(max_length=16, fail_fast=True)]
Code = Annotated[str, Field(max_length=1 << 14, pattern="^[0-9a-fA-F]+$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
RANKS: tuple[Rank, ...] = ("bits", "outputs", "vectors")
RANK = (
    "By the number of bits that differ; by the sum of the query's real outputs over these bits, for pictures and "
    "embeddings; or by the outputs that an index keeps (`scdh index --keep-vectors`), also for items. Without bits, "
    "distances are real numbers and there is no radius. A model with a distance of its own (`ranking` of /v1/info) "
    "takes neither rank nor radius."
)
Vector = Annotated[list[Number], Field(min_length=1, max_length=1 << 16, fail_fast=True)]


class Body(BaseModel):
    """Unknown keys are rejected, so that a misspelt ``radius`` is noticed.

    Reading stops at the first mistake (``fail_fast`` for lists): a million of them in one body would take a gigabyte,
    and block all other requests for seconds.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _reject_unknown_keys(cls, given: Any) -> Any:
        if isinstance(given, dict) and (unknown := next((key for key in given if key not in cls.model_fields), None)):
            raise ValueError(f"it has no field {unknown!r}")
        return given


class SearchBody(Body):
    ranks: ClassVar[tuple[Rank, ...]] = RANKS  # what queries are given as
    k: int | None = Field(None, ge=1, description="Most hits of a query (10, or all within the radius).")
    radius: int | None = Field(None, ge=0, le=1 << 16, description="Only items at most this many bits away.")
    labels: Labels = Field([], description="Only items with one of these labels.")
    rank: Rank = Field("bits", description=RANK)

    def options(self, most: int) -> SearchOptions:
        return make_options(self.k, self.radius, self.labels, most, self.rank, self.ranks)


class CodesBody(SearchBody):
    ranks: ClassVar[tuple[Rank, ...]] = ("bits",)
    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"codes": ["90b1c35e"], "k": 5}]})
    codes: list[Code] = Field(
        min_length=1,
        max_length=MOST_QUERIES,
        fail_fast=True,
        description="Packed bits of each query in hexadecimal digits.",
    )


class VectorsBody(SearchBody):
    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"vectors": [[0.5, -1.0]], "k": 5, "rank": "outputs"}]}
    )
    vectors: list[Vector] = Field(
        min_length=1,
        max_length=MOST_QUERIES,
        fail_fast=True,
        description="Embeddings of the width that the model takes.",
    )


class NewItem(Body):
    """An item by its code, or by its embedding."""

    id: Id | None = Field(None, description="A new id; by default the number after the largest one.")
    name: Name | None = None
    labels: Labels = []
    code: Code | None = None
    vector: Vector | None = None


class ItemsBody(Body):
    items: list[NewItem] = Field(min_length=1, max_length=MOST_QUERIES, fail_fast=True)


class Hit(BaseModel):
    id: int
    name: str
    labels: list[str]
    distance: float = Field(description="Bits that differ, a whole number; a real one where these do not rank.")


class QueryResult(BaseModel):
    code: str = Field(description="Code of the query.")
    hits: list[Hit] = Field(description="Nearest first; equal distances by id.")
    total: int | None = Field(description="Items within the radius; null without a radius.")


class SearchAnswer(BaseModel):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "results": [
                        {
                            "code": "90b1c35e",
                            "hits": [{"id": 17, "name": "shop/17.jpg", "labels": ["pear"], "distance": 2}],
                            "total": None,
                        }
                    ]
                }
            ]
        }
    )
    results: list[QueryResult]


class Item(BaseModel):
    id: int
    name: str
    labels: list[str]
    code: str
    picture: bool = Field(description="Whether there is a thumbnail.")


class AddedItem(BaseModel):
    id: int
    name: str
    labels: list[str]
    code: str


class AddedItems(BaseModel):
    items: list[AddedItem]


class RemovedItem(BaseModel):
    id: int


class Status(BaseModel):
    status: Literal["ok"]


class ModelInfo(BaseModel):
    method: str
    bits: int
    ranking: str = Field(description="The distance that orders hits: 'Hamming distance', or the method's own.")
    backbone: str | None
    fingerprint: str
    input: Literal["images", "embeddings"]
    width: int | None = Field(description="Width of the embeddings.")
    learned_labels: bool = Field(description="Whether near means the same label; otherwise codes were learned without.")
    precision: Literal["float32", "int8"]


class IndexInfo(BaseModel):
    items: int
    bits: int


class Info(BaseModel):
    model: ModelInfo
    index: IndexInfo
    labels: dict[str, int] = Field(description="Items of each label.")
    pictures: bool = Field(description="Whether there are thumbnails.")
    writable: bool = Field(description="Whether items can be added with a token.")
    limits: dict[str, int]


class ErrorBody(BaseModel):
    code: str = Field(description="The reason in one word.")
    message: str = Field(description="One sentence.")


class ErrorAnswer(BaseModel):
    error: ErrorBody


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The errors of a route, for the document."""
    words = {
        400: "The request cannot be read",
        401: "No token, or a wrong one",
        403: "Changes are off, or the request comes from another web site",
        404: "Not found",
        408: "The request did not arrive in time",
        409: "The id is taken",
        413: "Too large",
        415: "Another kind of body was expected",
        422: "Not accepted",
        503: "Starting, stopping or too busy",
    }
    return {status: {"model": ErrorAnswer, "description": words[status]} for status in sorted((*statuses, 503))}


Kind = TypeVar("Kind", bound=Body)


def json_body(kind: type[Body]) -> dict[str, Any]:
    """The body of a request for the document, where :func:`read_json` reads it."""
    schema = kind.model_json_schema()
    example = schema.pop("examples", [None])[0]
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema, "example": example}}}}


async def read_json(request: Request, kind: type[Kind]) -> Kind:
    """The body of a request; several times as fast as FastAPI, which makes Python objects of it first."""
    if media_type(request) != "application/json":
        raise RequestError(415, "unsupported", "Send the body as application/json.")
    body = await request.body()
    if not (_has_few_parts(body) or _has_few_parts(_outside_strings(body))):
        raise invalid(f"A request may have {MOST_QUERIES} queries or items, and this one has more lists and keys.")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from None


def _has_few_parts(text: bytes) -> bool:
    """Whether lists, objects and keys are few enough to be parsed: a million of them would take a second."""
    return text.count(b"[") + text.count(b"{") <= MOST_BRACKETS and text.count(b":") <= MOST_KEYS


def _outside_strings(body: bytes) -> bytes:
    """JSON without its strings, as names may have brackets and colons, too."""
    return b"".join(body.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])


def media_type(request: Request) -> str:
    """The content type of a request without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def reject_unknown_parameters(request: Request) -> None:
    """A dependency of routes: unknown parameters of the address are rejected like unknown keys."""
    known = sorted(field.alias for field in request.scope["route"].dependant.query_params)
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is not None:
        there = f"known are {', '.join(known)}" if known else "settings belong into the body"
        raise invalid(f"Unknown parameter {unknown!r}; {there}.")


def make_options(
    k: int | None,
    radius: int | None,
    labels: list[str],
    most: int,
    rank: Rank = "bits",
    ranks: tuple[Rank, ...] = RANKS,
) -> SearchOptions:
    """The options of a search; without k, ten hits, or the most that are allowed within the radius."""
    if rank not in ranks:
        known = "for codes only the bits are known" if len(ranks) == 1 else "for items there are 'bits' and 'vectors'"
        raise invalid(f"Only pictures and embeddings can be ranked by {rank!r}; {known}.")
    if rank != "bits" and radius is not None:
        raise invalid(f"A radius counts bits, so it cannot be given with 'rank' as {rank!r}.")
    if k is not None and k > most:
        raise invalid(f"k may be at most {most}, got {k}.")
    return SearchOptions(k or (DEFAULT_K if radius is None else most), radius, tuple(sorted(set(labels))), rank)

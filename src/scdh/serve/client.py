"""A Python client of ``scdh serve``; it needs httpx, but neither torch nor the rest of the service."""

import io
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scdh.errors import ConfigError, ServiceError
from scdh.extras import check_installed

if TYPE_CHECKING:
    from scdh.codes import Codes

Rank = Literal["bits", "outputs", "vectors"]
# Errors that come before any work, so that the request may be sent again.
_RETRIED = ("busy", "starting")
_LONGEST_WAIT = 5.0


@dataclass(frozen=True)
class FoundItem:
    """A hit of a search.

    Attributes:
        id: the item's id.
        distance: number of bits that differ from the query's; with ``rank="outputs"`` the sum of the query's outputs
            over these bits, with ``rank="vectors"`` 1 − cosine: real numbers.
        name: the item's name; empty if it has none.
        labels: names of its labels.
    """

    id: int
    distance: float
    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class QueryAnswer:
    """What was found for one query.

    Attributes:
        code: packed bits of the query in hexadecimal digits.
        hits: nearest first.
        total: number of items within the radius; None for a search without radius.
    """

    code: str
    hits: tuple[FoundItem, ...]
    total: int | None


class Client:
    """Calls a service of ``scdh serve``; a context manager that closes its connections at the end.

    Args:
        address: the service's address, such as ``http://127.0.0.1:8000``.
        token: for adding and removing items.
        timeout: seconds to wait for an answer.
        tries: how often a request is sent while the service is starting or too busy.

    Every method raises ``scdh.errors.ServiceError`` (with ``status`` and ``code``) if the service rejects a request
    or does not answer.
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 30.0, tries: int = 4) -> None:
        check_installed("scdh.Client", "httpx")
        import httpx

        if not address.startswith(("http://", "https://")):
            raise ConfigError(f"The address of a service begins with http:// or https://, got {address!r}.")
        if tries < 1:
            raise ConfigError(f"tries must be at least 1, got {tries}.")
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=address.rstrip("/"), headers=headers, timeout=timeout)
        self._tries = tries

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def is_ready(self) -> bool:
        """Whether the service is ready; False also if it does not answer."""
        try:
            return bool(self._call("GET", "/ready", tries=1))
        except ServiceError:
            return False

    def info(self) -> dict[str, Any]:
        """The model, the index, its labels, and limits, as ``GET /v1/info`` gives them."""
        return self._call("GET", "/v1/info").json()

    def metrics(self) -> str:
        """Counters in the format of Prometheus."""
        return self._call("GET", "/metrics").text

    def search_images(
        self,
        images: Any,
        *,
        k: int | None = None,
        radius: int | None = None,
        labels: Iterable[str] = (),
        rank: Rank = "bits",
    ) -> list[QueryAnswer]:
        """The items nearest to pictures.

        Args:
            images: one, or a list, of paths, bytes of image files, PIL images, or arrays [H, W, C] of 8 bits.
            k: most hits of a picture; None: 10, or all within the radius, up to a limit of the service.
            radius: only items at most this many bits away; None: any.
            labels: only items with one of these labels; none: all items.
            rank: "bits" that differ, the query's real "outputs" over these bits, or the "vectors" that the index keeps
                (docs/search.md); the last two take no radius.
        """
        files = [("image", (f"{n}", content)) for n, content in enumerate(_image_bytes(images))]
        question = {"k": k, "radius": radius, "label": list(labels), "rank": rank}
        return _read_answers(self._call("POST", "/v1/search/image", params=_given(question), files=files))

    def search_vectors(
        self,
        vectors: Any,
        *,
        k: int | None = None,
        radius: int | None = None,
        labels: Iterable[str] = (),
        rank: Rank = "bits",
    ) -> list[QueryAnswer]:
        """The items nearest to embeddings.

        Args:
            vectors: floats [n, d], or one vector [d].
            k, radius, labels, rank: as for :meth:`search_images`.
        """
        question = {"k": k, "radius": radius, "labels": list(labels), "rank": rank}
        body = {"vectors": _vector_rows(vectors), **_given(question)}
        return _read_answers(self._call("POST", "/v1/search/vector", json=body))

    def search_codes(
        self,
        codes: "Codes | Sequence[str] | str",
        *,
        k: int | None = None,
        radius: int | None = None,
        labels: Iterable[str] = (),
    ) -> list[QueryAnswer]:
        """The items nearest to codes.

        Args:
            codes: ``scdh.Codes``, or packed bits in hexadecimal digits, one or several.
            k, radius, labels: as for :meth:`search_images`.
        """
        question = {"k": k, "radius": radius, "labels": list(labels)}
        return _read_answers(self._call("POST", "/v1/search/code", json={"codes": _hex(codes), **_given(question)}))

    def similar(
        self,
        item_id: int,
        *,
        k: int | None = None,
        radius: int | None = None,
        labels: Iterable[str] = (),
        rank: Rank = "bits",
    ) -> QueryAnswer:
        """The items nearest to an item, without itself.

        Args:
            item_id: id of the item.
            k, radius, labels, rank: as for :meth:`search_images`; an item has no outputs.
        """
        question = {"k": k, "radius": radius, "label": list(labels), "rank": rank}
        return _read_answers(self._call("GET", f"/v1/items/{int(item_id)}/similar", params=_given(question)))[0]

    def item(self, item_id: int) -> dict[str, Any]:
        """``{"id", "name", "labels", "code", "picture"}`` of the item ``item_id``."""
        return self._call("GET", f"/v1/items/{int(item_id)}").json()

    def thumbnail(self, item_id: int) -> bytes:
        """The small picture, a JPEG, of the item ``item_id``."""
        return self._call("GET", f"/v1/items/{int(item_id)}/thumbnail").content

    def add_images(
        self,
        images: Any,
        *,
        ids: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
        labels: Iterable[str] = (),
    ) -> list[dict[str, Any]]:
        """Add pictures to the index; when this returns they are on the service's disk.

        Args:
            images: as for :meth:`search_images`.
            ids: a new id for each; None: the numbers after the largest id.
            names: a name for each; None: they have none.
            labels: of all of them.

        Returns:
            ``{"id", "name", "labels", "code"}`` of each.
        """
        files = [("image", (f"{n}", content)) for n, content in enumerate(_image_bytes(images))]
        form = _given({"id": None if ids is None else [str(int(one)) for one in ids], "name": names})
        answer = self._call("POST", "/v1/items", files=files, data={**form, "label": list(labels)})
        return answer.json()["items"]

    def add_codes(
        self,
        codes: "Codes | Sequence[str] | str",
        *,
        ids: Sequence[int] | None = None,
        names: Sequence[str] | None = None,
        labels: Sequence[Sequence[str]] | None = None,
    ) -> list[dict[str, Any]]:
        """Add codes to the index; when this returns they are on the service's disk.

        Args:
            codes: as for :meth:`search_codes`.
            ids: a new id for each; None: the numbers after the largest id.
            names: a name for each; None: they have none.
            labels: the labels of each; None: they have none.

        Returns:
            ``{"id", "name", "labels", "code"}`` of each.
        """
        items: list[dict[str, Any]] = [{"code": code} for code in _hex(codes)]
        numbers = None if ids is None else [int(one) for one in ids]
        more: dict[str, Sequence[Any] | None] = {"id": numbers, "name": names, "labels": labels}
        for key, values in _given(more).items():
            for item, value in zip(items, values, strict=True):
                item[key] = value
        return self._call("POST", "/v1/items", json={"items": items}).json()["items"]

    def remove(self, item_id: int) -> None:
        """Remove the item ``item_id``; when this returns it is gone from the service's disk."""
        self._call("DELETE", f"/v1/items/{int(item_id)}")

    def _call(self, method: str, path: str, *, tries: int | None = None, **options: Any) -> Any:
        import httpx

        tries = tries or self._tries
        for left in range(tries - 1, -1, -1):
            try:
                answer = self._http.request(method, path, **options)
            except httpx.HTTPError as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise ServiceError(f"The service at {self._http.base_url} does not answer: {reason}.") from error
            if answer.is_success:
                return answer
            failure = _error_of(answer)
            if left == 0 or failure.code not in _RETRIED:
                raise failure
            wait = answer.headers.get("retry-after", "1")
            time.sleep(min(float(wait) if wait.isdecimal() else 1.0, _LONGEST_WAIT))
        raise AssertionError  # the last try returns or raises


def _error_of(answer: Any) -> ServiceError:
    try:
        error = answer.json()["error"]
        return ServiceError(str(error["message"]), answer.status_code, str(error["code"]))
    except (ValueError, KeyError, TypeError):  # something else answers there, such as a proxy
        return ServiceError(f"The service answered with status {answer.status_code}.", answer.status_code, "unknown")


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None and value != []}


def _vector_rows(vectors: Any) -> list[list[float]]:
    try:
        rows = np.asarray(vectors, np.float64)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"Vectors must be finite real numbers [n, d] or [d], got other values: {error}.") from None
    if rows.ndim not in (1, 2):
        raise ConfigError(f"Vectors must be finite real numbers [n, d] or [d], got shape {list(rows.shape)}.")
    if not np.isfinite(rows).all():
        raise ConfigError(f"Vectors must be finite real numbers, got {rows[~np.isfinite(rows)][0]}.")
    return np.atleast_2d(rows).tolist()


def _hex(codes: "Codes | Sequence[str] | str") -> list[str]:
    if isinstance(codes, str):
        return [codes]
    packed = getattr(codes, "packed", None)
    return list(codes) if packed is None else [row.tobytes().hex() for row in packed]  # type: ignore[arg-type]


def _image_bytes(images: Any) -> list[bytes]:
    is_one = isinstance(images, str | os.PathLike | bytes | bytearray) or hasattr(images, "save")
    is_one = is_one or getattr(images, "ndim", 0) in (2, 3)
    return [_encoded(image) for image in ([images] if is_one else images)]


def _encoded(image: Any) -> bytes:
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, str | os.PathLike):
        return Path(image).read_bytes()
    from PIL import Image

    buffer = io.BytesIO()
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture.save(buffer, "PNG")
    return buffer.getvalue()


def _read_answers(answer: Any) -> list[QueryAnswer]:
    """The results in an answer of httpx to a search, one for each query."""
    return [
        QueryAnswer(
            result["code"],
            tuple(FoundItem(hit["id"], hit["distance"], hit["name"], tuple(hit["labels"])) for hit in result["hits"]),
            result["total"],
        )
        for result in answer.json()["results"]
    ]

"""The web page: files that are read once at the start, so that no path of a request reaches the file system."""

import hashlib
import mimetypes
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parents[1] / "page"
TYPES = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
# A page is at an address without its ending.
SHORT = {"index.html": "/", "docs.html": "/docs"}


def page_routes(folder: Path = FOLDER) -> list[Route]:
    """A route for every file of the folder, at its path below it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [_route(path, path.relative_to(folder).as_posix()) for path in files]


def _route(path: Path, name: str) -> Route:
    content = path.read_bytes()
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    # The browser revalidates each file, because a new version of scdh may have changed it.
    headers = {"etag": f'"{hashlib.sha256(content).hexdigest()[:16]}"', "cache-control": "no-cache"}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)

    return Route(SHORT.get(name, f"/{name}"), answer, include_in_schema=False)

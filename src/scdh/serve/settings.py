"""The settings of a service, and the limits for clients."""

import re
from dataclasses import dataclass, field

from scdh.errors import ConfigError
from scdh.model import Engine

LEAST_TOKEN = 16
MOST_QUERIES = 256  # codes, vectors or items in one request
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Limits:
    """Bounds on the resources of one client, and of all clients together. Sizes are in bytes, times in seconds.

    Args:
        upload: body of a request with images.
        json: body of any other request.
        pixels: of one image, compared with its header before it is decoded.
        images: in one request.
        hits: k of a request, and hits of one query within a radius.
        batch: images in one pass of the network.
        waiting_images: images that are being decoded or encoded, or wait for it; beyond them requests get 503.
        waiting_searches: the same for searches.
        waiting_changes: the same for additions and removals.
        requests: at once, of any kind.
        bodies: bytes beyond 64 KB of bodies of requests that have not been answered yet, of all of them together; if it
            is below ``upload``, that counts.
        answers: bytes of answers above 64 KB that clients have not read yet, of all requests together.
        connections: open at once.
        head_seconds: for the head of a request to arrive.
        body_seconds: for its body to arrive.
        request_seconds: for the whole of it.
    """

    upload: int = 20 << 20
    json: int = 4 << 20
    pixels: int = 50_000_000
    images: int = 16
    hits: int = 1000
    batch: int = 32
    waiting_images: int = 64
    waiting_searches: int = 512
    waiting_changes: int = 64
    requests: int = 256
    bodies: int = 256 << 20
    answers: int = 256 << 20
    connections: int = 1000
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    request_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value <= 0:
                raise ConfigError(f"The limit {name} must be above 0, got {value}.")
        if self.images > self.waiting_images:
            raise ConfigError(
                f"A request may have {self.images} images, but only {self.waiting_images} may wait; raise the queue."
            )


@dataclass(frozen=True)
class Settings:
    """A service.

    Args:
        model: folder of the model, or of a run.
        index: index file, or address of a search engine.
        images: folder, or data as for ``scdh train``, that has the pictures of the items; None: no pictures.
        names: codes or index file with the names of the items; None: those that belong to the index file.
        token: what clients must send to add and remove; None: changes are off.
        hosts: names under which clients may call the service; None: any. A service for this machine alone takes only
            its own names, otherwise a web page could reach it through a domain name that points to this machine.
        origins: web sites whose pages may call the service (CORS).
        engine: what computes codes of images, as for :meth:`scdh.Hasher.encode`.
        limits: bounds on requests.
        watch_seconds: how often the index file is compared with what is served.
    """

    model: str
    index: str
    images: str | None = None
    names: str | None = None
    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] | None = None
    origins: tuple[str, ...] = ()
    engine: Engine = "auto"
    limits: Limits = field(default_factory=Limits)
    watch_seconds: float = 1.0

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ConfigError(f"A token must have at least {LEAST_TOKEN} characters, got {len(self.token)}.")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and " " not in self.token):
            raise ConfigError("A token may have only ASCII letters, digits and signs without spaces.")
        # Both are compared with what browsers send, so a value that they never send would silently reject every
        # request.
        for origin in self.origins:
            if origin != "*" and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s]+", origin):
                raise ConfigError(f"--cors takes a site as https://example.org, with nothing after it, got {origin!r}.")
        for name in self.hosts or ():
            if "/" in name or name.count(":") == 1:
                raise ConfigError(f"--allow-host takes a name as example.org, without http:// and port, got {name!r}.")

"""``scdh serve``: serve a search over HTTP, with a web page."""

import os
import stat
import sys
from pathlib import Path
from typing import Annotated

import typer

from scdh.cli.options import Device, EngineName, use_device
from scdh.cli.output import print_line, print_note
from scdh.errors import ConfigError

EXAMPLES = (
    "scdh serve runs/shop --index photos.index --images photos/",
    "scdh serve runs/shop --index photos.index --images photos/ --open",
    "scdh serve runs/shop --index postgresql://ann@host/shop/photos",
    "SCDH_SERVE_TOKEN=$(openssl rand -hex 32) scdh serve runs/shop --index photos.index",
    "scdh serve runs/shop --index photos.index --host 0.0.0.0 --port 80 --token-file /etc/scdh/token",
)
TOKEN_VARIABLE = "SCDH_SERVE_TOKEN"


def serve(
    model: Annotated[str, typer.Argument(help="Folder of the model that made the index, or of its run.")],
    index: Annotated[str, typer.Option(help="File that `scdh index` wrote, or an address as of `scdh index --to`.")],
    images: Annotated[
        str | None,
        typer.Option(help="Folder with the pictures of the items, or data as for `scdh train`.", show_default=False),
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="Codes or index file whose names are shown (default: those of the index).")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 allows other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the token for adding and removing (or {TOKEN_VARIABLE}); without one, both are disabled.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Host name that clients may use (default: any; at 127.0.0.1, this machine)."),
    ] = None,
    cors: Annotated[
        list[str] | None, typer.Option(help="Web site, as https://example.org, whose pages may call the service.")
    ] = None,
    max_upload: Annotated[
        float, typer.Option(min=0.001, help="Largest upload, and largest photo with a thumbnail, in megabytes.")
    ] = 20,
    max_pixels: Annotated[float, typer.Option(min=0.001, help="Largest image in megapixels.")] = 50,
    queue: Annotated[int, typer.Option(min=16, help="Images that may wait; more get 503.")] = 64,
    batch: Annotated[int, typer.Option(min=1, help="Most images in one batch of the network.")] = 32,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = 30,
    drain: Annotated[float, typer.Option(min=0, help="Seconds after SIGTERM during which /ready answers 503.")] = 1,
    device: Device = None,
    engine: EngineName = "auto",
    open_page: Annotated[bool, typer.Option("--open", metavar="", help="Open the page in a browser.")] = False,
) -> None:
    """Search by picture, by item, by code and by embedding: an HTTP API and a web page.

    Only this machine can call it unless --host says otherwise, and items can be added and removed only with a token.
    Changes of the index file are picked up while it runs. Needs some packages: pip install 'scdh[serve]'.
    """
    from scdh.extras import check_installed

    check_installed("scdh serve", "fastapi", "httptools", "uvicorn", "prometheus_client", "python_multipart")
    use_device(device)
    from scdh.index.engines import is_engine_address
    from scdh.serve.server import address_of, bind, run
    from scdh.serve.settings import LOOPBACK, Limits, Settings

    if not is_engine_address(index) and not Path(index).is_file():
        raise ConfigError(f"There is no index file {index}; `scdh index` makes one.")
    is_local = host in LOOPBACK
    settings = Settings(
        model=model,
        index=index,
        images=images,
        names=None if names is None else str(names),
        token=_token(token_file),
        hosts=_hosts(allow_host, LOOPBACK if is_local else None),
        origins=tuple(cors or ()),
        engine=engine,
        limits=Limits(
            upload=int(max_upload * 1e6),
            pixels=int(max_pixels * 1e6),
            waiting_images=queue,
            batch=batch,
            request_seconds=timeout,
            body_seconds=min(Limits.body_seconds, timeout),
        ),
    )
    listener = bind(host, port)
    page = address_of(listener)
    if not is_local:
        print_note(
            "Other machines can reach this service, and reading needs no token; put a proxy with TLS in front of it."
        )
    run(
        settings,
        listener,
        drain_seconds=drain,
        opens_browser=open_page,
        when_ready=lambda: print_line(f"Ready: {page} (the API: {page}docs; Ctrl-C stops)"),
        report=print_note,
    )


def _token(file: Path | None) -> str | None:
    """The token of the file, or of the environment; never of the command line, which every user of a machine sees."""
    if file is None:
        return os.environ.get(TOKEN_VARIABLE) or None
    try:
        with open(file, encoding="utf-8") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            token = opened.read().strip()
    except UnicodeDecodeError:
        raise ConfigError(f"The token file {file} must be text.") from None
    if not token:
        raise ConfigError(f"The token file {file} is empty.")
    if sys.platform != "win32" and mode & stat.S_IROTH:
        print_note(f"Every user of this machine can read the token in {file}; run: chmod o-r {file}")
    return token


def _hosts(given: list[str] | None, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if not given:
        return default
    return tuple(name.lower().strip("[]") for name in given) + (default or ())

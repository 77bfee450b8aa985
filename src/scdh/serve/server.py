"""A service under uvicorn: the address, the start, and the end."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import uvicorn

from scdh.errors import ConfigError
from scdh.serve.http.app import create_app
from scdh.serve.http.connections import BoundedProtocol
from scdh.serve.logs import log, write_lines
from scdh.serve.service import Service
from scdh.serve.settings import Settings

KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 30  # for requests that have begun
END_SECONDS = 5  # after that, for what cannot be interrupted; then the system ends the process
BLOCKED_SECONDS = 5  # that a client may not read its answer while the service stops
MOST_FILES = 1 << 16


def bind(host: str, port: int) -> socket.socket:
    """A socket at this address; ConfigError if the address cannot be used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        if sys.platform != "win32":  # there it would let two programs share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        return listener
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"The address {host}:{port} cannot be used: {reason}.") from None


def address_of(listener: socket.socket) -> str:
    """The address of the page, for a browser on this machine."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def run(
    settings: Settings,
    listener: socket.socket,
    *,
    drain_seconds: float,
    opens_browser: bool = False,
    when_ready: Callable[[], object] = lambda: None,
    report: Callable[[str], object] = lambda _: None,
) -> None:
    """Serve until a signal: SIGTERM stops after ``drain_seconds``, in which ``/ready`` says 503; Ctrl-C at once. Both
    answer what has begun, for at most ``STOP_SECONDS``; a second signal does not wait for that. ``END_SECONDS`` later
    the system ends the process in any case.

    Raises:
        ScdhError: if model, index or images cannot be used.
    """
    write_lines()
    most = connections_within(_allow_many_files(), settings.limits.connections)
    service = Service(replace(settings, limits=replace(settings.limits, connections=most)), report)
    server = _Server(service, drain_seconds)
    page = address_of(listener)

    def ready() -> None:
        keep_what_is_loaded()
        when_ready()
        if opens_browser:
            threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()

    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:  # uvloop where it is installed
        runner.run(_serve(server, service, listener, ready))


def _allow_many_files() -> int:
    """Raise the limit of descriptors, and return it: each connection and upload takes one, and the usual 1,024 are too
    few.
    """
    if sys.platform == "win32":
        return MOST_FILES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return MOST_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def connections_within(files: int, wanted: int) -> int:
    """Connections that leave half of the descriptors to uploads, the index and pipes.

    If no descriptor is left for a connection, it is closed without an answer; closing idle ones would be too late.
    """
    return max(1, min(wanted, files // 2))


def keep_what_is_loaded() -> None:
    """Exclude what is loaded now, mostly modules of torch, from garbage collection.

    A full collection goes through all of it: a pause of 0.2 s, every second under load.
    """
    gc.collect()
    gc.freeze()


async def _serve(
    server: "_Server", service: Service, listener: socket.socket, when_ready: Callable[[], object]
) -> None:
    async def start() -> None:
        try:
            await service.start()
        except BaseException:
            server.should_exit = True
            raise
        if service.state == "ready":
            when_ready()

    starting = asyncio.create_task(start())
    await server.serve(sockets=[listener])
    await service.stop()
    if not starting.done():  # stopped before it was ready; the thread that loads cannot be interrupted
        starting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await starting
    log("stopped")


class _Server(uvicorn.Server):
    """uvicorn with signals as described at ``run``; they are not raised again after a graceful end."""

    def __init__(self, service: Service, drain_seconds: float) -> None:
        limits = service.settings.limits
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=BoundedProtocol.with_limits(limits),
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level=logging.ERROR,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=STOP_SECONDS,
                proxy_headers=False,
            )
        )
        self._service, self._drain_seconds = service, drain_seconds
        self._signals = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._signals += 1
        after = 0 if sig == signal.SIGINT else self._drain_seconds
        if self._signals > 1:
            self.should_exit = self.force_exit = True
            _end_process_in(END_SECONDS)
            return
        _end_process_in(after + STOP_SECONDS + END_SECONDS)
        # A signal handler runs between any two instructions, so the rest is left to the event loop.
        asyncio.get_running_loop().call_soon_threadsafe(self._stop, after)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # every second
            self._end_blocked_connections(self._service.settings.limits.request_seconds)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        async def end_blocked_connections() -> None:
            while True:
                self._end_blocked_connections(BLOCKED_SECONDS)
                await asyncio.sleep(0.5)

        ending = asyncio.create_task(end_blocked_connections())
        await super().shutdown(sockets)
        ending.cancel()

    def _end_blocked_connections(self, patience: float) -> None:
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            assert isinstance(connection, BoundedProtocol)
            connection.abort_if_blocked(now, patience)

    def _stop(self, after: float) -> None:
        self._service.announce_stop()
        asyncio.get_running_loop().call_later(after, self._exit)

    def _exit(self) -> None:
        self.should_exit = True


def _end_process_in(seconds: float) -> None:
    """The system ends the process by SIGALRM, even within a library that does not return."""
    if sys.platform != "win32":
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)

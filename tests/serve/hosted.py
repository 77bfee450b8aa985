"""A service on a free port of this machine, in a thread of the test's process."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import httpx

from scdh.serve import server
from scdh.serve.service import Service
from scdh.serve.settings import Settings


@dataclass
class Hosted:
    """``url`` is the address; ``service`` is what answers there; ``loop`` is where it runs."""

    url: str
    port: int
    service: Service
    loop: asyncio.AbstractEventLoop
    http: httpx.Client
    server: server._Server


@contextmanager
def hosted(
    settings: Settings, *, waits: bool = True, report: Callable[[str], object] = lambda _: None
) -> Iterator[Hosted]:
    """Serve until the end of the block; ``waits``: begin when it is ready; ``report``: what it prints at the start."""
    listener = server.bind("127.0.0.1", 0)
    service = Service(settings, report)
    running = server._Server(service, drain_seconds=0)
    loop, ready, failures = asyncio.new_event_loop(), threading.Event(), []

    def work() -> None:
        try:
            loop.run_until_complete(server._serve(running, service, listener, ready.set))
        except BaseException as error:
            failures.append(error)
            ready.set()

    thread = threading.Thread(target=work, daemon=True)
    url = server.address_of(listener).rstrip("/")
    thread.start()
    try:
        if waits:
            assert ready.wait(120)
            if failures:
                raise failures[0]
        with httpx.Client(base_url=url, timeout=60) as http:
            yield Hosted(url, listener.getsockname()[1], service, loop, http, running)
    finally:
        running.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def wait_until(check: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def with_limits(settings: Settings, **limits) -> Settings:
    return replace(settings, limits=replace(settings.limits, **limits))

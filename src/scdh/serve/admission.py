"""Bound the number of things at once: excess requests are rejected immediately instead of waiting."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scdh.serve.request_errors import busy


class Admission:
    """Counts what is inside; used from the event loop only.

    Args:
        limit: largest number.
        what: their name in the message.
        observe: is called with the number after each change.
    """

    def __init__(self, limit: int, what: str, observe: Callable[[int], object] = lambda _: None) -> None:
        self.limit = limit
        self.what = what
        self.inside = 0
        self._observe = observe

    @property
    def free(self) -> int:
        """How many more may enter now."""
        return self.limit - self.inside

    @contextmanager
    def admit(self, count: int = 1) -> Iterator[None]:
        """Let ``count`` in until the end of the block; RequestError 503 if all of them do not fit."""
        self.enter(count)
        try:
            yield
        finally:
            self.leave(count)

    def enter(self, count: int) -> None:
        """Let ``count`` in until :meth:`leave`; RequestError 503 if all of them do not fit."""
        if count > self.free:
            raise busy(self.what)
        self.inside += count
        self._observe(self.inside)

    def leave(self, count: int) -> None:
        self.inside -= count
        self._observe(self.inside)

"""A bounded number of things at once: what comes on top is refused at once instead of waiting for ever."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from scdh.serve.refusals import busy


class Admission:
    """Counts what is inside; used from the event loop only.

    Args:
        limit: the most there may be.
        what: what they are, for the message.
        observe: is told the number after each change.
    """

    def __init__(self, limit: int, what: str, observe: Callable[[int], object] = lambda _: None) -> None:
        self.limit, self.what, self.inside = limit, what, 0
        self._observe = observe

    @contextmanager
    def admit(self, count: int = 1) -> Iterator[None]:
        """Let ``count`` in until the end of the block; Refusal 503 if all of them do not fit."""
        if self.inside + count > self.limit:
            raise busy(self.what)
        self._change(count)
        try:
            yield
        finally:
            self._change(-count)

    def _change(self, count: int) -> None:
        self.inside += count
        self._observe(self.inside)

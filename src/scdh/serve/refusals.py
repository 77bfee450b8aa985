"""Requests that are refused: an HTTP status, one word for programs, and one sentence for people.

Only these reach a client, with its own mistakes in them. Other errors may name files of the server, so a client is told
no more than that there was one.
"""

from scdh.errors import ScdhError
from scdh.printable import printable

LONGEST_MESSAGE = 400


class Refusal(ScdhError):
    """A request that is not answered with what it asked for.

    Args:
        status: of HTTP.
        code: the reason in one word.
        message: one sentence.
        retry_after: seconds after which the same request may succeed; None: it will not.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        shown = printable(" ".join(message.split()))
        shown = shown if len(shown) <= LONGEST_MESSAGE else f"{shown[: LONGEST_MESSAGE - 2]}…."
        super().__init__(shown)
        self.status, self.code, self.message, self.retry_after = status, code, shown, retry_after


def invalid(message: str) -> Refusal:
    return Refusal(422, "invalid", message)


def bad_image(message: str) -> Refusal:
    return Refusal(422, "bad_image", message)


def not_found(message: str) -> Refusal:
    return Refusal(404, "not_found", message)


def too_large(message: str) -> Refusal:
    return Refusal(413, "too_large", message)


def busy(what: str) -> Refusal:
    return Refusal(503, "busy", f"Too many {what} are waiting; try again in a moment.", retry_after=1)


def starting() -> Refusal:
    return Refusal(503, "starting", "The model and the index are still being loaded.", retry_after=2)


def stopping() -> Refusal:
    return Refusal(503, "stopping", "The service is being stopped.", retry_after=5)


def unusable_index() -> Refusal:
    message = "The index cannot be read or written now; the log of the service says why."
    return Refusal(503, "index_unusable", message, retry_after=5)

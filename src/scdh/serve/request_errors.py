"""Errors for clients: an HTTP status, one word for programs, and one sentence for people.

Only these reach a client, as they describe its own mistakes. Other errors may name files of the server, so a client
learns only that one occurred.
"""

from scdh.errors import ScdhError
from scdh.printable import printable

LONGEST_MESSAGE = 400


class RequestError(ScdhError):
    """A request that failed.

    Args:
        status: of HTTP.
        code: the reason in one word.
        message: one sentence.
        retry_after: seconds after which the same request may succeed; None: it will fail again.
    """

    def __init__(self, status: int, code: str, message: str, retry_after: int | None = None) -> None:
        shown = printable(" ".join(message.split()))
        shown = shown if len(shown) <= LONGEST_MESSAGE else f"{shown[: LONGEST_MESSAGE - 2]}…."
        super().__init__(shown)
        self.status = status
        self.code = code
        self.message = shown
        self.retry_after = retry_after


def invalid(message: str) -> RequestError:
    return RequestError(422, "invalid", message)


def bad_image(message: str) -> RequestError:
    return RequestError(422, "bad_image", message)


def not_found(message: str) -> RequestError:
    return RequestError(404, "not_found", message)


def unknown_item(item_id: int) -> RequestError:
    return not_found(f"The index does not contain the id {item_id}.")


def too_large(message: str) -> RequestError:
    return RequestError(413, "too_large", message)


def busy(what: str) -> RequestError:
    return RequestError(503, "busy", f"Too many {what} are waiting; try again in a moment.", retry_after=1)


def starting() -> RequestError:
    return RequestError(503, "starting", "The model and the index are still being loaded.", retry_after=2)


def stopping() -> RequestError:
    return RequestError(503, "stopping", "The service is being stopped.", retry_after=5)


def unusable_index() -> RequestError:
    message = "The index cannot be read or written now; the log of the service says why."
    return RequestError(503, "index_unusable", message, retry_after=5)

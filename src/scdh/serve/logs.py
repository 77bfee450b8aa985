"""One line of JSON for each event, to standard error. Contents of images, vectors and names are never in it."""

import json
import logging
import time
import traceback
from typing import Any

from scdh.printable import printable

logger = logging.getLogger("scdh.serve")


class JsonLines(logging.Formatter):
    """The fields of an event, given as ``extra={"fields": {…}}``, in addition to time, level and event."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        entry: dict[str, Any] = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        entry |= getattr(record, "fields", {})
        if record.exc_info and record.exc_info[1] is not None:
            entry["trace"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(entry)


def log(event: str, level: int = logging.INFO, error: BaseException | None = None, **fields: Any) -> None:
    """Write an event, with the trace of an ``error``."""
    fields = {name: printable(value) if isinstance(value, str) else value for name, value in fields.items()}
    logger.log(level, event, exc_info=error, extra={"fields": fields})


def write_lines(level: int = logging.INFO) -> None:
    """Send events, and the errors of uvicorn, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    levels = {"scdh.serve": level, "uvicorn": logging.ERROR}
    # Forms and images that cannot be read are rejected like anything else; their parsers would add a line for each.
    levels |= dict.fromkeys(("python_multipart", "PIL"), logging.CRITICAL)
    for name, least in levels.items():
        own = logging.getLogger(name)
        own.handlers, own.propagate = [handler], False
        own.setLevel(least)

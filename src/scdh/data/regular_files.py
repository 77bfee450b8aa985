"""Check that a path is a regular file; reading a pipe or a device could block."""

import os
import stat

from scdh.errors import DataError

_KINDS = ((stat.S_ISDIR, "a folder"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def problem_of_file(path: str | os.PathLike[str]) -> str:
    """Why the path cannot be read as a file, as the end of a sentence; empty if it is a file."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: it holds a NUL, which no path can
        return "there is no such file"
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return reason[:1].lower() + reason[1:]
    if stat.S_ISREG(mode):
        return ""
    kind = next((words for is_kind, words in _KINDS if is_kind(mode)), "a device")
    return f"it is {kind}, not a file"


def check_readable(path: str | os.PathLike[str]) -> None:
    """Raise an error for a file of data that is missing or not a file."""
    if problem := problem_of_file(path):
        raise DataError(f"{os.fspath(path)} cannot be read: {problem}.")

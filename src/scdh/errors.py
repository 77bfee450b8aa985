"""Named errors. Every message is one sentence that says what was wrong and what was expected.

All of them are ``ValueError``s, so code that does not import scdh can still catch a user's mistake.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ScdhError(ValueError):
    """A mistake in what the user gave; the command line prints it without a trace and exits with 2."""


class ConfigError(ScdhError):
    """A setting is unknown, of the wrong kind, or out of range."""


class DataError(ScdhError):
    """Images, embeddings or labels cannot be used as they are."""


class CodesError(ScdhError):
    """Codes do not fit together, or a codes or index file is broken."""


class ModelError(ScdhError):
    """A saved model is missing, broken, or does not fit its input."""


class TrainingError(ScdhError):
    """Training cannot continue; the last good checkpoint stays on disk."""


class ServiceError(ScdhError):
    """A service of ``scdh serve`` refused a request, or does not answer.

    Attributes:
        status: int, the HTTP status; 0 where there was no answer.
        code: str, the reason in one word, for programs.
    """

    def __init__(self, message: str, status: int = 0, code: str = "unreachable") -> None:
        super().__init__(message)
        self.status, self.code = status, code


def option_name(setting: str) -> str:
    """A setting as messages name it, for the command line and for Python.

    >>> option_name("label_column")
    '--label-column (in Python label_column)'
    """
    return f"{option_of(setting)} (in Python {setting})"


def option_of(setting: str) -> str:
    """The option of the command line for something about the data; the rare ones go by ``--set``.

    >>> option_of("split_column")
    '--set data.split_column'
    """
    return "--set data.split_column" if setting == "split_column" else f"--{setting.replace('_', '-')}"


def unknown_name(kind: str, name: object, known: Iterable[str]) -> str:
    """One sentence for an unknown name, with the most similar known name, or with the known names (at most 30)."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1)
    more = f" and {len(names) - 30} more" if len(names) > 30 else ""
    hint = f"did you mean {near[0]!r}?" if near else f"known are: {', '.join(names[:30])}{more}."
    return f"Unknown {kind} {name!r}; {hint}"

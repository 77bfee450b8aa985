"""Exception classes. Every message is one sentence that says what was wrong and what was expected.

Callers decide by class and attributes, never by the text of a message. All classes derive from ``ValueError``, so code
that does not import scdh can catch them.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ScdhError(ValueError):
    """Invalid user input; the command line prints the message without a traceback and exits with status 2."""


class ConfigError(ScdhError):
    """A setting is unknown, has the wrong type, or is out of range."""


class DataError(ScdhError):
    """Images, embeddings or labels are invalid."""


class ChangedDataError(DataError):
    """The data are not those that a run was trained on."""


class CodesError(ScdhError):
    """Codes are incompatible, or a codes or index file is damaged."""


class IdError(CodesError):
    """Ids cannot be added to or removed from an index.

    Attributes:
        ids: tuple of int, the offending ids.
    """

    def __init__(self, message: str, ids: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.ids = tuple(int(one) for one in ids)


class UnknownIdError(IdError):
    """The index does not contain an id."""


class ExistingIdError(IdError):
    """An id to add is already in the index."""


class RepeatedIdError(IdError):
    """One call contains the same id more than once."""


class NoFreeIdError(IdError):
    """No id is left after the largest id of the index."""


class UnknownLabelError(CodesError):
    """No item has a label."""


class IndexLockedError(CodesError):
    """Another writer has the index file open; the call may succeed later."""


class UnsupportedError(ConfigError):
    """A search engine cannot do what was asked.

    Attributes:
        ability: str, the field of ``scdh.index.search_index.Abilities`` that is False, or the name of the feature.
    """

    def __init__(self, message: str, ability: str) -> None:
        super().__init__(message)
        self.ability = ability


class TooManyPairsError(CodesError):
    """More pairs of items are within a radius than the caller allows."""


class ModelError(ScdhError):
    """A saved model is missing, damaged, or incompatible with its input."""


class TrainingError(ScdhError):
    """Training cannot continue; the last good checkpoint remains on disk."""


class ServiceError(ScdhError):
    """``scdh serve`` rejected a request or did not answer.

    Attributes:
        status: int, the HTTP status; 0 if there was no response.
        code: str, the machine-readable reason in one word.
    """

    def __init__(self, message: str, status: int = 0, code: str = "unreachable") -> None:
        super().__init__(message)
        self.status, self.code = status, code


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception of any library means that memory could not be allocated.

    torch has a class for this on GPUs only, and OpenVINO has none: on CPUs only the text of a RuntimeError says it.
    """
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("DefaultCPUAllocator" in text or "bad_alloc" in text)


def option_name(setting: str) -> str:
    """Name of a setting in messages, for the command line and for Python.

    >>> option_name("label_column")
    '--label-column (in Python label_column)'
    """
    return f"{option_of(setting)} (in Python {setting})"


def option_of(setting: str) -> str:
    """Command-line option of a data setting; rare settings use ``--set``.

    >>> option_of("split_column")
    '--set data.split_column'
    """
    return "--set data.split_column" if setting == "split_column" else f"--{setting.replace('_', '-')}"


def unknown_name(kind: str, name: object, known: Iterable[str]) -> str:
    """Message for an unknown name: suggests the most similar known name, or lists up to 30 known names."""
    names = sorted(known)
    wanted = str(name).lower()
    in_small = {known.lower(): known for known in reversed(names)}
    near = get_close_matches(wanted, in_small, n=1) or [one for one in in_small if wanted in one][:1]
    more = f" and {len(names) - 30} more" if len(names) > 30 else ""
    hint = f"did you mean {in_small[near[0]]!r}?" if near else f"known names: {', '.join(names[:30])}{more}."
    return f"Unknown {kind} {name!r}; {hint}"

"""Result of checking one part: it is whole, or what is wrong with it and what to do."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scdh.errors import ScdhError


@dataclass(frozen=True)
class Finding:
    """One part that was read.

    Args:
        part: the file or folder.
        kind: what it is, such as "codes".
        contents: what is in it; empty if it is damaged.
        problem: one sentence; empty if it is whole.
        remedy: what to do about the problem.
    """

    part: str
    kind: str
    contents: str = ""
    problem: str = ""
    remedy: str = ""

    def line(self) -> str:
        if self.problem:
            return f"DAMAGED  {self.kind}: {self.problem} {self.remedy}".rstrip()
        return f"whole    {self.kind}: {self.part}{f' ({self.contents})' if self.contents else ''}"

    def to_dict(self) -> dict[str, str]:
        return {name: value for name, value in vars(self).items() if value}


def find(part: Path, kind: str, read: Callable[[], str], remedy: str) -> Finding:
    """Read a part; an error of the reader is the problem.

    Args:
        part: the file or folder.
        kind: what it is.
        read: reads all of it and returns its contents in a few words.
        remedy: what to do if it is damaged.
    """
    try:
        return Finding(str(part), kind, contents=read())
    except ScdhError as error:
        return Finding(str(part), kind, problem=str(error), remedy=remedy)
    except OSError as error:
        return Finding(str(part), kind, problem=f"{part} cannot be read: {error.strerror}.", remedy=remedy)

"""Names and labels of items: search engines store them with the codes, an index file has them in a file next to it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from scdh.errors import CodesError


@dataclass(frozen=True)
class Items:
    """Names and labels of n items."""

    names: Sequence[str]
    labels: Sequence[Sequence[str]]

    def take(self, rows: Iterable[int]) -> "Items":
        """The names and labels at these positions."""
        numbers = list(rows)
        return Items([self.names[row] for row in numbers], [self.labels[row] for row in numbers])


@dataclass(frozen=True)
class WithLabels:
    """A value of ``only``: items that have at least one of these labels, which the engine finds itself."""

    labels: tuple[str, ...]


def stored_items(names: Iterable[str | None], labels: Iterable[Sequence[str | None] | None]) -> Items:
    """What an engine holds; null, which other programs may have written, means none.

    >>> stored_items([None, "a"], [None, ["x", None]])
    Items(names=['', 'a'], labels=[[], ['x']])
    """
    return Items([name or "" for name in names], [[one for one in own or () if one is not None] for own in labels])


def check_items(items: Items | None, count: int) -> Items:
    """Names and labels of ``count`` items that every engine can store; None gives empty ones.

    Raises:
        CodesError: if their number differs, or a text is not valid Unicode or holds a zero character.
    """
    if items is None:
        return Items([""] * count, [()] * count)
    if (len(items.names), len(items.labels)) != (count, count):
        raise CodesError(
            f"{count} codes need {count} names and labels, got {len(items.names)} and {len(items.labels)}."
        )
    seen: set[str] = set()
    for name, labels in zip(items.names, items.labels, strict=True):
        for text in (name, *labels):
            if text not in seen and not is_storable(text):
                raise CodesError(f"Search engines store text as UTF-8 without zero characters, so rename {text!r}.")
        seen.update(labels)
    return items


def is_storable(text: str) -> bool:
    """Whether a text is valid Unicode without zero characters.

    >>> is_storable("é"), is_storable("bytes of a file name: \\udcff")
    (True, False)
    """
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False

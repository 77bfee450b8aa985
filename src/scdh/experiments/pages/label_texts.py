"""Labels as short texts for pages."""

from collections import Counter
from collections.abc import Sequence


def short_names(names: Sequence[str]) -> list[str]:
    """``value`` for labels ``column=value`` of several columns, unless two values would be the same.

    >>> short_names(["kind=pear", "kind=orange", "sort=orange"])
    ['pear', 'kind=orange', 'sort=orange']
    """
    values = _values(names)
    times = Counter(values)
    return [value if times[value] == 1 else name for value, name in zip(values, names, strict=True)]


def label_text(names: Sequence[str], most: int = 4) -> str:
    """The labels of one item, without their columns.

    >>> label_text(["kind=pear", "sort=Anjou"]), label_text(["a", "b", "c"], most=2)
    ('pear, Anjou', 'a, b +1')
    """
    values = list(dict.fromkeys(_values(names)))
    return ", ".join(values[:most]) + (f" +{len(values) - most}" if len(values) > most else "")


def _values(names: Sequence[str]) -> list[str]:
    """A label of a single column may contain "=" itself, so labels are split only if all have it."""
    has_columns = all("=" in name for name in names)
    return [name.partition("=")[2] or name if has_columns else name for name in names]

"""Parse labels in cells of text: one per cell, or several that are separated by a sign or written as a list."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, compress
from typing import Any

import numpy as np

AUTO, WHOLE = "auto", "none"  # values of label_separator that are not themselves a separator
ALWAYS_SPLIT = re.compile("[;|]")
OTHER_SEPARATORS = (",", "/", " ")  # they also occur within names, so the cells decide
MANY_CLASSES = 200
MOST_DIGITS = 4000  # Python reads no longer numbers; such a cell is a name
NO_VALUE = ("nan", "<na>", "null", "#n/a")  # how programs write a missing value as text, in any capitals
LIST_ITEM = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^\s,'"\[\]][^,'"\[\]]*)""")


def parse_label_cells(
    cells: Sequence[str | None], separator: str, *, what: str, read_numbers: bool, decides: np.ndarray | None = None
) -> tuple[list[Any], bool]:
    """The labels of each cell.

    Args:
        cells: None, "" or text such as "nan" for no label.
        separator: the text between two labels; "none": a cell is one label; "auto": lists such as "['a', 'b']" are
            read as lists, cells are split at ; and |, and at commas where this leaves less than half as many labels
            as there were different cells.
        what: how messages call the column.
        read_numbers: whether text such as "12" stands for a number, because the file has no other form for it.
        decides: bool [n], the cells that decide whether labels are numbers, lists or separated, so that queries change
            neither the order of the classes nor how many labels an item may have; None: all.

    Returns:
        The label of each cell, or a list of labels of each cell; and whether these are lists.
    """
    texts = _without_missing([cell or "" for cell in cells], what)
    stripped = [text.strip() for text in texts]
    deciding = stripped if decides is None or not decides.any() else list(compress(stripped, decides))
    split = _chosen_split(deciding, separator, what)
    if split is not None:
        are_numbers = _all_whole([label for text in deciding for label in split(text)])
        lists = [split(text) for text in stripped]
        return [[_number(label) for label in row] for row in lists] if are_numbers else lists, True
    if not read_numbers:
        return texts, False
    present = [text for text in deciding if text]
    if present and _all_whole(present):
        return [_number(text) if text else None for text in stripped], False
    return stripped, False


def _without_missing(texts: list[str], what: str) -> list[str]:
    """The same with "" for text that stands for a missing value; a warning names it."""
    found = Counter(text.strip() for text in texts if text.strip().lower() in NO_VALUE)
    if not found:
        return texts
    listed = ", ".join(f"{word!r} ({count:,} rows)" for word, count in sorted(found.items()))
    warnings.warn(f"{_capital(what)} holds {listed}, which is read as no label.", stacklevel=2)
    return ["" if text.strip() in found else text for text in texts]


Split = Callable[[str], list[str]]


def _chosen_split(texts: list[str], separator: str, what: str) -> Split | None:
    """How the labels of a cell are separated; None if a cell is one label."""
    if separator != AUTO:
        return None if separator == WHOLE else _split_at(separator)
    different = {text for text in texts if text}
    if different and all(text.startswith("[") and text.endswith("]") for text in different):
        return _list_items
    if any(ALWAYS_SPLIT.search(text) for text in texts):
        return lambda text: _stripped(ALWAYS_SPLIT.split(text))
    return _split_at_commas(texts, different, what)


def _split_at_commas(texts: list[str], different: set[str], what: str) -> Split | None:
    """Commas separate labels if the same few parts occur in many different cells: "Smith, John" does not repeat its
    parts, "sea, sky" does. In unclear cases the cell stays whole, and a warning says how to split it.
    """
    size = len(different)
    if 2 * (labels := _count_labels(different, ",")) < size:
        warnings.warn(
            f"{_capital(what)} holds several labels per cell, separated by commas: {labels} labels instead of "
            f"{size} different cells; --label-separator none (in Python label_separator) keeps cells whole.",
            stacklevel=2,
        )
        return _split_at(",")
    is_suspicious = size > MANY_CLASSES or 2 * size > sum(map(bool, texts))
    for sign in OTHER_SEPARATORS:
        if not any(sign in text for text in different):
            continue
        # A comma within names is rare enough to ask about; a space is not, unless splitting changes much.
        if _count_labels(different, sign) <= (size if sign == "," else size // 2 if is_suspicious else 0):
            warnings.warn(
                f"{_capital(what)} has {size} different values in {len(texts)} rows; if a cell holds several labels, "
                f'--label-separator "{sign}" (in Python label_separator) splits it, and "none" says that it does not.',
                stacklevel=2,
            )
            break
    return None


def _count_labels(cells: set[str], sign: str) -> int:
    """How many different labels there would be."""
    return len(set(chain.from_iterable(map(_split_at(sign), cells))))


def _split_at(sign: str) -> Split:
    return lambda text: _stripped(text.split(sign))


def _stripped(parts: list[str]) -> list[str]:
    return [label for part in parts if (label := part.strip())]


def _list_items(text: str) -> list[str]:
    """The items of a list that Python or JSON wrote as text; numpy leaves out the commas."""
    if not (text.startswith("[") and text.endswith("]")):
        return _stripped([text])
    return _stripped(["".join(groups) for groups in LIST_ITEM.findall(text[1:-1])])


def _all_whole(texts: list[str]) -> bool:
    """Whether all are integers in their usual form; "007" is not."""
    return all(isinstance(_number(text), int) for text in texts)


def _number(text: str) -> int | str:
    """The integer that a text is, or the text."""
    return int(text) if len(text) <= MOST_DIGITS and re.fullmatch("0|-?[1-9][0-9]*", text) else text


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

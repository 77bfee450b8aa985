"""Arguments of the methods of an index, checked: ids and whole numbers."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scdh.code_arguments import check_ids
from scdh.errors import CodesError


def id_row(ids: ArrayLike) -> NDArray[np.int64]:
    """Ids as int64 [n]; a single id gives one row."""
    return check_ids(np.atleast_1d(np.asarray(ids)), np.size(ids))


def whole_number(value: object, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise CodesError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    return int(value)

"""The input ranges of the layers of an INT8 model, stored with its weights."""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from scdh.storage.tensor_files import short

FLOAT32, INT8 = "float32", "int8"  # the precisions that a model may have
# float32 reaches from about 1e-38 to 3e38, and the steps between 256 levels must be float32 numbers too.
NARROWEST, LARGEST = 1e-30, 1e30


@dataclass(frozen=True)
class Quantisation:
    """How a network is rounded to 8 bits. Weight scales are derived from the weights.

    Args:
        ranges: by name of a layer in the trunk, the lowest and the highest number that it takes, with 0 between them;
            None for a layer that stays in float32.
    """

    ranges: Mapping[str, tuple[float, float] | None]

    def fingerprint(self, of_weights: str) -> str:
        """16 hex digits of the model, given those of its weights: never those of the float32 model."""
        text = json.dumps([of_weights, INT8, self.to_dict()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def check_fits(self, layers: Iterable[str]) -> None:
        """Raise if the ranges belong to other layers than those of the network.

        Raises:
            ValueError: with a short reason.
        """
        expected = set(layers)
        for name in sorted(expected ^ self.ranges.keys()):
            raise ValueError(
                f"it has no range of layer {short(name)}"
                if name in expected
                else f"it has a range of layer {short(name)}, which the network lacks"
            )

    def to_dict(self) -> dict[str, list[float] | None]:
        return {name: None if limits is None else list(limits) for name, limits in self.ranges.items()}

    @classmethod
    def from_dict(cls, content: Any) -> "Quantisation":
        """The inverse of :meth:`to_dict`; the input may be untrusted.

        Raises:
            ValueError: with a short reason.
        """
        if not isinstance(content, dict):
            raise ValueError("its ranges are not a table")
        return cls({name: None if limits is None else _range(name, limits) for name, limits in content.items()})


def _range(name: str, limits: Any) -> tuple[float, float]:
    is_pair = isinstance(limits, list) and len(limits) == 2 and all(type(limit) in (int, float) for limit in limits)
    low, high = map(_number, limits) if is_pair else (math.nan, math.nan)
    if not (-LARGEST <= low <= 0 <= high <= LARGEST and high - low >= NARROWEST):
        raise ValueError(f"the range of layer {short(name)} cannot be {short(limits)}")
    return low, high


def _number(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # JSON allows whole numbers of any length
        return math.nan

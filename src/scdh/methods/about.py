"""What a method says of itself, and what its settings derive from. Imports no torch."""

from dataclasses import dataclass
from typing import Literal

from scdh.config import Settings

__all__ = ["About", "Settings"]


@dataclass(frozen=True)
class About:
    """What ``scdh methods`` shows.

    Args:
        title: the name in tables and on pages.
        kind: what the loss is over: unary, pairwise, triplet …
        year: of publication.
        reference: authors, title, venue.
        cost: of one step, in B (batch), C (classes), r (bits), n (training rows).
        fidelity: how near the implementation is to the publication; "variant": a departure that changes results;
            "reconstruction": the formulas are not known for certain.
        differs: what differs from the publication, or what is uncertain; "" where nothing does.
        use_when: when to take this method, as the end of a sentence.
        labels: kinds of labels it can learn from, "single" and "multi".
        bits_multiple: its lengths of codes are multiples of this number.
    """

    title: str
    kind: str
    year: int
    reference: str
    cost: str
    fidelity: Literal["faithful", "variant", "reconstruction"]
    differs: str = ""
    use_when: str = ""
    labels: tuple[str, ...] = ("single", "multi")
    bits_multiple: int = 1

    def has_length(self, bits: int) -> bool:
        return bits % self.bits_multiple == 0

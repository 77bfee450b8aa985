"""What a method says of itself, and what its settings derive from. Imports no torch."""

from dataclasses import dataclass

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
        faithful: how near the implementation is to the publication.
        labels: kinds of labels it can learn from, "single" and "multi".
    """

    title: str
    kind: str
    year: int
    reference: str
    cost: str
    faithful: str
    labels: tuple[str, ...] = ("single", "multi")

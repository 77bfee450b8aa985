"""Codes of two models have nothing to do with each other, whatever their distance says."""

from collections.abc import Mapping

from scdh.errors import CodesError


def refuse_other_model(one: Mapping[str, str], other: Mapping[str, str], one_name: str, other_name: str) -> None:
    """Compare the ``model`` in the metadata of two sets of codes; codes that say nothing are taken on trust."""
    first, second = one.get("model"), other.get("model")
    if first is not None and second is not None and first != second:
        raise CodesError(
            f"{one_name} and {other_name} come from different models ({first} and {second}), "
            "so their distances mean nothing."
        )

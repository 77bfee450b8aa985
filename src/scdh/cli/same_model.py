"""Distances between codes of two models mean nothing, so such codes are refused."""

from collections.abc import Mapping

from scdh.errors import CodesError


def check_same_model(first: Mapping[str, str], second: Mapping[str, str], first_name: str, second_name: str) -> None:
    """Compare the ``model`` in the metadata of two sets of codes; codes without one are accepted.

    Raises:
        CodesError: if both name a model, and not the same.
    """
    first_model, second_model = first.get("model"), second.get("model")
    if first_model is not None and second_model is not None and first_model != second_model:
        raise CodesError(
            f"{first_name} and {second_name} come from different models ({first_model} and {second_model}), "
            "so their distances mean nothing."
        )

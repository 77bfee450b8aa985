"""Checks of codes given to an index or a score: their type, number of bits, and ranking."""

from collections.abc import Mapping

from scdh.codes import HAMMING, Codes
from scdh.codes.advice import advice, describe
from scdh.errors import CodesError

_USUAL_CALL = "; Codes.from_signs(array) makes them of real numbers [n, bits]"
_OTHER_WAY = {
    HAMMING: ", so Hamming distances cannot rank them; `scdh search INDEX --model RUN` and `scdh evaluate RUN` can"
}


def check_codes(value: object, name: str, bits: int | None = None) -> Codes:
    """Return the value, which must be ``Codes``, with ``bits`` bits if given."""
    if not isinstance(value, Codes):
        raise CodesError(f"{name} must be Codes, got {describe(value)}{advice(value) or _USUAL_CALL}.")
    if bits is not None and value.bits != bits:
        raise CodesError(f"{name} have {value.bits} bits, but {bits} bits were expected.")
    return value


def check_ranked_codes(value: object, name: str, bits: int | None, ranking: str) -> Codes:
    """As ``check_codes``; also reject codes that rank items by a distance other than ``ranking``."""
    codes = check_codes(value, name, bits)
    if codes.ranking != ranking:
        raise CodesError(f"{name} are ranked by {codes.ranking}, not by {ranking}{_OTHER_WAY.get(ranking, '')}.")
    return codes


def check_ranking(ranking: str, otherwise: str) -> None:
    """Raise if the codes are not ranked by Hamming distance; ``otherwise`` ends the message with an alternative."""
    if ranking != HAMMING:
        raise CodesError(f"The codes of this index are ranked by {ranking}, not by {HAMMING}; {otherwise}.")


def check_hamming_codes(value: object, name: str, bits: int | None = None) -> Codes:
    """As ``check_codes``; also reject codes that rank items by a distance other than Hamming distance."""
    return check_ranked_codes(value, name, bits, HAMMING)


def check_same_model(first: Mapping[str, str], second: Mapping[str, str], first_name: str, second_name: str) -> None:
    """Raise if the codes come from two models, because distances between them mean nothing.

    The entry ``model`` of their metadata is compared; codes without one are accepted.

    Raises:
        CodesError: if both name a model, and the models differ.
    """
    first_model, second_model = first.get("model"), second.get("model")
    if first_model is not None and second_model is not None and first_model != second_model:
        raise CodesError(
            f"{first_name} and {second_name} come from different models ({first_model} and {second_model}), "
            "so their distances mean nothing."
        )


def searched_bits(bits: int, model: str | None, index_bits: int, index_metadata: Mapping[str, str]) -> int:
    """How many leading bits of the queries to search with: all, or those of the index if it holds fewer of the same
    model.

    Args:
        bits: of the codes.
        model: fingerprint of the model that made them; None if it is not known.
        index_bits: of the index.
        index_metadata: of the index, which may name its model.
    """
    is_same_model = model is not None and index_metadata.get("model") == model
    return min(bits, index_bits) if is_same_model else bits

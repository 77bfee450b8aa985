"""Whatever is given in place of codes, the message names a call that works: the advice is followed here."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scdh import Codes, HammingIndex, evaluate
from scdh.errors import CodesError

RNG = np.random.default_rng(0)
BITS = RNG.integers(0, 2, (6, 16), dtype=np.uint8)
BITS[0, :2] = 0, 1
CODES = Codes.from_bits(BITS)
INDEX = HammingIndex(CODES)
SIGNS, REAL = CODES.signs(), CODES.signs() * RNG.uniform(0.1, 3, BITS.shape)

# What is given, and the codes that somebody who gives it means.
GIVEN: dict[str, tuple[Any, Codes]] = {
    "real numbers": (REAL, CODES),
    "signs": (SIGNS, CODES),
    "bits": (BITS, CODES),
    "bits as int64": (BITS.astype(np.int64), CODES),
    "bits as floats": (BITS.astype(np.float32), CODES),
    "booleans": (BITS.astype(bool), CODES),
    "packed bytes": (CODES.packed, CODES),
    "words": (CODES.words(), Codes(CODES.words().view(np.uint8), 64)),
    "list of real numbers": (REAL.tolist(), CODES),
    "list of bits": (BITS.tolist(), CODES),
    "list of signs": (SIGNS.tolist(), CODES),
    "tensor": (torch.tensor(REAL), CODES),
    "tensor with gradient": (torch.tensor(REAL, requires_grad=True), CODES),
    "tensor of bfloat16": (torch.tensor(REAL).bfloat16(), CODES),
    "tensor of bits": (torch.tensor(BITS).float(), CODES),
    "one row of real numbers": (REAL[0], CODES[0]),
    "one row as a list": (REAL[0].tolist(), CODES[0]),
    "one row of bits": (BITS[0], CODES[0]),
    "one packed row": (CODES.packed[0], CODES[0]),
    "several codes": ([CODES[:2], CODES[2:]], CODES),
}
CALLS = {
    "HammingIndex": HammingIndex,
    "add": INDEX.add,
    "search": INDEX.search,
    "within": INDEX.within,
    "evaluate": lambda given: evaluate(given, np.zeros(6), CODES, np.zeros(6)),
    "from_signs": Codes.from_signs,
    "from_bits": Codes.from_bits,
    "Codes": lambda given: Codes(given, 16),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("call", CALLS)
def test_the_advice_works(given: str, call: str) -> None:
    value, meant = GIVEN[given]
    try:
        result = CALLS[call](value)
    except CodesError as error:
        (advised,) = re.findall(r"; (Codes[^ ]*\(.*?\)) \w", str(error))
        result = eval(advised, {"Codes": Codes, "array": value, "parts": value})
    assert result == meant


@pytest.mark.parametrize("given", [None, "x.codes", Path("x.codes"), [["a"]], np.zeros((2, 3, 4)), [[1], [1, 2]], {}])
@pytest.mark.parametrize("call", CALLS)
def test_what_no_call_takes_is_rejected_in_one_sentence(given: Any, call: str) -> None:
    with pytest.raises(CodesError) as error:
        CALLS[call](given)
    message = str(error.value)
    assert message.endswith(".")
    assert "\n" not in message
    if isinstance(given, str | Path):
        assert "Codes.load(path)" in message
    elif call.startswith("from_"):  # not back to where it came from
        assert "Codes.from_" not in message


def test_signs_of_bits_are_rejected_but_those_of_zeros_are_not() -> None:
    """0/1 values have only the sign +; outputs that are all 0 come from a dead network, and are real numbers."""
    with pytest.raises(CodesError, match=r"The 0/1 values have no sign; Codes.from_bits\(array\)"):
        Codes.from_signs([[0.0, 1.0]])
    assert Codes.from_signs([[0.0, 0.0]]).unpack().tolist() == [[1, 1]]
    assert Codes.from_signs([[1, 1]]).unpack().tolist() == [[1, 1]]

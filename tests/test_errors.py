"""Errors of other libraries that scdh tells apart."""

import pytest
import torch

from scdh.cli.app import explain
from scdh.errors import is_out_of_memory


def test_memory_that_torch_cannot_allocate_is_one_sentence() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 50)
    for error in (raised.value, MemoryError(), torch.OutOfMemoryError("CUDA out of memory")):
        assert is_out_of_memory(error)
        assert explain(error)[1].startswith("Error: There is not enough memory; ")
    assert not is_out_of_memory(RuntimeError("shapes differ"))

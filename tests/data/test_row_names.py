"""Names of rows: from ids to names and back."""

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.data import RowNames
from scdh.errors import CodesError, DataError
from scdh.index import HammingIndex

ROWS = RowNames(np.array([7, 9, 2]), ["SKU-17", "SKU-4", "SKU-4"], np.array([-1, -1, -1]), [])


def test_names_of_hits(tmp_path):
    index = HammingIndex(Codes.from_bits([[0, 0, 0], [1, 1, 1], [0, 0, 1]]), ids=[7, 9, 2])
    hits = index.search(Codes.from_bits([[0, 0, 0], [1, 1, 1]]), k=2)
    assert ROWS.names_of(hits.ids).tolist() == [["SKU-17", "SKU-4"], ["SKU-4", "SKU-4"]]
    assert ROWS.names_of(hits[0].ids).tolist() == ["SKU-17", "SKU-4"]
    assert ROWS.names_of([]).tolist() == []
    assert ROWS.names_of(7).item() == "SKU-17"
    with pytest.raises(DataError, match="Id 8 has no name; there are names of 3 other ids"):
        ROWS.names_of([7, 8])
    with pytest.raises(CodesError, match=r"no codes or index file at .*a\.index to keep names with"):
        ROWS.save(tmp_path / "a.index")
    index.save(tmp_path / "a.index")
    ROWS.save(tmp_path / "a.index")
    for read in (RowNames.load(tmp_path / "a.index"), RowNames.read(str(tmp_path / "a.index.items"))):
        assert read is not None
        assert read.names_of([2]).tolist() == ["SKU-4"]
    assert RowNames.read(tmp_path / "other.items") is None


def test_ids_of_a_name():
    assert (ROWS.ids_of("SKU-17"), ROWS.ids_of("SKU-4"), ROWS.ids_of("sku-4")) == ([7], [9, 2], [])

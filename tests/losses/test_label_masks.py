"""Which rows share a label."""

import pytest
import torch

from scdh.errors import DataError
from scdh.losses.label_masks import similar


def test_similar_rows_share_a_label():
    y = torch.tensor([0, 1, -1, 0])
    assert similar(y, y).int().tolist() == [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    hot = torch.tensor([[1, 1, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0]], dtype=torch.uint8)
    assert similar(hot, hot).int().tolist() == [[1, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]]
    with pytest.raises(DataError, match="cannot be compared"):
        similar(y, hot)

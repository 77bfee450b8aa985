"""Order of hits at the same distance in `scdh search`."""

import numpy as np
import pytest

from scdh import Codes, HammingIndex
from scdh.cli.search_hits import SearchRequest
from scdh.cli.search_queries import SearchQueries
from scdh.data.row_names import RowNames

BITS = [[0, 0, 0, 0]] * 4 + [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
NAMES = RowNames(np.arange(8), [f"{name}.jpg" for name in "abcdefgh"], np.full(8, -1), [])


def ids_of(k: int, queries: SearchQueries, **options: object) -> list[int]:
    index = HammingIndex(Codes.from_bits(BITS))
    request = SearchRequest(index, k, **{"radius": None, "allowed": None, "left_out": None, **options})
    return next(ids.tolist() for ids, _ in request.find(queries))


@pytest.fixture
def query() -> Codes:
    return Codes.from_bits([[0, 0, 0, 0]])


def test_the_query_s_own_item_comes_first(query):
    assert ids_of(2, SearchQueries(query, ["d.jpg"])) == [0, 1]
    assert ids_of(2, SearchQueries(query, ["d.jpg"], items=NAMES)) == [3, 0]
    assert ids_of(3, SearchQueries(query, ["c.jpg"], items=NAMES), radius=0) == [2, 0, 1]


def test_a_name_alone_does_not_make_an_item_the_query(query):
    """h.jpg has another code, so it is another picture; a filter leaves out d.jpg; x.jpg is not in the index."""
    assert ids_of(2, SearchQueries(query, ["h.jpg"], items=NAMES)) == [0, 1]
    assert ids_of(2, SearchQueries(query, ["d.jpg"], items=NAMES), allowed=np.array([0, 1, 5])) == [0, 1]
    assert ids_of(2, SearchQueries(query, ["x.jpg"], items=NAMES)) == [0, 1]


def test_outputs_order_items_at_the_same_distance_also_at_the_end_of_the_list(query):
    weights = np.array([[0.9, 0.2, 0.5, 0.1]])
    queries = SearchQueries(query, ["x.jpg"], tie_weights=weights)
    assert ids_of(6, queries) == [0, 1, 2, 3, 7, 5]
    assert ids_of(8, queries) == [0, 1, 2, 3, 7, 5, 6, 4]
    assert ids_of(6, queries, radius=1) == [0, 1, 2, 3, 7, 5]
    assert queries.tie_order == "the query's real outputs"

"""The interface that the local index and every engine implement."""

import inspect

import pytest

from scdh.codes import Codes
from scdh.errors import CodesError, ConfigError
from scdh.index import HammingIndex
from scdh.index.engines import _ENGINES, engine_of, is_engine_address, open_index
from scdh.index.search_index import SearchEngine, SearchIndex


def _calls(protocol: type) -> dict[str, object]:
    names = [name for name in dir(protocol) if not name.startswith("_") and name != "abilities"]
    return {name: inspect.getattr_static(protocol, name) for name in names}


@pytest.mark.parametrize("scheme", sorted(_ENGINES))
def test_each_engine_has_every_call_with_the_same_arguments(scheme):
    engine = engine_of(f"{scheme}://host/name")
    for name, declared in _calls(SearchEngine).items():
        own = inspect.getattr_static(engine, name)
        if inspect.isfunction(declared):
            wanted = inspect.signature(declared).parameters
            assert list(wanted) == [one for one in inspect.signature(own).parameters if one in wanted], name


def test_the_local_index_has_every_call():
    for name in _calls(SearchIndex):
        assert inspect.getattr_static(HammingIndex, name)


def test_a_name_is_an_index_file_unless_it_begins_with_the_scheme_of_an_engine(tmp_path):
    for name in (tmp_path / "a.index", "milvus", "a"):
        assert not is_engine_address(name)
    HammingIndex(Codes.from_bits([[0, 1], [1, 1]])).save(tmp_path / "a.index")
    assert len(open_index(str(tmp_path / "a.index"))) == 2
    with pytest.raises(CodesError, match=r"There is no scdh-index file at nothing\.index"):
        open_index("nothing.index")
    with pytest.raises(ConfigError, match="The address of a search engine is milvus://"):
        engine_of("mysql://user:secret@host/name")


def test_an_index_tells_which_ids_it_holds():
    index = HammingIndex(Codes.from_bits([[0, 1], [1, 1], [0, 0]]), ids=[5, 3, 900])
    index.remove(3)
    assert index.contains([900, 3, 5, 7]).tolist() == [True, False, True, False]
    assert index.filter_of(index.ids[1:]).tolist() == [False, True]

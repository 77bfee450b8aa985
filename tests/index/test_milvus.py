"""The Milvus index against the exact one, in a local file of milvus-lite; no server and no network."""

import re
import socket
import subprocess
import sys
from concurrent import futures
from importlib import metadata

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scdh.codes import Codes
from scdh.errors import CodesError, ConfigError
from scdh.index import HammingIndex
from scdh.index.milvus import MilvusIndex, is_milvus_uri
from scdh.index.milvus import contents as milvus_contents
from scdh.index.milvus import rankings as milvus_rankings
from scdh.index.milvus import server as milvus_server
from scdh.index.milvus.uri import parse_uri

grpc = pytest.importorskip("grpc")
pymilvus = pytest.importorskip("pymilvus")

LENGTHS = [1, 7, 8, 12, 13, 48, 64, 65, 128, 1000]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """One file for all tests: milvus-lite takes half a second to start."""
    file = tmp_path_factory.mktemp("milvus") / "tests.db"
    with MilvusIndex.create(f"milvus:{file}/keeps_the_file_open", 8):
        yield file


@pytest.fixture
def uri(file, request):
    """The address of a collection that is not there, removed after the test."""
    address = f"milvus:{file}/{re.sub('[^a-zA-Z0-9]', '_', request.node.name)}"
    yield address
    drop(address)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(milvus_server, "FIRST_WAIT", 0.001)


def drop(address):
    server = milvus_server.MilvusServer(parse_uri(address))
    server.call("drop_collection")
    server.close()


def random_codes(rows, bits, seed, ids=None, flip=0.1):
    """Rows near a few centres, so that there are many ties and many different distances."""
    rng = np.random.default_rng(seed)
    centres = rng.random((3, bits)) < 0.5
    return Codes.from_signs(centres[rng.integers(0, 3, rows)] ^ (rng.random((rows, bits)) < flip), ids)


def random_ids(rows, seed):
    return np.random.default_rng(seed).choice(np.arange(-1000, 1000), size=rows, replace=False)


def assert_same(found, expected):
    for name in vars(expected):
        ours, theirs = getattr(found, name), getattr(expected, name)
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("limits", [(16_384, 1_024), (16, 4)], ids=["as_they_are", "tiny"])
@pytest.mark.parametrize("bits", LENGTHS)
def test_answers_are_those_of_the_exact_index(uri, bits, limits, monkeypatch):
    """With tiny limits every way to complete an answer is walked: full levels, halves of halves."""
    monkeypatch.setattr(milvus_rankings, "MOST_HITS", limits[0])
    monkeypatch.setattr(MilvusIndex, "MOST_HITS", limits[0])
    monkeypatch.setattr(milvus_rankings, "FIRST_HITS", limits[1])
    codes, asked, some = random_codes(240, bits, 1, random_ids(240, 3)), random_codes(5, bits, 2), random_ids(100, 4)
    exact = HammingIndex(codes)
    with MilvusIndex.create(uri, bits) as index:
        index.upsert(codes)
        assert len(index) == 240
        for k in (1, 2, 16) if limits[0] == 16 else (1, 20, 239, 240, 10**6):
            assert_same(index.search(asked, k), exact.search(asked, k))
            assert_same(index.search(asked, k, only=some), exact.search(asked, k, only=some))
        for radius in (0, 2, bits // 3, bits + 5):
            assert_same(index.within(asked, radius), exact.within(asked, radius))
        assert_same(index.within(asked, bits // 3, only=some), exact.within(asked, bits // 3, only=some))


@pytest.mark.slow
def test_candidates_by_bits_are_ranked_by_weight(uri):
    codes, asked = random_codes(240, 24, 1, random_ids(240, 3)), random_codes(4, 24, 2)
    weights = np.random.default_rng(5).random((4, 24))
    exact = HammingIndex(codes)
    with MilvusIndex.create(uri, 24) as index:
        index.upsert(codes)
        assert_same(index.search(asked, 10, weights=weights), exact.search(asked, 10, weights=weights))
        few = index.search(asked, 10, weights=weights, candidates=12)
        nearest = exact.search(asked, 12).ids
        assert all(set(few.ids[query]) <= set(nearest[query]) for query in range(4))
        with pytest.raises(CodesError, match="candidates must be an integer of at least 10"):
            index.search(asked, 10, weights=weights, candidates=9)


@pytest.mark.slow
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bits=st.integers(1, 9),
    rows=st.lists(st.integers(0, 511), min_size=1, max_size=60),
    k=st.integers(1, 8),
    most=st.integers(8, 20),
    seed=st.integers(0, 99),
)
def test_any_small_codes_are_ranked_exactly(uri, monkeypatch, bits, rows, k, most, seed):
    monkeypatch.setattr(milvus_rankings, "MOST_HITS", most)
    monkeypatch.setattr(milvus_rankings, "FIRST_HITS", 3)
    codes = Codes.from_bits((np.array(rows)[:, None] >> np.arange(bits)) & 1, random_ids(len(rows), seed))
    with MilvusIndex.create(uri, bits) as index:
        index.load(codes)
        assert_same(index.search(codes[:3], k), HammingIndex(codes).search(codes[:3], k))
        assert_same(index.within(codes[:3], k // 2), HammingIndex(codes).within(codes[:3], k // 2))
    drop(uri)


@pytest.mark.slow
def test_a_level_beyond_the_largest_answer_is_completed(uri):
    """20,000 equal codes: Milvus gives 16,384 of them, in its own choice."""
    codes = Codes(np.zeros((20_000, 1), np.uint8), 8, np.random.default_rng(0).permutation(20_000))
    with MilvusIndex.create(uri, 8) as index:
        index.upsert(codes)
        assert index.search(codes[:1], 7).ids.tolist() == [list(range(7))]
        assert index.search(codes[:1], 16_384).ids.tolist() == [list(range(16_384))]
        assert index.within(codes[:1], 0).ids.tolist() == list(range(20_000))
        with pytest.raises(CodesError, match="at most 16384 nearest items, got k = 16385"):
            index.search(codes[:1], 16_385)
        with pytest.raises(CodesError, match="at most 100000 ids, got 100001"):
            index.search(codes[:1], only=np.arange(100_001))


def test_codes_are_read_row_by_row_where_pymilvus_keeps_them_differently(uri, monkeypatch):
    codes = random_codes(20, 13, 5)
    with MilvusIndex.create(uri, 13) as index:
        index.upsert(codes)
        whole = milvus_contents._packed
        monkeypatch.setattr(milvus_contents, "_packed", lambda rows, width: whole(list(rows), width))
        assert index.codes_of(np.arange(20)).packed.tolist() == codes.packed.tolist()


@pytest.mark.parametrize("largest", [-5, 0, 9, 10**6, 2**40 + 3, 2**63 - 3])
def test_new_ids_count_on_from_the_largest(uri, largest):
    codes = random_codes(10, 12, 8)
    with MilvusIndex.create(uri, 12) as index:
        index.add(codes[:8], [largest, largest - 1, -8, -7, -100, -101, -(2**63) + 1, -1000])
        index.add(codes[8:])
        assert index.contains([largest + 1, largest + 2]).all()
        assert len(index) == 10
        if largest > 2**62:
            with pytest.raises(CodesError, match="no free ids after the largest"):
                index.add(codes)


class Stumbling:
    """Stands in for pymilvus's client and fails at every third call, after or before doing it."""

    def __init__(self, client, error, after=False):
        self.client, self.error, self.after, self.calls, self.failed = client, error, after, 0, 0

    def __getattr__(self, name):
        method = getattr(self.client, name)

        def call(**arguments):
            self.calls += 1
            if self.calls % 3:
                return method(**arguments)
            self.failed += 1
            if self.after:
                method(**arguments)
            raise self.error

        return method if name == "close" else call


class Away(grpc.RpcError):
    def __init__(self, state, details="it\nfailed."):
        self.state, self.text = state, details

    def code(self):
        return self.state

    def details(self):
        return self.text


PASSING = [
    Away(grpc.StatusCode.UNAVAILABLE),
    pymilvus.MilvusException(code=8, message="rate limit"),
    pymilvus.MilvusException(code=grpc.StatusCode.DEADLINE_EXCEEDED, message="too late"),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", PASSING, ids=["unavailable", "rate", "late"])
def test_passing_trouble_is_waited_out(uri, monkeypatch, error, after):
    monkeypatch.setattr(MilvusIndex, "BATCH_ROWS", 7)
    codes = random_codes(100, 12, 9)
    with MilvusIndex.create(uri, 12) as index:
        index._store.server.client = stumbling = Stumbling(index._store.server.client, error, after)
        assert index.load(codes) == 100
        assert_same(index.search(codes[:9], 5), HammingIndex(codes).search(codes[:9], 5))
        index.remove(np.arange(50))
        assert stumbling.failed >= 5
        assert len(index) == 50
        assert index.codes_of(np.arange(50, 100)).packed.tolist() == codes.packed[50:].tolist()


@pytest.mark.parametrize(
    ("error", "kind", "words", "calls"),
    [
        (Away(grpc.StatusCode.UNAVAILABLE), ConfigError, "could not answer upsert now: it.", 6),
        (pymilvus.MilvusException(1100, "bad dim.\nmore"), CodesError, "rejected upsert: bad dim.", 1),
        (pymilvus.exceptions.ParamError(message="wrong"), CodesError, "rejected upsert: wrong.", 1),
        (Away(grpc.StatusCode.INVALID_ARGUMENT, ""), CodesError, "rejected upsert: it gave no reason.", 1),
        (Away(grpc.StatusCode.UNAUTHENTICATED), ConfigError, "did not accept the user or the password", 1),
    ],
)
def test_lasting_trouble_is_one_sentence(uri, error, kind, words, calls):
    class Broken:
        calls = 0

        def upsert(self, **arguments):
            self.calls += 1
            raise error

    with MilvusIndex.create(uri, 12) as index:
        client, index._store.server.client = index._store.server.client, Broken()
        with pytest.raises(kind, match=re.escape(words)) as found:
            index.upsert(random_codes(5, 12, 1))
        assert "\n" not in str(found.value)
        assert index._store.server.client.calls == calls
        index._store.server.client = client


def test_collections_of_others_and_wrong_lengths_are_rejected(uri, file):
    with pytest.raises(CodesError, match=r"There is no collection at milvus:.*wrong_lengths_are_rejected\."):
        MilvusIndex.open(uri)
    MilvusIndex.create(uri, 12).close()
    with pytest.raises(CodesError, match="There already is a collection at"):
        MilvusIndex.create(uri, 12)
    with pytest.raises(CodesError, match="holds codes of 12 bits, but 13 bits were expected"):
        MilvusIndex.create_or_open(uri, 13)
    with pytest.raises(CodesError, match="bits must be an integer of at least 1, got 0"):
        MilvusIndex.create(uri, 0)
    with pytest.raises(CodesError, match="metadata key 'bits' is reserved"):
        MilvusIndex.create(uri, 12, {"bits": "13"})
    for description, words in (
        ("", "is not an index of scdh"),
        ("[1]", "is not an index of scdh"),
        ('{"format": "scdh-index", "version": "1"}', "is not an index of scdh"),
        ('{"format": "other", "version": "1", "bits": "12"}', "is not an index of scdh"),
        ('{"format": "scdh-index", "version": "2", "bits": "12"}', "is an index of version '2', but only '1'"),
        ('{"format": "scdh-index", "version": "1", "bits": "30"}', "field 'code' is not 32 bits wide"),
    ):
        drop(uri)
        client = pymilvus.MilvusClient(str(file))
        schema = client.create_schema(auto_id=False, description=description)
        schema.add_field("id", pymilvus.DataType.INT64, is_primary=True)
        schema.add_field("code", pymilvus.DataType.BINARY_VECTOR, dim=16)
        client.create_collection(parse_uri(uri).collection, schema=schema)
        client.close()
        with pytest.raises(CodesError, match=words):
            MilvusIndex.open(uri)


@pytest.mark.parametrize(
    ("text", "shown", "url", "database", "token"),
    [
        ("milvus://host/photos", "milvus://host:19530/photos", "http://host:19530", "", ""),
        ("milvus://a:b%40c@host:1/shop/p", "milvus://host:1/shop/p", "http://host:1", "shop", "a:b@c"),
        ("milvuss://key@host/p", "milvuss://host:443/p", "https://host:443", "", "key"),
    ],
)
def test_addresses_of_servers(text, shown, url, database, token):
    found = parse_uri(text)
    assert (found.text, found.url, found.database, found.token, found.file) == (shown, url, database, token, None)
    assert not token or token not in repr(found)


def test_addresses_of_files_and_of_neither(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("milvus:a.db/p", f"milvus:{tmp_path}/a.db/p", f"milvus://{tmp_path}/a.db/p"):
        found = parse_uri(text)
        assert (found.file, found.collection, found.url) == (tmp_path / "a.db", "p", None)
    assert is_milvus_uri("milvus:a.db/p")
    assert not is_milvus_uri("milvus.index")
    assert not is_milvus_uri(tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("photos.index", "begins with milvus, got 'photos.index'"),
        ("milvus://host", "must be milvus://host:port/collection or milvus:file.db/collection, got 'milvus://host'"),
        ("milvus://ann:secret@x@host", "got 'milvus://…@host'"),
        ("milvus://ann:sec/ret@host/p", "got 'milvus://…@host/p'"),
        ("milvus://host:99999/p", "port of a Milvus server must be between 1 and 65535, got 99999"),
        ("milvus://host/1p", "name of a Milvus collection may have letters, digits and _,"),
        ("milvus://host/a-b/p", "name of a Milvus database may have letters, digits and _,"),
        ("milvus:file.sqlite/p", "local Milvus file must end in .db"),
        ("milvus:/host:19530/p", "local Milvus file must end in .db"),
        (f"milvus:{'a' * 34}.db/p", "at most 36 characters"),
        ("milvus:nowhere/a.db/p", "There is no folder nowhere for the local Milvus file a.db"),
        ("milvus:a.db", "must be milvus://host:port/collection"),
    ],
)
def test_wrong_addresses_are_rejected_in_a_sentence(text, words):
    with pytest.raises(ConfigError, match=re.escape(words)) as found:
        MilvusIndex.open(text)
    assert "sec" not in str(found.value)


def test_a_server_that_is_not_there_or_says_nothing(monkeypatch):
    monkeypatch.setattr(milvus_server, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(ConfigError, match=r"No Milvus server answered at milvus://127.*within 0\.5 seconds"):
            MilvusIndex.open(f"milvus://ann:secret@127.0.0.1:{port}/photos")
    with pytest.raises(ConfigError, match="No Milvus server answered at milvus") as found:
        MilvusIndex.open(f"milvus://ann:secret@127.0.0.1:{port}/photos")
    assert "secret" not in str(found.value)


class Guarded(grpc.GenericRpcHandler):
    """A server that rejects every login, and remembers who asked."""

    asked = None

    def service(self, details):
        def reject(request, context):
            Guarded.asked = dict(context.invocation_metadata()).get("authorization")
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "auth check failure, please check username and password")

        return grpc.unary_unary_rpc_method_handler(reject)


def test_a_wrong_password(monkeypatch):
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[Guarded()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        monkeypatch.setenv("SCDH_MILVUS_TOKEN", "ann:secret")
        with pytest.raises(ConfigError, match="did not accept the user or the password; give user") as found:
            MilvusIndex.open(f"milvus://127.0.0.1:{port}/photos")
        assert "secret" not in str(found.value)
        assert Guarded.asked == "YW5uOnNlY3JldA=="
    finally:
        server.stop(None)


@pytest.mark.slow
def test_a_file_that_is_open_elsewhere_or_no_database(file, tmp_path):
    script = f"""if True:
        from scdh.index.milvus import MilvusIndex, server
        server.CONNECT_SECONDS = 1
        MilvusIndex.open('milvus:{file}/keeps_the_file_open')
    """
    for _ in range(2):  # a rejection must not take the file from the program that has it
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stderr.splitlines()[-1].endswith("cannot be opened: another program has it open.")
    (tmp_path / "text.db").write_text("This is not a database, but a long enough text." * 100)
    with pytest.raises(ConfigError, match=r"text.db cannot be opened: it is not a file of milvus-lite"):
        MilvusIndex.open(f"milvus:{tmp_path}/text.db/photos")


@pytest.mark.slow
def test_a_link_and_its_file_have_one_server(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "folder" / "real.db")
    with MilvusIndex.create(f"milvus:{tmp_path}/folder/real.db/photos", 8) as index:
        MilvusIndex.open(f"milvus:{tmp_path}/link.db/photos").close()
        assert len(index) == 0


@pytest.mark.slow
def test_a_client_of_the_program_itself_is_left_alone(tmp_path):
    own = pymilvus.MilvusClient(uri=f"{tmp_path}/own.db")
    MilvusIndex.create(f"milvus:{tmp_path}/own.db/photos", 8).close()
    assert own.list_collections(timeout=5) == ["photos"]
    own.close()


def test_missing_and_wrong_packages(uri, monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: "3.2.2")
    with pytest.raises(ConfigError, match=r"milvus-lite 3\.2\.2 has no binary vectors"):
        MilvusIndex.open(uri)

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(ConfigError, match="A local Milvus file needs milvus-lite"):
        MilvusIndex.open(uri)
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(ConfigError, match=r"needs the package pymilvus.*pip install 'scdh\[milvus\]'"):
        MilvusIndex.open(uri)
    monkeypatch.undo()
    MilvusIndex.create(uri, 8).close()

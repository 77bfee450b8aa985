"""`scdh export`: each format read back, by its library or by its documentation; and imports of packed codes."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from scdh import Codes, HammingIndex
from scdh.data.name_files import save_named_codes
from scdh.data.row_names import RowNames
from scdh.errors import CodesError
from tests.cli.commands import must, run, run_json

BITS, IDS = 13, [4, 9, 2]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Codes:
    monkeypatch.chdir(tmp_path)
    codes = Codes.from_signs(np.random.default_rng(0).normal(size=(3, BITS)), ids=IDS)
    names = RowNames(np.array(IDS), ["a.jpg", "b\udce9.jpg", "c.jpg"], np.array([1, -1, 0]), ["pear", "fig"])
    save_named_codes(tmp_path / "x.codes", codes, names)
    must("index x.codes --out x.index")
    return codes[[2, 0, 1]]  # in ascending order of id


def lines(path: str) -> list[dict]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_table_has_ids_codes_names_and_labels(made, kind):
    about = run_json(f"export x.index --to {kind} --out x.{kind} --json")
    assert (about["items"], about["bits"]) == (3, BITS)
    if kind == "parquet":
        from pyarrow.parquet import read_table

        table = read_table("x.parquet")
    else:
        import pyarrow as pa

        table = pa.ipc.open_file("x.arrow").read_all()
    assert table["id"].to_pylist() == [2, 4, 9]
    assert table["name"].to_pylist() == ["c.jpg", "a.jpg", "b\ufffd.jpg"]
    assert table["labels"].to_pylist() == [["pear"], ["fig"], []]
    assert np.array_equal(np.array(table["code"].to_pylist(), np.uint8), made.packed)
    assert table.schema.metadata[b"bits"] == b"13"


def test_metadata_of_a_forged_header_are_exported_as_text(tmp_path):
    from pyarrow.parquet import read_schema

    Codes.from_bits(np.ones((1, 8)), metadata={"model": "a\ud800"}).save(tmp_path / "x.codes")
    must(f"export {tmp_path}/x.codes --to parquet --out {tmp_path}/x.parquet")
    assert read_schema(tmp_path / "x.parquet").metadata[b"model"].decode() == "a\ufffd"


def test_npy_goes_out_and_in(made):
    must("export x.codes --to npy --out x.npy")
    assert np.array_equal(np.load("x.npy"), made.packed)
    must("index x.npy --out again.index")
    again = HammingIndex.load("again.index")
    assert again.bits == 16
    assert np.array_equal(again.codes.packed, made.packed)
    assert "--replace" in run("export x.codes --to npy --out x.npy")[2]


def test_faiss_finds_what_the_index_finds(made):
    faiss = pytest.importorskip("faiss")
    must("export x.index --to faiss --out x.faiss")
    rival = faiss.read_index_binary("x.faiss")
    hits = HammingIndex.load("x.index").search(made, 3)
    distances, ids = rival.search(np.ascontiguousarray(made.packed), 3)
    assert np.array_equal(distances, hits.distances)
    assert ids[:, 0].tolist() == hits.ids[:, 0].tolist() == [2, 4, 9]


def test_the_printed_line_loads_the_file(made):
    import faiss
    import pyarrow.ipc
    import pyarrow.parquet

    libraries = {"pyarrow": pyarrow, "numpy": np, "faiss": faiss}
    for kind in ("parquet", "arrow", "npy", "faiss"):
        line = must(f"export x.codes --to {kind} --out x.{kind}").splitlines()[-1]
        loaded = eval(line, libraries)
        assert (loaded.ntotal if kind == "faiss" else len(loaded)) == 3
    printed = must(["export", "x.codes", "--to", "opensearch", "--out", "my x.ndjson"])
    assert "--data-binary '@my x.ndjson' localhost" in printed


def test_bulk_files_have_the_documented_form(made):
    for kind in ("elasticsearch", "opensearch", "vespa"):
        must(f"export x.index --to {kind} --out {kind}.ndjson")
    actions, documents = lines("elasticsearch.ndjson")[::2], lines("elasticsearch.ndjson")[1::2]
    assert [one["index"]["_id"] for one in actions] == ["2", "4", "9"]
    assert [bytes.fromhex(one["code"]) for one in documents] == [row.tobytes() for row in made.packed]
    assert documents[0]["name"] == "c.jpg"
    assert documents[0]["labels"] == ["pear"]
    assert [one["code"] for one in lines("opensearch.ndjson")[1::2]] == made.packed.view(np.int8).tolist()
    put = lines("vespa.ndjson")[0]
    assert put["put"] == "id:scdh:item::2"
    assert put["fields"]["code"]["values"] == made.packed.view(np.int8)[0].tolist()


def test_hashes_of_other_programs_are_imported(made):
    Path("hashes.txt").write_text("ffd8001122334455 photos/a b.jpg\n0000000000000000\n")
    must("index hashes.txt --out hashes.index")
    index = HammingIndex.load("hashes.index")
    assert index.codes.packed[0].tobytes().hex() == "ffd8001122334455"
    names = RowNames.load("hashes.index")
    assert list(names.names) == ["photos/a b.jpg", ""]


def test_packed_rows_are_taken_as_they_are():
    ubinary = np.packbits(np.random.default_rng(0).normal(size=(5, 1024)) > 0, axis=1)
    assert Codes.from_packed(ubinary).bits == 1024
    assert Codes.from_packed(["80", "01"], ids=[5, 6]).unpack().tolist() == [[1, *[0] * 7], [*[0] * 7, 1]]
    for rows, message in (
        (ubinary.view(np.int8), "int8 rows are ambiguous"),
        (ubinary.astype(np.int64), r"must be uint8 \[n, bytes\], got int64"),
        (["ff", "f"], "hexadecimal digits of one even length"),
        (["fg"], "hexadecimal digits of one even length"),
    ):
        with pytest.raises(CodesError, match=message):
            Codes.from_packed(rows)


def npy(shape: str, kind: str = "|u1", body: bytes = b"") -> bytes:
    header = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, packed=np.zeros((2, 8), np.uint8))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("huge.npy", npy("(1000000000000, 8)")),
        ("cut.npy", npy("(3, 8)", body=bytes(20))),
        ("negative.npy", npy("(-1, 8)", body=bytes(80))),
        ("overflow.npy", npy("(4294967296, 4294967296)", body=bytes(80))),
        ("digits.npy", npy(f"({'9' * 5000}, 8)")),
        ("nested.npy", npy("(" * 3000)),
        ("text.npy", npy("('a', 8)")),
        ("wide type.npy", npy("(1, 8)", kind="V2000000000")),
        ("objects.npy", npy("(1, 8)", kind="|O", body=b"\x80\x04N.")),
        ("pickle.npy", b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93."),
        ("zip.npy", zipped()),
        ("flat.npy", npy("(8,)", body=bytes(8))),
        ("empty.npy", b""),
        ("empty.txt", b""),
        ("binary.txt", b"\xff\xfe\x00"),
        ("long.txt", b"z" * 1_000_000),
        ("nul.txt", b"ab\x00\n"),
        ("digits.txt", "٣٣\n".encode()),
    ],
)
def test_hostile_files_are_one_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    code, out, err = run(["index", str(tmp_path / name), "--out", str(tmp_path / "x.index")])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert len(err) < 500
    assert not (tmp_path / "x.index").exists()

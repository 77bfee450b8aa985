import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from scdh.codes import HAMMING, RANKING, Codes
from scdh.errors import CodesError
from scdh.evaluation import evaluate
from scdh.index import HammingIndex
from scdh.index.store import IndexWriter
from scdh.storage.tensor_files import CHECKSUMS, _header_checksum

LENGTHS = [1, 7, 8, 12, 13, 48, 63, 64, 65, 128, 1000]


def random_bits(rows, bits, seed=0):
    return np.random.default_rng(seed).random((rows, bits)) < 0.5


@pytest.mark.parametrize("bits", LENGTHS)
@pytest.mark.parametrize("rows", [0, 1, 9])
def test_packing_goes_bit_by_bit_and_comes_back(rows, bits):
    values = np.random.default_rng(bits).standard_normal((rows, bits))
    codes = Codes.from_signs(values)
    assert (codes.bits, len(codes)) == (bits, rows)
    assert codes.packed.dtype == np.uint8
    assert codes.packed.shape == (rows, (bits + 7) // 8)
    expected = np.zeros((rows, codes.packed.shape[1]), dtype=int)
    for i in range(rows):
        for j in range(bits):
            if values[i, j] >= 0:
                expected[i, j // 8] += 1 << (7 - j % 8)
    assert np.array_equal(codes.packed, expected)
    assert np.array_equal(codes.unpack(), values >= 0)
    assert np.array_equal(codes.signs(), np.where(values >= 0, 1, -1))
    assert Codes.from_bits(codes.unpack()) == Codes.from_signs(codes.signs()) == codes
    assert Codes(codes.packed, bits) == codes


@given(st.sampled_from(LENGTHS), st.data())
def test_truncated_codes_are_the_codes_of_the_first_bits(bits, data):
    first = data.draw(st.integers(1, bits))
    values = random_bits(5, bits, seed=first)
    codes = Codes.from_signs(values, ids=np.arange(5), metadata={"model": "m"}).with_vectors(np.eye(5))
    short = codes.truncate(first)
    assert short == Codes.from_signs(values[:, :first], ids=np.arange(5))
    assert short.metadata == codes.metadata
    assert short.vectors is codes.vectors or np.array_equal(short.vectors, codes.vectors)
    assert short.truncate(first) is short


@pytest.mark.parametrize("bits", [0, 14, -1, 2.0, True])
def test_codes_are_cut_to_fewer_bits_only(bits):
    codes = Codes.from_signs(random_bits(5, 13))
    with pytest.raises(CodesError, match="can be cut to 1 to 13 bits, not to"):
        codes.truncate(bits)
    own = codes.with_metadata({RANKING: "cosine"})
    assert own.truncate(13) is own
    with pytest.raises(CodesError, match="rank by cosine cannot be cut"):
        own.truncate(12)


@pytest.mark.parametrize("bits", LENGTHS)
def test_words_hold_the_same_bits_padded_with_zeros(bits):
    codes = Codes.from_signs(random_bits(5, bits))
    words = codes.words()
    assert words.dtype == np.uint64
    assert words.shape == (5, (bits + 63) // 64)
    assert np.array_equal(np.bitwise_count(words).sum(axis=1), codes.unpack().sum(axis=1))
    assert words.astype("<u8").tobytes() == np.pad(codes.packed, ((0, 0), (0, -codes.packed.shape[1] % 8))).tobytes()
    assert codes[:0].words().shape == (0, (bits + 63) // 64)


def test_the_sign_of_zero_is_plus_and_false_is_no_bit():
    assert Codes.from_signs([[0.0, -0.0, -1e-30, 3]]).unpack().tolist() == [[1, 1, 0, 1]]
    assert Codes.from_signs(np.array([[0, -1, 1]])).unpack().tolist() == [[1, 0, 1]]
    assert Codes.from_signs(np.array([[True, False]])).unpack().tolist() == [[1, 0]]


def test_the_input_is_neither_changed_nor_changeable_through_the_codes():
    values = np.array([[0.5, -0.5]])
    before = values.copy()
    packed = np.array([[128]], dtype=np.uint8)
    codes = Codes.from_signs(values)
    assert np.array_equal(values, before)
    assert packed.flags.writeable
    for array in (codes.packed, Codes(packed, 2, ids=[1]).packed, Codes(packed, 2, ids=[1]).ids):
        assert not array.flags.writeable
    assert packed.flags.writeable


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Codes.from_signs([1.0, 2.0]), "shape"),
        (lambda: Codes.from_signs(np.zeros((2, 0))), "at least 1 bit"),
        (lambda: Codes.from_signs([[0.0, np.nan]]), "row 0, column 1 holds nan"),
        (lambda: Codes.from_signs([[np.inf]]), "finite"),
        (lambda: Codes.from_signs([["a"]]), "real numbers"),
        (lambda: Codes.from_signs([[1j]]), "real numbers"),
        (lambda: Codes.from_signs([[1.0], [1.0, 2.0]]), "shape"),
        (lambda: Codes.from_signs(np.zeros((2, 3), dtype=np.uint8)), "no sign"),
        (lambda: Codes.from_bits([[2]]), "0 or 1"),
        (lambda: Codes.from_bits([[np.nan]]), "0 or 1"),
        (lambda: Codes.from_signs([[1.0]], ids=[1, 2]), "one id per code"),
        (lambda: Codes.from_signs([[1.0]], ids=[1.5]), "whole numbers"),
        (lambda: Codes.from_signs([[1.0]], ids=np.array([2**63], dtype=np.uint64)), "64 bits"),
        (lambda: Codes(np.zeros((2, 2), dtype=np.uint8), 17), "shape"),
        (lambda: Codes(np.zeros((2, 2), dtype=np.int64), 16), "uint8"),
        (lambda: Codes(np.zeros(2, dtype=np.uint8), 8), "shape"),
        (lambda: Codes(np.full((1, 1), 1, dtype=np.uint8), 7), "last 1 bits"),
        (lambda: Codes(np.zeros((1, 1), dtype=np.uint8), 0), "at least 1"),
        (lambda: Codes(np.zeros((1, 1), dtype=np.uint8), True), "at least 1"),
        (lambda: Codes.concatenate([]), "empty"),
        (lambda: Codes.concatenate([Codes.from_signs([[1.0]]), Codes.from_signs([[1.0, 2.0]])]), "lengths"),
        (lambda: Codes.concatenate([Codes.from_signs([[1.0]]), Codes.from_signs([[1.0]], ids=[1])]), "1 of 2"),
        (lambda: Codes.from_signs([[1.0]])[[True, False]], "mask"),
        (lambda: Codes.from_signs([[1.0]])[[0.5]], "whole numbers"),
        (lambda: Codes.from_signs([[1.0]], metadata={"bits": "3"}), "reserved for"),
        (lambda: Codes.from_signs([[1.0]], metadata={"epoch": 3}), "must be text"),
    ],
)
def test_mistakes_get_one_sentence(make, words):
    with pytest.raises(CodesError, match=words) as caught:
        make()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_choosing_rows():
    bits = random_bits(6, 13)
    codes = Codes.from_signs(bits, ids=[5, 3, 9, -1, 0, 2])
    for choice in (slice(1, 4), slice(None, None, -1), slice(9, 12), [2, 2, 0], [-1], np.arange(6) % 2 == 0):
        assert np.array_equal(codes[choice].unpack(), bits[choice])
        assert np.array_equal(codes[choice].ids, codes.ids[choice])
    assert codes[[]] == codes[:0]
    for row in (0, 5, -1, -6, np.int64(2)):
        assert codes[row].ids.tolist() == [codes.ids[row]]
    for row in (6, -7):
        with pytest.raises(IndexError):
            codes[row]
    assert Codes.concatenate([codes[:2], codes[2:2], codes[2:]]) == codes
    assert Codes.concatenate(list(codes)) == codes


def test_equality_and_words():
    codes = Codes.from_signs(random_bits(3, 12))
    with_ids = Codes(codes.packed, 12, ids=[0, 1, 2])
    assert codes == Codes(codes.packed.copy(), 12)
    assert codes != with_ids
    assert with_ids != Codes(codes.packed, 12, ids=[0, 1, 3])
    assert codes != Codes.from_signs(random_bits(3, 13))
    assert codes != 3
    assert repr(with_ids) == "Codes(3 × 12 bits, with ids)"


@pytest.mark.parametrize("bits", LENGTHS)
@pytest.mark.parametrize("ids", [None, [7, -3, 2**40, 0]])
def test_save_and_load(tmp_path, bits, ids):
    path = tmp_path / "new folder" / "codes.safetensors"
    codes = Codes.from_signs(random_bits(4, bits), ids=ids, metadata={"model": "abc"})
    codes.save(path, metadata={"split": "database"})
    back = Codes.load(path)
    assert back == codes
    assert back.metadata == {"model": "abc", "split": "database"}
    assert [file.name for file in path.parent.iterdir()] == ["codes.safetensors"]


def test_save_and_load_no_rows_and_strided_rows(tmp_path):
    codes = Codes.from_signs(random_bits(9, 20), ids=np.arange(9))
    for part in (codes[:0], codes[::-2]):
        part.save(tmp_path / "codes")
        assert Codes.load(tmp_path / "codes") == part


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    codes = Codes.from_signs(random_bits(40, 13), ids=np.arange(40))
    codes.save(folder / "codes")
    HammingIndex(codes).save(folder / "index")
    return folder


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_file_cut_anywhere_is_rejected_with_both_byte_counts(saved, share):
    whole = (saved / "codes").read_bytes()
    size = int(share * len(whole))
    (saved / "cut").write_bytes(whole[:size])
    with pytest.raises(CodesError, match="cut short") as caught:
        Codes.load(saved / "cut")
    header = 8 + int.from_bytes(whole[:8], "little")
    expected = 9 if size < 8 else header if size < header else len(whole)
    numbers = str(caught.value).replace(str(saved / "cut"), "")
    assert f"{expected} bytes" in numbers
    assert f"{size} " in numbers


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "9 bytes were expected, but 0"),
        (b"PK\x03\x04 something else entirely", "not a scdh-codes file"),
        (bytes(8), "not a scdh-codes file"),
        ((5).to_bytes(8, "little") + b"{ no!", "cannot be understood"),
        ((2).to_bytes(8, "little") + b"{}", "names the format None"),
        ((2).to_bytes(8, "little") + b"[]", "not a scdh-codes file"),
    ],
)
def test_foreign_files_are_rejected(tmp_path, content, words):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CodesError, match=words):
        Codes.load(tmp_path / "file")


def rewritten(path, change):
    """The same file with a changed header."""
    whole = path.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])
    change(header)
    text = json.dumps(header).encode()
    path.with_name("changed").write_bytes(len(text).to_bytes(8, "little") + text + whole[end:])
    return path.with_name("changed")


def with_matching_checksums(header):
    """Make the checksums match what the header says now."""
    metadata = header["__metadata__"]
    known = json.loads(metadata.pop(CHECKSUMS))["tensors"] if isinstance(metadata, dict) else {}
    of_tensors = {name: known.get(name, "") for name in header if name != "__metadata__"}
    if isinstance(metadata, dict):
        metadata[CHECKSUMS] = json.dumps({"header": _header_checksum(metadata, of_tensors), "tensors": of_tensors})


def test_other_programs_open_these_files(saved):
    assert np.array_equal(load_file(saved / "codes")["packed"], Codes.load(saved / "codes").packed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda h: h["__metadata__"].update(version="2"), "of version '2', but only '1' can be read"),
        (lambda h: h["__metadata__"].pop("version"), "of version None, but only '1' can be read"),
        (lambda h: h["__metadata__"].update(bits="many"), "number of bits"),
        (lambda h: h["__metadata__"].pop("bits"), "number of bits"),
        (lambda h: h["__metadata__"].update(bits="99"), "99 bits"),
        (lambda h: h["__metadata__"].update(bits=13), "damaged"),
        (lambda h: h["__metadata__"].update(bits="9" * 5000), "number of bits"),
        (lambda h: h.update(other=h.pop("packed")), "'packed' is missing"),
        (lambda h: h["packed"].update(dtype="I8"), "damaged"),
        (lambda h: h.update(__metadata__=[]), "understood"),
    ],
)
def test_headers_that_lie_are_rejected(saved, change, words):
    def change_all(header):
        change(header)
        with_matching_checksums(header)

    with pytest.raises(CodesError, match=words):
        Codes.load(rewritten(saved / "codes", change_all))


def test_codes_without_checksums_are_rejected(saved):
    with pytest.raises(CodesError, match="checksums are missing"):
        Codes.load(rewritten(saved / "codes", lambda header: header["__metadata__"].pop(CHECKSUMS)))


def test_missing_files_folders_and_the_other_format(saved):
    with pytest.raises(CodesError, match="There is no scdh-codes file"):
        Codes.load(saved / "nowhere")
    with pytest.raises(CodesError, match="cannot be read"):
        Codes.load(saved)
    with pytest.raises(CodesError, match="scdh-index"):
        Codes.load(saved / "index")
    with pytest.raises(CodesError, match="scdh-codes"):
        HammingIndex.load(saved / "codes")
    (saved / "long").write_bytes((saved / "codes").read_bytes() + b"more")
    with pytest.raises(CodesError, match="too long"):
        Codes.load(saved / "long")


OTHER_WAY = "`scdh search INDEX --model RUN` and `scdh evaluate RUN` can."


def other_ranking(rows=4, bits=8):
    return Codes.from_signs(random_bits(rows, bits), metadata={RANKING: "asymmetric quantizer distance"})


@pytest.mark.parametrize(
    ("action", "ending"),
    [
        (
            lambda codes, other, folder: HammingIndex(other).search(other),
            "give byte_tables=hasher.distance_tables(outputs).",
        ),
        (lambda codes, other, folder: HammingIndex(codes).add(other), OTHER_WAY),
        (lambda codes, other, folder: HammingIndex(codes).search(other), OTHER_WAY),
        (lambda codes, other, folder: HammingIndex(codes).within(other), OTHER_WAY),
        (lambda codes, other, folder: IndexWriter(folder / "new.index", bits=8).add(other), OTHER_WAY),
        (lambda codes, other, folder: evaluate(other, [0] * 4, codes, [0] * 4), OTHER_WAY),
        (lambda codes, other, folder: evaluate(codes, [0] * 4, other, [0] * 4), OTHER_WAY),
    ],
)
def test_codes_ranked_by_another_distance_are_rejected(action, ending, tmp_path):
    codes = Codes.from_signs(random_bits(4, 8))
    with pytest.raises(CodesError, match="asymmetric quantizer distance, not by Hamming distance") as caught:
        action(codes, other_ranking(), tmp_path)
    assert str(caught.value).endswith(ending)
    assert "\n" not in str(caught.value)


def test_the_ranking_stays_with_the_codes(tmp_path):
    other = other_ranking()
    other.save(tmp_path / "codes")
    assert Codes.load(tmp_path / "codes").ranking == other[1:].ranking == "asymmetric quantizer distance"
    part = Codes(other.packed, 8, metadata={**other.metadata, "l_q": "0.5"})
    assert Codes.concatenate([other, part]).metadata == {RANKING: "asymmetric quantizer distance"}
    codes = Codes.from_signs(random_bits(4, 8))
    assert codes.ranking == HAMMING
    assert Codes.concatenate([codes, Codes(codes.packed, 8, metadata={"model": "a"})]).metadata == {}
    with pytest.raises(CodesError, match="ranked by Hamming distance and by asymmetric quantizer distance"):
        Codes.concatenate([codes, other])
    named = Codes(codes.packed, 8, metadata={RANKING: HAMMING})
    assert len(HammingIndex(named)) == 4

"""A reader of the golden files, written from docs/formats.md alone: it reads without scdh."""

import hashlib
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from numpy.typing import NDArray

GOLDEN = Path(__file__).parent / "golden"
ITEMS = "photos.index.items-0123456789abcdef"
MODEL = "run/model/model.safetensors"
CHECKPOINT = "run/last.safetensors"
TYPES = {"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "I32": "<i4", "F32": "<f4", "I64": "<i8"}
SLOT = struct.Struct("<16sIIQQQQ4sI")
MAGIC = b"scdh-index\r\n\x1a\n\0\0"
PARTS = ("train", "query", "database", "validation")
Array = NDArray[Any]


# --- Checksums --------------------------------------------------------------------------------------------------------


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def table_checksum(table: dict[str, Any]) -> str:
    rest = {key: value for key, value in table.items() if key != "checksum"}
    return f"xxh3_64:{xxhash.xxh3_64_hexdigest(canonical(rest))}"


def arrays_checksum(arrays: dict[str, Array], description: dict[str, str]) -> str:
    described = {key: value for key, value in description.items() if key != "checksum"}
    shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    data = canonical([described, shapes]) + b"".join(arrays[name].tobytes() for name in sorted(arrays))
    return f"xxh3_64:{xxhash.xxh3_64_hexdigest(data)}"


# --- Tensor files -----------------------------------------------------------------------------------------------------


def read_tensors(data: bytes) -> tuple[dict[str, str], dict[str, Array]]:
    """Metadata and arrays of a safetensors file."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    metadata, at = header.pop("__metadata__"), 8 + length
    arrays = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        assert start == at, "gap or overlap"
        arrays[name] = np.frombuffer(data[start:end], TYPES[entry["dtype"]]).reshape(entry["shape"])
        at = end
    assert at == len(data), "cut short or too long"
    return metadata, arrays


def read_checked_tensors(data: bytes) -> tuple[dict[str, str], dict[str, Array]]:
    """The same of a codes or names file, which has a checksum for each array and one for the header."""
    metadata, arrays = read_tensors(data)
    checksums = json.loads(metadata.pop("scdh_checksums"))
    assert checksums["tensors"] == {name: arrays_checksum({name: array}, {}) for name, array in arrays.items()}
    assert checksums["header"] == table_checksum({"metadata": metadata, "tensors": checksums["tensors"]})
    return metadata, arrays


def texts(data: Array, ends: Array) -> list[str]:
    starts = [0, *ends.tolist()[:-1]]
    return [data[a:b].tobytes().decode("utf-8", "surrogatepass") for a, b in zip(starts, ends, strict=True)]


# --- Index ------------------------------------------------------------------------------------------------------------


def slot_at(data: bytes, at: int) -> tuple[int, int, int, int, int] | None:
    """CRC-32 of the manifest, generation, end, and place and length of the manifest; None if the slot is not valid."""
    raw = data[at : at + 64]
    if len(raw) < 64 or raw[:16] != MAGIC or zlib.crc32(raw[:60]) != int.from_bytes(raw[60:], "little"):
        return None
    _, version, crc, generation, end, place, length, _, _ = SLOT.unpack(raw)
    assert version == 1
    return (crc, generation, end, place, length) if 8192 <= place <= place + length <= end else None


def newest_slot(data: bytes) -> tuple[int, int, int, int, int]:
    slots = [slot_at(data, at) for at in (0, 4096)]
    valid = [slot for slot in slots if slot is not None]
    assert valid, "no valid slot"
    newest = max(valid, key=lambda slot: slot[1])
    end = newest[2]
    assert len(data) >= end, "cut short"
    if len(valid) == 1 and len(data) > end:
        twin = slot_at(data, -(-end // 64) * 64)
        assert twin is not None, "damaged twin"
        assert twin[1] == newest[1] + 1
        assert twin[2] <= len(data)
        return twin
    return newest


def array_at(data: bytes, extent: list[int]) -> bytes:
    at, length, crc = extent
    assert at % 64 == 0
    content = data[at : at + length]
    assert zlib.crc32(content) == crc
    return content


def check_sums(data: bytes, segment: dict[str, Any], block_bytes: int | None) -> None:
    """The checksums by block of arrays of 64 KiB or more."""
    names = {"words", "ids", "vectors"} & segment.keys()
    large = {name for name in names if isinstance(segment[name], list) and segment[name][1] >= 1 << 16}
    assert segment.get("sums", {}).keys() == large
    for name in large:
        assert block_bytes == 1 << 20
        at, length, _ = segment[name]
        blocks = [data[start : min(start + block_bytes, at + length)] for start in range(at, at + length, block_bytes)]
        sums = b"".join(xxhash.xxh3_64_intdigest(block).to_bytes(8, "little") for block in blocks)
        assert segment["sums"][name] == sums.hex()


def read_vectors(data: bytes, manifest: dict[str, Any]) -> list[Array]:
    """The vectors of each segment."""
    if "vectors" not in manifest:
        return []
    kind = np.dtype(manifest["vectors"]["type"]).newbyteorder("<")
    contents = [np.frombuffer(array_at(data, segment["vectors"]), kind) for segment in manifest["segments"]]
    return [content.reshape(-1, manifest["vectors"]["width"]) for content in contents]


def read_index(data: bytes) -> tuple[dict[str, Any], dict[int, list[int]]]:
    """The manifest, and the bits of each item by its id."""
    crc, _, _, place, length = newest_slot(data)
    text = data[place : place + length]
    assert zlib.crc32(text) == crc
    manifest = json.loads(text)
    items: dict[int, list[int]] = {}
    for segment in manifest["segments"]:
        rows = segment["rows"]
        check_sums(data, segment, manifest.get("block_bytes"))
        words = np.frombuffer(array_at(data, segment["words"]), np.dtype(manifest["word"]).newbyteorder("<"))
        packed = np.ascontiguousarray(words.reshape(-1, rows).T).view(np.uint8)
        bits = np.unpackbits(packed, axis=1)
        assert not bits[:, manifest["bits"] :].any(), "spare bits"
        if isinstance(segment["ids"], int):
            ids = segment["ids"] + np.arange(rows)
        else:
            ids = np.frombuffer(array_at(data, segment["ids"]), "<i8")
        is_removed = np.zeros(rows, bool)
        if segment["removed"] is not None:
            removed = array_at(data, segment["removed"])
            if len(removed) == -(-rows // 8):
                is_removed = np.unpackbits(np.frombuffer(removed, np.uint8), count=rows) == 1
            else:
                is_removed[np.frombuffer(removed, "<i8")] = True
        for row in np.flatnonzero(~is_removed):
            assert int(ids[row]) not in items, "an id in two segments"
            items[int(ids[row])] = bits[row, : manifest["bits"]].tolist()
    return manifest, items


# --- The tests --------------------------------------------------------------------------------------------------------


def read(name: str) -> bytes:
    return (GOLDEN / name).read_bytes()


def test_codes_with_names_and_labels() -> None:
    metadata, arrays = read_checked_tensors(read("photos.codes"))
    assert metadata == {"format": "scdh-codes", "version": "1", "bits": "13", "model": "0011223344556677"}
    bits = np.unpackbits(arrays["packed"], axis=1)
    assert bits.shape == (6, 16)
    assert not bits[:, 13:].any()
    assert arrays["ids"].tolist() == [3, 5, 8, 13, 21, 34]
    assert texts(arrays["names"], arrays["name_ends"]) == ["cat.jpg", "dog.jpg", "", "b/é.png", "7", "last"]
    assert texts(arrays["label_names"], arrays["label_name_ends"]) == ["cat", "dog"]
    assert arrays["labels"].tolist() == [0, 1, -1, 1, 0, 0]


def test_index_holds_the_codes_of_the_codes_file_except_the_removed_one() -> None:
    manifest, items = read_index(read("photos.index"))
    _, arrays = read_checked_tensors(read("photos.codes"))
    bits = np.unpackbits(arrays["packed"], axis=1, count=13).tolist()
    expected = dict(zip(arrays["ids"].tolist(), bits, strict=True))
    del expected[5]
    assert items == expected
    assert (manifest["bits"], manifest["word"]) == (13, "uint16")
    assert f"photos.index.items-{manifest['metadata']['names']}" == ITEMS


def test_index_with_large_arrays(tmp_path: Path) -> None:
    from scdh import Codes, HammingIndex  # only to write the file: a golden file of this size would be large

    expected = np.random.default_rng(0).integers(0, 2, (20_000, 70))
    index = HammingIndex(Codes.from_bits(expected))
    index.remove([7, 19_999])
    index.save(tmp_path / "large.index")
    manifest, items = read_index((tmp_path / "large.index").read_bytes())
    (segment,) = manifest["segments"]
    assert (manifest["word"], segment["ids"], segment["removed"][1]) == ("uint64", 0, 16)
    assert segment["words"][1] == 2 * 8 * 20_000
    assert items == {row: bits for row, bits in enumerate(expected.tolist()) if row not in (7, 19_999)}


def test_vectors_of_the_index() -> None:
    data = read("vectors.index")
    manifest, items = read_index(data)
    assert manifest["vectors"] == {"type": "int8", "width": 3}
    (vectors,) = read_vectors(data, manifest)
    values = np.arange(-9, 9).reshape(6, 3)
    assert vectors.tolist() == np.rint(values * 127 / abs(values).max(axis=1, keepdims=True)).astype(int).tolist()
    assert sorted(items) == [3, 8, 13, 21, 34]
    _, arrays = read_checked_tensors(read("vectors.codes"))
    assert arrays["vectors"].tolist() == vectors[:4].tolist()


def test_large_vectors_have_checksums_by_block(tmp_path: Path) -> None:
    from scdh import Codes, HammingIndex  # only to write the file

    values = np.random.default_rng(0).normal(size=(70_000, 8))
    HammingIndex(Codes.from_signs(values).with_vectors(values, "float16")).save(tmp_path / "large.index")
    data = (tmp_path / "large.index").read_bytes()
    manifest, _ = read_index(data)
    assert len(manifest["segments"][0]["sums"]["vectors"]) == 16 * 2
    (vectors,) = read_vectors(data, manifest)
    np.testing.assert_allclose(np.linalg.norm(vectors.astype(float), axis=1), 1, atol=1e-3)


def test_names_of_the_index() -> None:
    metadata, arrays = read_checked_tensors(read(ITEMS))
    assert metadata == {"format": "scdh-items", "version": "1"}
    assert arrays["ids"].tolist() == [3, 5, 8, 13, 21, 34]
    assert texts(arrays["names"], arrays["name_ends"])[3] == "b/é.png"
    label_names = texts(arrays["label_names"], arrays["label_name_ends"])
    numbers, ends = arrays["label_numbers"].tolist(), arrays["label_ends"].tolist()
    rows = [[label_names[n] for n in numbers[a:b]] for a, b in zip([0, *ends[:-1]], ends, strict=True)]
    assert rows == [["cat", "night"], [], ["dog"], ["cat", "dog", "night"], ["night"], ["cat"]]


def test_a_torn_slot_is_read_from_its_twin() -> None:
    data = bytearray(read("photos.index"))
    whole = read_index(bytes(data))
    data[30] ^= 1  # in slot 0, which is that of the newest generation, 4
    assert newest_slot(bytes(data))[1] == 4
    assert read_index(bytes(data)) == whole
    twin = -(-0x242C // 64) * 64  # after the end of generation 3
    data[twin + 30] ^= 1
    with pytest.raises(AssertionError, match="damaged twin"):
        newest_slot(bytes(data))


def test_model_folder() -> None:
    metadata, arrays = read_tensors(read(MODEL))
    assert metadata["format"] == "pt"
    assert metadata["checksum"] == arrays_checksum(arrays, {"description": metadata["description"]})
    description = json.loads(metadata["description"])
    assert (description["format"], description["version"], description["bits"]) == ("scdh-model", 1, 8)
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + arrays[name].tobytes())
    assert description["fingerprint"] == digest.hexdigest()[:16]
    copy = json.loads(read("run/model/config.json"))
    assert copy.pop("checksum") == table_checksum(description)
    assert copy == description


def test_the_network_of_the_model_can_be_computed_from_its_tensors() -> None:
    _, arrays = read_tensors(read(MODEL))
    inputs = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    hidden = np.maximum(inputs @ arrays["trunk.layers.0.weight"].T + arrays["trunk.layers.0.bias"], 0)
    outputs = hidden @ arrays["head.hash_layer.weight"].T + arrays["head.hash_layer.bias"]
    np.testing.assert_allclose(outputs, json.loads(read("expected.json"))["outputs"], rtol=1e-4, atol=1e-6)


def test_run_folder() -> None:
    config = json.loads(read("run/config.json"))
    assert (config["format"], config["version"]) == ("scdh-run", 1)
    assert set(config["config"]) == {"seed", "data", "net", "method", "train"}
    assert config["data_paths"] == {"source": {"absolute": "/data/data.npz", "relative": "../data.npz"}}
    assert config["checksum"] == table_checksum(config)
    protocol = json.loads(read("run/protocol.json"))
    assert protocol["format"] == "scdh protocol 1"
    assert protocol["checksum"] == table_checksum(protocol)
    state = json.loads(read_tensors(read(CHECKPOINT))[0]["state"])
    info = json.loads(read("run/model/config.json"))["info"]
    assert config["run_id"] == protocol["run_id"] == state["progress"]["run_id"] == info["run_id"]
    digest = hashlib.sha256(json.dumps([protocol["name"], protocol["seed"], protocol["source_fingerprint"]]).encode())
    for part in PARTS:
        rows = protocol[part]
        assert rows == sorted(rows)
        digest.update(f"{part} {len(rows)} ".encode() + np.array(rows, "<i8").tobytes())
    assert protocol["fingerprint"] == digest.hexdigest()[:16]


def test_checkpoint() -> None:
    metadata, arrays = read_tensors(read(CHECKPOINT))
    assert (metadata["format"], metadata["version"]) == ("scdh-checkpoint", "1")
    assert metadata["checksum"] == arrays_checksum(arrays, metadata)
    state = json.loads(metadata["state"])
    assert set(state) == {"progress", "optimiser_plain", "optimiser_groups", "schedule", "counters"}
    _, weights = read_tensors(read(MODEL))
    assert {name.removeprefix("net.") for name in arrays if name.startswith("net.")} == set(weights)
    assert all((arrays[f"net.{name}"] == weights[name]).all() for name in weights)


@pytest.mark.parametrize("name", ["photos.codes", "vectors.codes", ITEMS])
def test_each_changed_byte_of_a_tensor_file_is_found(name: str) -> None:
    data = read(name)
    (length,) = struct.unpack_from("<Q", data)
    for at in range(8 + length, len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1
        with pytest.raises(AssertionError):
            read_checked_tensors(bytes(damaged))

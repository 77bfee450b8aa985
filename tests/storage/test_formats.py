"""The golden files can be read, and files written today have the same layout; see docs/formats.md."""

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.config import load_config
from scdh.data.name_files import load_named_codes, load_names
from scdh.errors import DataError, ModelError
from scdh.index import HammingIndex
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.storage.json_files import read_table, write_table
from scdh.training.checkpoint import check_checkpoint
from tests.storage.make_golden import (
    BITS,
    IDS,
    NAMES,
    NUMBER,
    SETTINGS,
    golden_codes,
    golden_codes_with_vectors,
    outputs_of,
    write_all,
)
from tests.training.settled import train

GOLDEN = Path(__file__).parent / "golden"
TENSOR_FILES = ("photos.codes", f"photos.index.items-{NUMBER}", "run/model/model.safetensors", "run/last.safetensors")
TABLES = ("run/config.json", "run/protocol.json", "run/model/config.json")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same files, written by the present code."""
    folder = tmp_path_factory.mktemp("formats")
    write_all(folder)
    return folder


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the golden files as the working folder: the run names its data by a relative path."""
    folder = shutil.copytree(GOLDEN, tmp_path / "golden")
    monkeypatch.chdir(folder)
    return folder


def slow_distances(codes: Codes, query: Codes) -> list[int]:
    return (codes.unpack() != query.unpack()).sum(axis=1).tolist()


def test_codes_file() -> None:
    codes, names = load_named_codes(GOLDEN / "photos.codes")
    assert codes == golden_codes()
    assert codes.metadata == {"model": "0011223344556677"}
    assert list(names.names) == NAMES
    assert names.labels.tolist() == [0, 1, -1, 1, 0, 0]
    assert names.label_names == ["cat", "dog"]


def test_index_file_and_its_names() -> None:
    index, codes = HammingIndex.load(GOLDEN / "photos.index", verify=True), golden_codes()
    assert (index.bits, index.metadata["names"]) == (BITS, NUMBER)
    assert sorted(index.ids.tolist()) == [3, 8, 13, 21, 34]  # 5 was removed
    hits = index.search(codes[1:2], k=5)
    expected = sorted((d, i) for d, i in zip(slow_distances(codes, codes[1:2]), IDS.tolist(), strict=True) if i != 5)
    assert list(zip(hits.distances[0].tolist(), hits.ids[0].tolist(), strict=True)) == expected
    names = load_names(GOLDEN / "photos.index")
    assert names.ids.tolist() == IDS.tolist()
    assert list(names.names) == NAMES
    assert [names.label(row) for row in range(6)] == ["cat, night", "", "dog", "cat, dog, night", "night", "cat"]


def test_files_with_vectors() -> None:
    index, codes = HammingIndex.load(GOLDEN / "vectors.index", verify=True), Codes.load(GOLDEN / "vectors.codes")
    assert codes == golden_codes()[:4]
    for found, ids in ((codes, [3, 5, 8, 13]), (index.codes, [3, 8, 13, 21, 34])):
        expected = golden_codes_with_vectors()[np.isin(IDS, ids)]
        assert found.vectors.tolist() == expected.vectors.tolist()


def test_model_folder() -> None:
    expected = json.loads((GOLDEN / "expected.json").read_text("utf-8"))["outputs"]
    np.testing.assert_allclose(outputs_of(GOLDEN / "run" / "model"), expected, rtol=1e-4, atol=1e-6)
    assert Hasher.load(GOLDEN / "run" / "model").fingerprint() == read_table(
        GOLDEN / "run/model/config.json", "a model", ""
    ).get("fingerprint")


def test_run_folder(golden: Path) -> None:
    run = RunFolder(golden / "run")
    assert run.is_finished
    assert run.config() == load_config(overrides=SETTINGS)
    assert check_checkpoint(run.checkpoint) == (2, run.id)
    # Without its model the run is unfinished; it continues from the checkpoint, which holds the same weights.
    expected = outputs_of(run.model)
    shutil.rmtree(run.model)
    train(run.config(), run.path, resume=True, quiet=True)
    np.testing.assert_allclose(outputs_of(run.model), expected, rtol=1e-6, atol=1e-8)


def header_of(file: Path) -> dict[str, Any]:
    """The JSON header of a safetensors file."""
    data = file.read_bytes()
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


@pytest.mark.parametrize("name", TENSOR_FILES)
def test_tensor_files_have_the_same_layout(name: str, written: Path) -> None:
    now, then = header_of(written / name), header_of(GOLDEN / name)
    texts, texts_then = now.pop("__metadata__"), then.pop("__metadata__")
    assert now == then  # names, types, shapes and places of all tensors
    assert texts.keys() == texts_then.keys()
    assert all(texts.get(key) == texts_then.get(key) for key in ("format", "version", "bits"))
    if name.endswith("model.safetensors"):
        one, other = (json.loads(text["description"]) for text in (texts, texts_then))
        assert keys_of(one) == keys_of(other)
        assert (one["format"], one["version"]) == ("scdh-model", 1)
    elif name.endswith("last.safetensors"):
        assert keys_of(json.loads(texts["state"])) == keys_of(json.loads(texts_then["state"]))


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_the_same_keys(name: str, written: Path) -> None:
    now, then = (json.loads((folder / name).read_text("utf-8")) for folder in (written, GOLDEN))
    assert keys_of(now) == keys_of(then)
    assert (now["format"], now.get("version")) == (then["format"], then.get("version"))


def keys_of(content: dict[str, Any]) -> dict[str, Any]:
    """The keys of a table and of the tables in it, without settings and versions of packages, which may be added."""
    return {
        key: keys_of(value) if isinstance(value, dict) and key not in ("config", "versions") else None
        for key, value in content.items()
    }


@pytest.mark.parametrize(
    "name", ["photos.codes", f"photos.index.items-{NUMBER}", "photos.index", "vectors.index", "vectors.codes"]
)
def test_files_without_times_are_the_same_bytes(name: str, written: Path) -> None:
    assert (written / name).read_bytes() == (GOLDEN / name).read_bytes()


def test_the_index_is_laid_out_as_documented() -> None:
    data = (GOLDEN / "photos.index").read_bytes()
    slots = [struct.unpack_from("<16sIIQQQQ4xI", data, at) for at in (0, 4096)]
    assert [slot[:2] for slot in slots] == [(b"scdh-index\r\n\x1a\n\0\0", 1)] * 2
    *_, end, manifest_at, manifest_bytes, _ = max(slots, key=lambda slot: slot[3])
    assert end == len(data)
    manifest = json.loads(data[manifest_at : manifest_at + manifest_bytes])
    assert list(manifest) == ["bits", "word", "metadata", "segments"]
    assert all(list(segment) == ["rows", "words", "ids", "removed"] for segment in manifest["segments"])


def test_other_versions_of_a_run_are_rejected(golden: Path) -> None:
    run = RunFolder(golden / "run")
    content = json.loads(run.config_file.read_text("utf-8"))
    write_table(run.config_file, content | {"version": 2})
    with pytest.raises(DataError, match=r"has version 2, but only 1 can be read\.$"):
        run.config()
    write_table(run.config_file, {key: value for key, value in content.items() if key != "version"})
    with pytest.raises(DataError, match="has no entry 'version'"):
        run.config()


def test_other_versions_of_a_checkpoint_are_rejected(golden: Path) -> None:
    file = golden / "run" / "last.safetensors"
    file.write_bytes(file.read_bytes().replace(b'"version":"1"', b'"version":"2"'))
    with pytest.raises(ModelError, match=r"has version '2', but only '1' can be read\.$"):
        check_checkpoint(file)

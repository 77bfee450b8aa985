"""Vectors from `scdh encode` through `scdh index` to `scdh search --rank vectors`."""

from pathlib import Path

import numpy as np
import pytest

from scdh import Codes, HammingIndex, Hasher
from scdh.config import load_config
from tests.cli.commands import must, run, run_json
from tests.data.data_files import write_pictures

OPTIONS = "--workers 0 --batch-size 4"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    write_pictures(folder / "photos", [f"{kind}/{n:02}.png" for kind in "ab" for n in range(10)])
    settings = {"net.backbone": "small_conv", "net.pretrained": False, "net.image_size": 16, "method.bits": 12}
    Hasher.build(load_config(overrides=settings), ["a", "b"], False, None).save(folder / "model")
    must(f"encode {folder}/model {folder}/photos {OPTIONS} --out {folder}/plain.codes")
    must(f"encode {folder}/model {folder}/photos {OPTIONS} --out {folder}/own.codes --vectors")
    must(f"index {folder}/own.codes --out {folder}/own.index --keep-vectors int8")
    return folder


def test_vectors_are_the_outputs_and_change_nothing_else(place: Path, tmp_path: Path) -> None:
    _, u = Hasher.load(place / "model").encode(sorted((place / "photos").rglob("*.png")), outputs=True)
    own = Codes.load(place / "own.codes")
    assert own == Codes.load(place / "plain.codes")
    assert own.vectors is not None
    np.testing.assert_allclose(own.vectors, u / np.linalg.norm(u, axis=1, keepdims=True), atol=2e-3)
    must(f"index {place}/own.codes --out {tmp_path}/a.index")
    assert HammingIndex.load(tmp_path / "a.index").vector_kind is None
    assert HammingIndex.load(place / "own.index").vector_kind == ("int8", 12)
    must(f"encode {place}/model {place}/photos {OPTIONS} --vectors --shards 3 --out {tmp_path}/shards")
    must(f"encode --merge {tmp_path}/shards --out {tmp_path}/merged.codes")
    assert (tmp_path / "merged.codes").read_bytes() == (place / "own.codes").read_bytes()


def test_each_kind_of_query_is_ranked_by_vectors(place: Path) -> None:
    index, codes = HammingIndex.load(place / "own.index"), Codes.load(place / "own.codes")
    expected = index.search(codes, 5, rescore=4)
    search = f"search {place}/own.index --rank vectors -k 5 --json"
    found = run_json(f"{search} --codes {place}/own.codes")["queries"]
    assert [[hit["id"] for hit in query["hits"]] for query in found] == expected.ids.tolist()
    (by_row,) = run_json(f"{search} --row 7")["queries"]
    assert [hit["id"] for hit in by_row["hits"]] == index.search(index.codes_of([7]), 6, rescore=4).ids[0, 1:].tolist()
    (by_image,) = run_json(f"{search} --model {place}/model {place}/photos/a/07.png")["queries"]
    assert by_image["hits"][0]["id"] == 7
    assert by_image["hits"][0]["distance"] < 1e-4
    assert "distance" in must(f"search {place}/own.index --rank vectors --row 7")


def test_an_index_with_vectors_grows(place: Path, tmp_path: Path) -> None:
    must(f"index {place}/own.codes --out {tmp_path}/a.index --keep-vectors float16")
    must(f"index {place}/own.codes --out {tmp_path}/a.index --append --renumber --on-duplicate replace")
    must(f"index --out {tmp_path}/a.index --remove 3")
    grown, first = HammingIndex.load(tmp_path / "a.index", verify=True), Codes.load(place / "own.codes")
    assert grown.vector_kind == ("float16", 12)
    assert np.array_equal(grown.codes.vectors, np.delete(first.vectors, 3, 0))  # type: ignore[arg-type]
    code, _, err = run(f"index {place}/plain.codes --out {tmp_path}/a.index --append --renumber")
    assert code == 2
    assert "has no vectors to keep" in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("index {}/plain.codes --out {}/x.index --keep-vectors int8", "`scdh encode … --vectors` writes"),
        ("index {}/own.codes --out {}/own.index --append --keep-vectors float16", "keeps int8 vectors"),
        ("index {}/own.codes --to milvus:{}/x.db/own --keep-vectors int8", "--keep-vectors is for index files"),
        ("search {}/own.index --codes {}/plain.codes --rank vectors", "queries carry no vectors"),
        ("search {}/own.index --row 1 --rank vectors --radius 2", "leave out --radius"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(place: Path, command: str, message: str) -> None:
    code, _, err = run(command.format(place, place))
    assert code == 2
    assert message in err
    assert err.count("\n") == 1

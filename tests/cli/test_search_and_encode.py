"""What `scdh search` and `scdh encode` load and compute, which codes they reject; vectors from encoding to search."""

import html
from pathlib import Path

import numpy as np
import pytest

import scdh.model.folder
import scdh.runs.encoding
import scdh.runs.features
from scdh import Codes, HammingIndex, Hasher
from scdh.codes import RANKING
from scdh.config import load_config
from scdh.data.row_names import RowNames
from scdh.extras import missing_packages
from scdh.nets.network import weights_fingerprint
from tests.cli.commands import fails, must, run_json
from tests.data.data_files import write_pictures
from tests.serve.conftest import save_model, save_own_distance, some_vectors


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with pictures, and with a run, codes and an index of them."""
    folder = tmp_path_factory.mktemp("photos")
    write_pictures(folder, [f"photos/{kind}/{n}.png" for kind in "ab" for n in range(10)])
    net = "--set net.backbone=small_conv --set net.pretrained=false --set net.image_size=16 --set train.batch_size=4"
    quick = "--set data.query_per_class=2 --set train.workers=0 --epochs 1 --bits 8"
    must(f"train --data {folder}/photos {net} {quick} --out {folder}/run")
    must(f"encode {folder}/run {folder}/photos --workers 0 --out {folder}/all.codes")
    must(f"index {folder}/all.codes --out {folder}/all.index")
    return folder


def test_an_image_is_searched_with_the_weights_hashed_once(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = []

    def count(network: object) -> str:
        hashed.append(network)
        return weights_fingerprint(network)  # type: ignore[arg-type]

    for module in (scdh.model.folder, scdh.runs.features):
        monkeypatch.setattr(module, "weights_fingerprint", count)
    image = photos / "photos/a/3.png"
    hits = run_json(f"search {photos}/all.index --model {photos}/run {image} -k 1 --json")["queries"][0]["hits"]
    assert hits[0]["distance"] == 0
    assert len(hashed) == 1


def test_hits_are_ranked_by_the_query_s_outputs(photos: Path) -> None:
    image = photos / "photos/a/3.png"
    search = f"search {photos}/all.index --model {photos}/run {image} -k 20"
    hits = run_json(f"{search} --rank outputs --json")["queries"][0]["hits"]
    hasher, index = Hasher.load(photos / "run"), HammingIndex.load(photos / "all.index")
    codes, u = hasher.encode([image], outputs=True)
    expected = index.search(codes, 20, weights=abs(u))
    assert [hit["id"] for hit in hits] == expected.ids[0].tolist()
    assert [hit["distance"] for hit in hits] == expected.distances[0].tolist()
    assert f"{hits[-1]['distance']:.4f}" in must(f"{search} --rank outputs")
    for wrong in (f"search {photos}/all.index --row 0 --rank outputs", f"{search} --rank outputs --radius 2"):
        assert "--rank outputs needs the real outputs" in fails(wrong)


def test_both_rankings_are_scored_side_by_side(photos: Path) -> None:
    content = run_json(f"evaluate {photos}/run --json")
    outputs = content["outputs"]
    assert outputs["definition"]["queries"] == content["definition"]["queries"] == 4
    assert "|u|" in outputs["definition"]["words"]
    assert 0 < outputs["map_worst"] <= outputs["map"] <= outputs["map_best"] <= 1
    assert "codes, query's outputs" in must(f"evaluate {photos}/run")
    assert "outputs" not in run_json(f"evaluate {photos}/run --no-outputs --json")


def test_encoding_computes_no_loss(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def poison(*_: object) -> None:
        raise AssertionError("a loss was computed")

    monkeypatch.setattr(scdh.runs.encoding, "quantization_loss", poison)
    must(f"encode {photos}/run {photos}/photos --workers 0 --out {photos}/again.codes")
    assert set(Codes.load(photos / "again.codes").metadata) == {"model"}


@pytest.mark.parametrize(
    "command",
    [
        "index {files}/own.codes --append --renumber --out {files}/plain.index",
        "index {files}/own.codes --to milvus:{files}/vectors.db/own",
        "search {files}/plain.index --codes {files}/own.codes",
        "evaluate --queries {files}/own.codes --database {files}/own.codes",
    ],
)
def test_codes_with_a_ranking_of_their_own_are_rejected(command: str, tmp_path: Path) -> None:
    """Hamming distances cannot rank them."""
    signs, labels = np.random.default_rng(0).normal(size=(6, 12)), np.arange(6) % 2
    Codes.from_signs(signs, metadata={RANKING: "weighted distance"}).save(tmp_path / "own.codes")
    Codes.from_signs(signs).save(tmp_path / "plain.codes")
    for name in ("own", "plain"):
        RowNames(np.arange(6), list("abcdef"), labels, ["x", "y"]).save(tmp_path / f"{name}.codes")
    must(f"index {tmp_path}/plain.codes --out {tmp_path}/plain.index")
    before = (tmp_path / "plain.index").read_bytes()
    message = fails(command.format(files=tmp_path))
    assert "ranked by weighted distance, not by Hamming distance" in message
    assert message.count("\n") == 1
    assert (tmp_path / "plain.index").read_bytes() == before
    assert not (tmp_path / "own.index").exists()
    assert not (tmp_path / "vectors.db").exists()


@pytest.mark.parametrize("name", ["dqn", "cls_onehot"])
def test_a_distance_of_the_methods_own_is_searched_with_the_model(name: str, tmp_path: Path) -> None:
    hasher, codes = save_own_distance(tmp_path, name, 30)
    own, model = f"{tmp_path}/own.index", f"--model {tmp_path}/model"
    vectors = some_vectors(3)
    np.save(tmp_path / "queries.npy", vectors)
    must(f"encode {tmp_path}/model {tmp_path}/queries.npy --out {tmp_path}/queries.codes")
    index, tables = HammingIndex(codes), hasher.distance_tables(hasher.hash_outputs(vectors))

    def found(command: str) -> list[list[int]]:
        return [[hit["id"] for hit in one["hits"]] for one in run_json(f"{command} --json")["queries"]]

    expected = index.search(codes[:3], 4, byte_tables=tables).ids.tolist()
    assert found(f"search {own} {model} {tmp_path}/queries.npy -k 4") == expected
    of_codes = index.search(codes[:3], 4, byte_tables=hasher.distance_tables(codes[:3])).ids.tolist()
    assert found(f"search {own} {model} --codes {tmp_path}/queries.codes -k 4") == of_codes
    row = index.search(codes[:1], 5, byte_tables=hasher.distance_tables(codes[:1])).ids[0]
    assert found(f"search {own} {model} --row 0 -k 4") == [row[row != 0][:4].tolist()]
    even = [item for item in found(f"search {own} {model} --row 0 -k 29")[0] if item % 2 == 0]
    assert found(f"search {own} {model} --row 0 -k 2 --label even") == [even[:2]]
    # Every code twice, and several queries at once: what a list leaves out of a tie is printed for each of them.
    twice = Codes(
        np.repeat(codes.packed, 2, axis=0), codes.bits, metadata={**codes.metadata, "model": hasher.fingerprint()}
    )
    HammingIndex(twice).save(tmp_path / "twice.index")
    printed = must(f"search {tmp_path}/twice.index {model} {tmp_path}/queries.npy -k 1")
    assert printed.count("not shown") == len(vectors)
    if name == "cls_onehot":  # whole classes are equally near, and that is said
        same = int((codes.packed == codes.packed[0]).all(1).sum()) - 1
        assert f"{same} items are at distance 0.0000" in must(f"search {own} {model} --row 0 -k 1")
    assert f"scdh search {own} --model" in must(f"info {own}")
    page = tmp_path / "hits.html"
    must(f"search {own} {model} --row 0 --html {page}")
    assert f"nearest by {hasher.method.ranking} first" in html.unescape(page.read_text())
    save_model(tmp_path / "other", 5)
    HammingIndex(Codes(codes.packed, codes.bits, metadata={RANKING: "none known"})).save(tmp_path / "unknown.index")
    for given, sentence in {
        "--row 0": "computed by the model that made it: give --model RUN.",
        f"{model} --row 0 --radius 2": "for which there is no --radius.",
        f"{model} {tmp_path}/queries.npy --rank outputs": "for which there is no --rank outputs.",
        f"--model {tmp_path}/other --row 0": f"which {tmp_path}/other (SCDH) does not compute.",
    }.items():
        searched = f"{tmp_path}/unknown.index" if "other" in given else own
        message = fails(f"search {searched} {given}")
        assert message.endswith(f"{sentence}\n")
        assert message.count("\n") == 1


def test_a_model_is_no_query_where_bits_rank(photos: Path) -> None:
    message = fails(f"search {photos}/all.index --model {photos}/run --row 0")
    assert message.endswith("need no model for ranking; --model is for images, so leave it out.\n")


@pytest.mark.skipif(bool(missing_packages("openvino")), reason="openvino is not installed")
def test_every_engine_gives_the_same_codes(photos: Path) -> None:
    encode = f"encode {photos}/run {photos}/photos --workers 0"
    for engine in ("torch", "openvino", "auto"):
        must(f"{encode} --engine {engine} --out {photos}/{engine}.codes")
        assert Codes.load(photos / f"{engine}.codes") == Codes.load(photos / "all.codes")
        assert Codes.load(photos / f"{engine}.codes").metadata == Codes.load(photos / "all.codes").metadata
    image, search = photos / "photos/a/3.png", f"search {photos}/all.index --model {photos}/run -k 3 --json"
    assert run_json(f"{search} --engine openvino {image}") == run_json(f"{search} --engine torch {image}")
    assert "'fast'" in fails(f"{encode} --engine fast --out {photos}/fast.codes")
    assert not (photos / "fast.codes").exists()


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
    printed = must(f"index {place}/own.codes --out {tmp_path}/a.index --keep-vectors float16")
    assert "a.index --rank vectors --row" in printed
    must(f"index {place}/own.codes --out {tmp_path}/a.index --append --renumber --on-duplicate replace")
    must(f"index --out {tmp_path}/a.index --remove 3")
    grown, first = HammingIndex.load(tmp_path / "a.index", verify=True), Codes.load(place / "own.codes")
    assert grown.vector_kind == ("float16", 12)
    assert np.array_equal(grown.codes.vectors, np.delete(first.vectors, 3, 0))  # type: ignore[arg-type]
    assert "has no vectors to keep" in fails(f"index {place}/plain.codes --out {tmp_path}/a.index --append --renumber")


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
    err = fails(command.format(place, place))
    assert message in err
    assert err.count("\n") == 1

"""Nested codes from `scdh train --bits 6,13,20` to a search among their first bits."""

from pathlib import Path

import numpy as np
import pytest

from scdh import Codes, HammingIndex, Hasher, evaluate, train
from scdh.codes.checks import searched_bits
from scdh.data.name_files import load_named_codes
from scdh.errors import ConfigError
from tests.cli.commands import must, run, run_json


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nested")
    must(f"train --preset demo-digits --epochs 4 --bits 13,20,6 --out {folder}/run")
    must(f"encode {folder}/run digits --part database --out {folder}/all.codes")
    must(f"index {folder}/all.codes --bits 6 --out {folder}/short.index")
    return folder


def test_every_length_is_scored(place: Path) -> None:
    assert Hasher.load(place / "run").method.settings.nested == [6, 13]
    scores = run_json(f"evaluate {place}/run --no-floats --json")
    (queries, query_names), (database, names) = (
        load_named_codes(place / f"run/codes/{part}.codes") for part in ("query", "database")
    )
    assert query_names is not None
    assert names is not None
    assert list(scores["nested"]) == ["6", "13"]
    for bits in (6, 13):
        parts = (queries.truncate(bits), query_names.labels, database.truncate(bits), names.labels)
        assert scores["nested"][str(bits)]["map"] == pytest.approx(evaluate(*parts).map)
    assert "Nested codes" in must(f"evaluate {place}/run --no-floats")


def test_an_index_of_first_bits_is_searched_by_codes_and_by_the_model(place: Path, tmp_path: Path) -> None:
    index, codes = HammingIndex.load(place / "short.index"), Codes.load(place / "all.codes")
    assert index.codes == codes.truncate(6)
    expected = index.search(codes.truncate(6), 5).distances.tolist()
    found = run_json(f"search {place}/short.index -k 5 --codes {place}/all.codes --json")["queries"]
    assert [[hit["distance"] for hit in query["hits"]] for query in found] == expected
    vectors = np.random.default_rng(0).uniform(0, 16, (4, 64)).astype(np.float32)
    np.save(tmp_path / "new.npy", vectors)
    own, u = Hasher.load(place / "run").encode(vectors, outputs=True)
    for rank, weights in (("bits", None), ("outputs", np.abs(u[:, :6]))):
        search = f"search {place}/short.index -k 5 --rank {rank} --model {place}/run {tmp_path}/new.npy --json"
        hits = index.search(own.truncate(6), 5, weights=weights)
        found = run_json(search)["queries"]
        assert [[hit["distance"] for hit in query["hits"]] for query in found] == pytest.approx(
            hits.distances, rel=1e-5
        )


def test_only_codes_of_the_same_model_are_cut_to_an_index() -> None:
    assert searched_bits(48, "a", 24, {"model": "a"}) == 24
    assert searched_bits(24, "a", 48, {"model": "a"}) == 24
    assert searched_bits(48, "a", 24, {"model": "b"}) == searched_bits(48, None, 24, {}) == 48


def test_lengths_in_python_are_those_of_the_command() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 8)), np.arange(60) % 3
    model = train(X, bits=[16, 4, 16], labels=y, epochs=2, trials=False, quiet=True)
    assert (model.bits, model.method.settings.nested) == (16, [4])
    with pytest.raises(ConfigError, match="bits must be a whole number"):
        train(X, bits=[], labels=y)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("index {}/all.codes --bits 21 --out {}/x.index", "can be cut to 1 to 20 bits, not to 21"),
        ("index {}/all.codes --out {}/short.index --append --renumber", "20 bits, but those of"),
        ("index --check {}/short.index --bits 6", "--check takes no codes"),
        ("train --data digits --method itq --bits 6,12", "ITQ does not learn nested codes; give one number of bits"),
        ("train --data digits --bits 6,x", "--bits takes whole numbers joined by commas"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(place: Path, command: str, message: str) -> None:
    code, _, err = run(command.format(place, place))
    assert code == 2
    assert message in err

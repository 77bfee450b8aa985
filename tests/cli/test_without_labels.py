"""From a table of embeddings without labels to hits with the user's own ids."""

import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.cli.commands import must, run, run_json
from tests.data.data_files import write_parquet

ROWS = 50
IDS = [f"SKU-{i}" for i in range(ROWS)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, with a space in its name, that holds a table, a run, codes and an index."""
    d = tmp_path_factory.mktemp("my shop ü")
    vectors = np.random.default_rng(0).normal(size=(ROWS, 16)) * np.arange(1, 17)
    write_parquet(d / "shop.parquet", {"asin": IDS, "vec": pa.array(vectors.tolist()), "price": list(range(ROWS))})
    options = ["--vector-column", "vec", "--id-column", "asin", "--label-column", "none"]
    data = str(d / "shop.parquet")
    must(["train", "--data", data, *options, "--method", "pca", "--bits", "12", "--out", f"{d}/run"])
    must(["encode", f"{d}/run", data, *options, "--out", f"{d}/shop.codes"])
    must(["index", f"{d}/shop.codes", "--out", f"{d}/shop.index"])
    return d


@pytest.mark.parametrize("method", ["itq", "lsh", "pca"])
def test_train_says_what_comes_next(shop: Path, tmp_path: Path, method: str) -> None:
    data, options = f"{shop}/shop.parquet", ["--vector-column", "vec", "--id-column", "asin", "--label-column", "none"]
    printed = must(["train", "--data", data, *options, "--method", method, "--bits", "8", "--out", str(tmp_path / "r")])
    assert "8 bits, no labels" in printed
    commands = [line.strip() for line in printed.splitlines() if line.startswith("  scdh ")]
    assert [command.split()[1] for command in commands] == ["report", "encode", "index", "search"]
    assert "--vector-column vec --label-column none --id-column asin" in commands[1]


def test_a_run_without_labels_is_described_and_not_scored(shop: Path) -> None:
    suggested = [line.strip() for line in must(["info", f"{shop}/run"]).split("Next:\n")[1].splitlines()]
    assert [command.split()[1] for command in suggested] == ["report", "encode"]
    for command in suggested:
        must([*shlex.split(command)[1:], "--replace"] if " encode " in command else shlex.split(command)[1:])
    code, _, message = run(["evaluate", f"{shop}/run"])
    assert code == 2
    assert "no query rows to score: shop.parquet has no labels" in message


def test_search_by_name(shop: Path) -> None:
    index = f"{shop}/shop.index"
    by_number = run_json(["search", index, "--row", "17", "-k", "4", "--json"])["queries"]
    assert run_json(["search", index, "--row", "SKU-17", "-k", "4", "--json"])["queries"] == by_number
    assert by_number[0]["query"] == "SKU-17"
    assert all(hit["name"] == f"SKU-{hit['id']}" for hit in by_number[0]["hits"])
    assert "SKU-17" not in [hit["name"] for hit in by_number[0]["hits"]]
    code, _, message = run(["search", index, "--row", "SKU-177"])
    assert code == 2
    assert "Unknown item 'SKU-177'; did you mean 'SKU-17'?" in message


def test_names_that_are_numbers_or_not_unique(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    np.savez(tmp_path / "v.npz", X=x, ids=np.array(["3", "x", "x", "4711"]))
    must(f"train --data {tmp_path}/v.npz --method lsh --bits 8 --out {tmp_path}/run")
    must(f"encode {tmp_path}/run {tmp_path}/v.npz --out {tmp_path}/v.codes")
    must(f"index {tmp_path}/v.codes --out {tmp_path}/v.index")
    assert run_json(f"search {tmp_path}/v.index --row 4711 --json")["queries"][0]["query"] == "4711"
    code, out, note = run(f"search {tmp_path}/v.index --row 3")
    assert (code, out.split()[0]) == (0, "4711")
    assert note == "--row 3 is the item with id 3; the one called '3' has id 0.\n"
    code, _, message = run(f"search {tmp_path}/v.index --row x")
    assert (code, "2 items are called 'x'; give the id of one of them (1, 2)" in message) == (2, True)
    assert "does not contain the id 12" in run(f"search {tmp_path}/v.index --row 12")[2]
    next(tmp_path.glob("v.index.items-*")).unlink()
    code, _, message = run(f"search {tmp_path}/v.index --row x")
    assert (code, "--row needs the id of an item, a whole number" in message) == (2, True)


def test_datasets_offers_to_split_labels(tmp_path: Path) -> None:
    lines = "".join(f'"[{i}, 1]","{a}, {b}"\n' for i, (a, b) in enumerate((a, b) for a in "abc" for b in "xyz"))
    (tmp_path / "t.csv").write_text(f"x,tags\n{lines}")
    code, _, note = run(f"datasets {tmp_path}/t.csv --json")
    assert code == 0
    assert '9 different values in 9 rows; if a cell holds several labels, --label-separator ","' in note
    described = run_json(["datasets", f"{tmp_path}/t.csv", "--label-separator", ",", "--json"])
    assert sorted(described["classes"]) == list("abcxyz")
    assert described["width"] == 2
    code, _, message = run("datasets --id-column a")
    assert (code, "--id-column describes one source" in message) == (2, True)

"""`scdh train`: settings that suit the data, counts of the split, data without labels, resuming, commands it prints."""

import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import scdh
from scdh.cli.options import read_settings
from scdh.config import load_config
from scdh.data.row_names import RowNames
from scdh.errors import ConfigError
from tests.cli.commands import fails, must, run, run_json
from tests.data.data_files import write_parquet, write_pictures


def test_resume_takes_the_run_s_own_settings(work: Path) -> None:
    must(f"train --resume --out {work}/runs/digits")
    must(f"train --preset demo-digits --epochs 10 --resume --out {work}/runs/digits")
    err = fails(f"train --preset demo-digits --epochs 9 --resume --out {work}/runs/digits")
    assert "train.epochs (10, not 9)" in err


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    must(f"train --preset demo-digits --epochs 2 --out {tmp_path}/run")
    must(f"train --resume --epochs 4 --out {tmp_path}/run")
    log = (tmp_path / "run/log.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in log[1:]] == ["1", "2", "3", "4"]
    assert run_json(f"train --resume --out {tmp_path}/run --show-config --json")["train"]["epochs"] == 4


@pytest.mark.parametrize(("method", "epochs", "is_told"), [("scdh", 2, True), ("scdh", 20, False), ("csq", 2, False)])
def test_a_higher_alpha_is_advised_where_signs_lose_much(method, epochs, is_told, tmp_path):
    text = must(f"train --preset demo-digits --method {method} --epochs {epochs} --out {tmp_path}/run")
    assert ("a higher method.alpha than 0.5" in text) == is_told


def test_embeddings_get_a_network_for_embeddings(work: Path) -> None:
    toml = must("train --data digits --bits 16 --epochs 3 --show-config")
    assert 'backbone = "features"  # suits embeddings' in toml
    assert "# trials start from this value" in next(line for line in toml.splitlines() if line.startswith("lr_head"))
    (work / "again.toml").write_text(toml)
    again = load_config(file=work / "again.toml")
    assert again.net.backbone == "features"
    assert again.net.hidden == [512]
    assert again.method.bits == 16
    assert again.train.epochs == 3
    assert again.train.optimiser == "adamw"
    shown = run_json("train --data digits --bits 16 --epochs 3 --show-config --json")
    assert shown.pop("to_try") == ["train.lr_head", "method.alpha", "train.lr_trunk"]
    assert {"setting": "net.backbone", "value": "features", "reason": "suits embeddings"} in shown.pop("choices")
    assert again.model_dump(mode="json") == shown


def test_refit_trains_on_the_validation_rows_once_settings_are_chosen(tmp_path: Path) -> None:
    command = "train --data digits --bits 8 --epochs 1 --no-trials --refit"
    assert run_json(f"{command} --show-config --json")["data"]["train_on_validation"] is True
    out = must(f"{command} --out {tmp_path}/run")
    assert "Split: train 1,293 · validation 145" in out
    assert "--refit: the 145 validation rows train too." in out
    assert "Split: train 1,438 · validation 0" in must(f"evaluate {tmp_path}/run")
    must(f"train --resume --refit --out {tmp_path}/run")
    must(f"train --data digits --bits 8 --epochs 1 --no-trials --out {tmp_path}/plain")
    assert "--refit makes a run of its own" in fails(f"train --resume --refit --out {tmp_path}/plain")
    assert "no rows validate" in must(f"{command} --set data.validation_per_class=0 --out {tmp_path}/none")


def test_photos_get_settings_for_a_machine_without_a_gpu(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    write_pictures(photos, [f"apples/{i}.png" for i in range(11)] + [f"pears/{i}.png" for i in range(7)])
    settings = run_json(f"train --data {photos} --show-config --json")
    assert settings["net"]["freeze"] is True
    assert settings["train"]["optimiser"] == "adamw"
    assert settings["train"]["epochs"] == 300  # a pass is one step
    assert settings["method"]["alpha"] == 0.3
    assert settings["data"]["query_per_class"] is None  # fits the data
    whole = run_json(f"train --data {photos} --set net.freeze=false --set data.query_per_class=2 --show-config --json")
    assert whole["net"]["freeze"] is False
    assert (whole["train"]["optimiser"], whole["train"]["batch_size"]) == ("adamw", 32)
    assert whole["data"]["query_per_class"] == 2
    untrained = run_json(f"train --data {photos} --set net.backbone=small_conv --show-config --json")
    assert untrained["net"]["freeze"] is False


def test_the_next_commands_can_be_pasted(tmp_path: Path) -> None:
    np.save(tmp_path / "my vectors.npy", np.random.default_rng(0).normal(size=(40, 6)))
    np.save(tmp_path / "labels.npy", np.arange(40) % 2)
    command = ["train", "--data", f"{tmp_path}/my vectors.npy", "--labels", f"{tmp_path}/labels.npy", "--epochs", "1"]
    code, out, err = run([*command, "--out", f"{tmp_path}/a run"])
    assert code == 0, err
    lines = out.split("Next:\n")[1].splitlines()
    assert [line.split()[1] for line in lines] == ["evaluate", "report", "encode", "index", "search"]
    for line in lines:
        code, _, err = run(shlex.split(line)[1:])
        assert code == 0, err
    items = RowNames.load(tmp_path / "a run/all.codes", None, 40)
    assert items.labelled
    code, out, err = run([*command, "--set", "data.split=all", "--out", f"{tmp_path}/whole"])
    assert code == 0, err
    assert "scdh evaluate" not in out


def test_default_folder_and_json_of_train(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    content = run_json("train --preset demo-digits --epochs 1 --bits 8 --seed 3 --json")
    assert content["run"] == "runs/digits-scdh-8bit-seed3"
    assert Path(content["model"], "model.safetensors").exists()
    assert content["config"]["method"]["bits"] == content["bits"] == 8


def test_a_table_given_to_set_is_read_key_by_key() -> None:
    assert read_settings(["train={epochs=5, lr_head=0.1}"]) == {"train.epochs": 5, "train.lr_head": 0.1}
    with pytest.raises(ConfigError, match=r"train\.epochs is given twice by --set"):
        read_settings(["train={epochs=5}", "train.epochs=6"])


@pytest.fixture(scope="module")
def small_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("vectors") / "small.npz"
    rng = np.random.default_rng(0)
    labels = np.arange(1500) % 3
    X = rng.normal(size=(3, 8))[labels] + rng.normal(size=(1500, 8))
    np.savez(file, X=X.astype(np.float32), y=labels)
    return file


@pytest.mark.slow
def test_defaults_are_found_told_and_kept(small_vectors: Path, tmp_path: Path) -> None:
    out = must(f"train --data {small_vectors} --bits 16 --set net.hidden=[16] --epochs 3 --out {tmp_path}/run")
    assert "To be found by trials on the" in out
    assert "trials in" in out
    shown = run_json(f"train --resume --out {tmp_path}/run --show-config --json")
    reasons = {choice["setting"]: choice["reason"] for choice in shown["choices"]}
    assert {"train.lr_head", "method.alpha", "net.standardise"} <= reasons.keys()
    toml = must(f"train --resume --out {tmp_path}/run --show-config")
    (tmp_path / "again.toml").write_text(toml)
    again = run_json(f"train --config {tmp_path}/again.toml --out {tmp_path}/again --json")
    assert again["choices"] == []
    weights = [scdh.Hasher.load(tmp_path / name).fingerprint() for name in ("run", "again")]
    assert weights[0] == weights[1]


QUICK = "--set net.hidden=[8] --set train.batch_size=16 --epochs 1"
COUNTS = (
    "Split: train 40 · validation 10 · query 20 · database 46 · unlabelled 6 rows (array split of v.npz; database: "
)
AS_JSON = {"train": 40, "validation": 10, "query": 20, "database": 46, "unlabelled": 6}


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    split = np.repeat(["train", "val", "Query", "unlabelled"], [40, 10, 20, 6])
    labels = np.where(np.arange(76) < 70, np.arange(76) % 2, -1)
    np.savez(tmp_path / "v.npz", X=np.random.default_rng(0).normal(size=(76, 5)), y=labels, split=split)
    return tmp_path / "v.npz"


def test_train_and_evaluate(vectors: Path) -> None:
    out = must(f"train --data {vectors} {QUICK} --bits 8 --out {vectors.parent}/run")
    assert COUNTS in out
    assert out.index("Split:") < out.index("The model is in")
    printed = must(f"evaluate {vectors.parent}/run")
    assert printed.startswith(COUNTS)
    scores = run_json(f"evaluate {vectors.parent}/run --json")
    assert scores["split_counts"] == AS_JSON
    assert scores["split_about"].startswith("array split of v.npz")
    assert scores["definition"]["queries"] == 20
    content = run_json(f"train --data {vectors} {QUICK} --bits 8 --out {vectors.parent}/again --json")
    assert content["split_counts"] == AS_JSON


def test_compare(vectors: Path) -> None:
    command = f"compare scdh lsh --data {vectors} {QUICK} --bits 4 --seeds 0 --out {vectors.parent}/compared"
    assert must(command).startswith(COUNTS)
    data = run_json(f"{command} --json")["data"]
    assert {part: data[part] for part in AS_JSON} == AS_JSON


def test_datasets(vectors: Path) -> None:
    out = must(f"datasets {vectors}")
    assert "test 20, train 40, unlabelled 6, val 10" in out
    assert "train 40, validation 10, query 20, database 46, unlabelled 6" in out
    assert run_json(f"datasets {vectors} --json")["split_counts"] == AS_JSON
    asked = vectors.with_name("asked.npz")
    np.savez(asked, X=np.eye(4), y=np.arange(4) % 2, split=np.array(["train", "train", "odd", "test"]))
    assert "'odd' has no known meaning" in " ".join(must(f"datasets {asked}").split())
    assert run_json(f"datasets {asked} --json")["split_counts"] is None
    err = fails(f"train --data {asked} --out {vectors.parent}/x")
    assert "--set data.validation=odd" in err  # train and test are there


def test_a_run_without_queries_is_not_sent_to_be_evaluated(tmp_path: Path) -> None:
    np.savez(tmp_path / "alone.npz", X=np.random.default_rng(0).normal(size=(30, 5)), y=np.arange(30))
    out = must(f"train --data {tmp_path}/alone.npz {QUICK} --bits 8 --out {tmp_path}/run")
    assert "train 30 · validation 0 · query 0 · database 30" in out
    assert "no queries to evaluate with" in out
    assert "scdh evaluate" not in out


@pytest.mark.parametrize(("method", "advised"), [("scdh", "--method itq"), ("itq", "try more bits")])
def test_labels_of_one_row_each_are_not_blamed_on_settings(tmp_path: Path, method: str, advised: str) -> None:
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.normal(size=(40, 16)), 2, axis=0) + 0.1 * rng.normal(size=(80, 16))
    np.savez(tmp_path / "pairs.npz", X=vectors, y=np.repeat(np.arange(40), 2))
    quick = QUICK if method == "scdh" else ""
    must(f"train --data {tmp_path}/pairs.npz {quick} --method {method} --bits 4 --out {tmp_path}/run")
    advice = run_json(f"evaluate {tmp_path}/run --json")["advice"]
    assert "1.0 items per label" in advice
    assert advised in advice
    assert "--method scdh" not in advice


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
    assert "no query rows to score: shop.parquet has no labels" in fails(["evaluate", f"{shop}/run"])


def test_search_by_name(shop: Path) -> None:
    index = f"{shop}/shop.index"
    by_number = run_json(["search", index, "--row", "17", "-k", "4", "--json"])["queries"]
    assert run_json(["search", index, "--row", "SKU-17", "-k", "4", "--json"])["queries"] == by_number
    assert by_number[0]["query"] == "SKU-17"
    assert all(hit["name"] == f"SKU-{hit['id']}" for hit in by_number[0]["hits"])
    assert "SKU-17" not in [hit["name"] for hit in by_number[0]["hits"]]
    assert "Unknown item 'SKU-177'; did you mean 'SKU-17'?" in fails(["search", index, "--row", "SKU-177"])


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

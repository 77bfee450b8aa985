"""Training on pairs from `scdh train --pairs` to `scdh evaluate`, with labels and without."""

from pathlib import Path

import numpy as np
import pytest

from scdh import Hasher, train
from scdh.errors import ConfigError, DataError
from scdh.training import clusters
from tests.cli.commands import fails, must, run_json

Place = tuple[Path, np.ndarray, np.ndarray, list[tuple[int, int, int]]]


@pytest.fixture(autouse=True)
def _easy_data_need_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "STEPS", 100)
    monkeypatch.setattr(clusters, "PASSES", 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """360 vectors of three classes with ids, and three pairs of each, of which one in 20 is wrong."""
    folder, rng = tmp_path_factory.mktemp("pairs"), np.random.default_rng(0)
    labels = np.arange(360) % 3
    x = (np.eye(3, 12)[labels] * 4 + rng.normal(size=(360, 12))).astype(np.float32)
    ids = [f"item {row}" for row in range(360)]
    np.savez(folder / "plain.npz", x=x, ids=ids)
    np.savez(folder / "labelled.npz", x=x, y=labels, ids=ids)
    a = np.repeat(np.arange(360), 3)
    b = (a + rng.integers(1, 360, len(a))) % 360
    similar = (labels[a] == labels[b]) ^ (rng.random(len(a)) < 0.05)
    pairs = list(zip(a.tolist(), b.tolist(), similar.astype(int).tolist(), strict=True))
    lines = [f"{ids[i]},{ids[j]},{s}" for i, j, s in pairs]
    (folder / "pairs.csv").write_text("\n".join(["a,b,similar", *lines]), "utf-8")
    return folder, x, labels, pairs


@pytest.mark.slow
@pytest.mark.parametrize("method", ["scdh", "dpsh", "hashnet"])
def test_held_out_pairs_are_scored_where_there_are_no_labels(place: Place, method: str) -> None:
    folder = place[0]
    options = f"--pairs {folder}/pairs.csv --bits 16 --method {method} --epochs 30 --set net.hidden=[32]"
    made = run_json(f"train --data {folder}/plain.npz {options} --out {folder}/{method} --json")
    assert made["split_counts"]["query"] == 36
    scores = run_json(f"evaluate {folder}/{method} --json")
    assert scores["auc"] > 0.85
    assert scores["distance_similar"] < scores["distance_dissimilar"]
    if method == "scdh":
        assert made["labels"] == 3
        assert "AUC of distances" in must(f"evaluate {folder}/{method} --part validation")


@pytest.mark.slow
def test_labels_are_for_scoring_only(place: Place) -> None:
    folder, x, labels, pairs = place
    parts = ["train"] * 300 + ["test"] * 60
    for name, y in (("right", labels), ("wrong", np.random.default_rng(1).permutation(labels))):
        np.savez(folder / f"{name}.npz", x=x, y=y, ids=[f"item {row}" for row in range(360)], split=parts)
        out = folder / f"run-{name}"
        must(f"train --data {folder}/{name}.npz --pairs {folder}/pairs.csv --bits 16 --epochs 10 --out {out}")
    first, second = (Hasher.load(folder / f"run-{name}").encode(x) for name in ("right", "wrong"))
    assert np.array_equal(first.packed, second.packed)
    assert run_json(f"evaluate {folder}/run-right --json")["map"] > 0.9
    model = train(x, bits=16, labels=labels, pairs=pairs, epochs=10, quiet=True)
    assert model.label_names[:2] == ["cluster 0", "cluster 1"]


def test_mistakes_are_one_sentence(place: Place, tmp_path: Path) -> None:
    folder, x, _, pairs = place
    data = f"train --data {folder}/plain.npz --pairs {folder}/pairs.csv --out {tmp_path}/run"
    assert "learns without labels" in fails(f"{data} --method itq")
    assert "leave refit out" in fails(f"{data} --refit")
    (tmp_path / "few.csv").write_text("a,b,similar\nitem 1,item 2,1\nitem 3,item 4,0\n")
    assert "too few pairs" in fails(f"train --data {folder}/plain.npz --pairs {tmp_path}/few.csv")
    (tmp_path / "other.csv").write_text("a,b,similar\nitem 1,item 1000,1\n")
    assert "Unknown item" in fails(f"train --data {folder}/plain.npz --pairs {tmp_path}/other.csv")
    assert "there is no such file" in fails(f"train --data {folder}/plain.npz --pairs {tmp_path}/missing.csv")
    assert "leave data.pairs out" in fails(
        f"compare scdh --data {folder}/labelled.npz --set data.pairs={folder}/pairs.csv --out {tmp_path}/c"
    )
    with pytest.raises(ConfigError, match="path of a table"):
        train(folder / "plain.npz", pairs=pairs)
    with pytest.raises(DataError, match="a, b and similar for each pair"):
        train(x, pairs=[(0, 1), (1, 2)])

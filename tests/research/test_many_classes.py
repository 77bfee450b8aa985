"""Very many classes, at toy size."""

from pathlib import Path

import numpy as np
import pytest

from research import many_classes


def test_runs_are_kept_and_the_rate_is_chosen_by_validation_rows(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(many_classes, "NEW_CLASSES", 5)
    monkeypatch.setattr(many_classes, "JUDGED", 10)
    rng, y = np.random.default_rng(0), np.arange(80) % 2
    np.savez(tmp_path / "real.npz", x=rng.normal(size=(80, 70)) + 3 * y[:, None], y=y)
    rows = tmp_path / "rows.jsonl"
    options = ["scores", str(rows), "--classes", "30", "--embeddings", f"{tmp_path}/real.npz", "--epochs", "1"]
    options += ["--seeds", "2", "--methods", "floats", "ITQ", "SCDH, sampled, start"]
    many_classes.main(options)
    table = capsys.readouterr().out.splitlines()[-8:]
    assert [line.split("|")[1:3] for line in table[2:]] == [
        [f" {data} ", f" {name} "]
        for data in ("nuisance, 30 classes", "real")
        for name in ("floats", "ITQ", "SCDH, sampled, start")
    ]
    kept = many_classes.read(rows)
    assert len(kept) == 2 * (2 + 2 + 3)  # both rates with one seed
    many_classes.main(options)
    assert many_classes.read(rows) == kept


def test_floats_are_scored_as_by_the_evaluation(monkeypatch) -> None:
    from scdh.evaluation import evaluate_distances
    from scdh.metrics.cosine import cosine_distances

    source, protocol, _ = many_classes.made_up("alike", 1000, 0)
    base = protocol.database[:300]
    rows, x, y = np.arange(250), source.features, source.labels
    expected = evaluate_distances(cosine_distances(x[rows], x[base]), y[rows], y[base]).map
    assert many_classes.float_map(x[rows], y[rows], x[base], y[base]) == pytest.approx(expected)


def test_the_cost_of_a_step_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [many_classes.step_cost(50, None, 1), many_classes.step_cost(50, 5, 2)]
    assert all(row["s"] > 0 for row in rows)
    many_classes.draw(rows, tmp_path / "costs.png")
    assert (tmp_path / "costs.png").read_bytes().startswith(b"\x89PNG")

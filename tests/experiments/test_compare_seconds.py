"""Equal seconds: the time of a run is estimated from short ones, and trials are as long as runs."""

from pathlib import Path
from typing import Any

import pytest

from scdh.config import RunConfig, load_config
from scdh.data.open import open_source
from scdh.experiments.compare import budget, rates, tuning
from scdh.experiments.compare.grid import Grid
from scdh.runs.choices import Choice, Trial


@pytest.mark.parametrize("steps", [5, 11, 70, 100, 390])
def test_time_of_a_run_is_estimated_from_short_ones(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def costs(epochs: int, steps: int) -> list[float]:
        """A method that prepares, refits codebooks as DQN does, and takes long for its first step."""
        refits = [epoch in (1, epochs) or epoch % 2 == 0 for epoch in range(1, epochs + 1)]
        return [3.0 * (epoch == 0) + 0.4 * refit + 0.01 * steps for epoch, refit in enumerate(refits)]

    timed: list[int] = []

    def short_run(config: RunConfig, *_: Any) -> list[float]:
        timed.append(config.train.epoch_steps or 0)
        return costs(config.train.epochs, timed[-1])

    monkeypatch.setattr(budget, "epoch_seconds", short_run)
    config = load_config("demo-digits", overrides={"train.epoch_steps": steps, "train.patience": 2})
    time = budget.run_time(config, open_source("digits"), Path(), 60.0)
    assert timed == [min(steps, 10), min(steps, 100)]
    for epochs in (4, 20, 60):
        assert time.fixed + epochs * time.epoch == pytest.approx(sum(costs(epochs, steps)), abs=0.5)
        assert time.epochs_in(sum(costs(epochs, steps))) == pytest.approx(epochs, abs=1)
    assert time.epochs_in(1.0) == 1


def test_trials_are_as_long_as_the_runs_that_they_choose_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"data.validation_per_class": 20, "train.lr_steps": [15]}
    grid = Grid(("scdh",), (8,), (0,), "demo-digits", settings=settings, epochs={("scdh", 8): 12})
    source, lengths = open_source("digits"), list[int]()

    def no_trials(choices: Any, *_: Any, **__: Any) -> None:
        lengths.append(choices.config.train.epochs)
        choices.made = [Choice("train.lr_head", 0.1, "a test")]
        choices.trials = [Trial({"train.lr_head": 0.1, "train.epochs": 12}, 0.5, None, 0.0)]

    monkeypatch.setattr(rates, "choose_by_trials", no_trials)
    found, _ = rates.own_rates(grid, source, tmp_path, tmp_path, lambda _: None)
    value = tuning._trial_cell(found, source, "scdh", 8, 0, {"method.alpha": 0.1}).config.train
    whole = rates.whole_trial(grid, source, "scdh", 3.0, 3.0).config.train
    (run,) = found.cells(source)
    assert (lengths, value.epochs, whole.epochs, run.config.train.epochs) == ([12], 12, 4, 12)
    assert (value.lr_steps, run.config.train.lr_steps) == ([6], [6])  # half of the usual 30 epochs

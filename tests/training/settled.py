"""Train with settings as they are, whatever the data: what most tests of training want; or with few, short trials."""

from pathlib import Path
from typing import Any

import pytest

from scdh.cli.options import read_settings
from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.model.hasher import Hasher
from scdh.training import search, trials
from scdh.training.plan import settled_plan
from scdh.training.run import run_plan


def train(
    config: RunConfig,
    folder: Path | None = None,
    *,
    source: Source | None = None,
    protocol: Protocol | None = None,
    **options: Any,
) -> Hasher:
    return run_plan(settled_plan(config, source, protocol), folder, **options)


def shorten_trials(patch: pytest.MonkeyPatch, least_rows: int, longest: int = 1) -> None:
    """Two rates, one value of α, and lengths of at most ``longest`` times four steps."""
    patch.setattr(trials, "FIRST_STEPS", 4)
    patch.setattr(trials, "LEAST_VALIDATION_ROWS", least_rows)
    patch.setattr(search, "RATES", (0.001, 0.01))
    patch.setattr(search, "FURTHER_RATES", 0)
    patch.setattr(search, "LONGEST", longest)
    patch.setattr(search, "ALPHA_TRIALS", 1)


def as_settings(text: str) -> dict[str, Any]:
    """Settings that are written as on the command line: "train.epochs=2 net.views=2"."""
    return read_settings(text.split())

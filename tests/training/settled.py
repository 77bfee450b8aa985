"""Train with settings as they are, whatever the data: what most tests of training want."""

from pathlib import Path
from typing import Any

from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.model.hasher import Hasher
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

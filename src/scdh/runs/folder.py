"""A run's folder belongs to one run: its settings and its split are written first and must not change."""

import json
from pathlib import Path
from typing import Any

from scdh.config import RunConfig, parse_config
from scdh.data.protocol import Protocol
from scdh.errors import ConfigError, TrainingError
from scdh.files import replacing
from scdh.versions import versions

STUDENT = "student"  # folder in a run's folder: the network that a teacher was averaged from


def claim_folder(folder: Path, config: RunConfig, resume: bool, write: bool) -> None:
    """Make ``folder`` this run's own: refuse another run's, or to resume with other settings."""
    file, wanted = folder / "config.json", config.model_dump(mode="json")
    if file.exists():
        if not resume and (folder / "last.safetensors").exists():
            raise TrainingError(
                f"{str(folder)!r} already holds a run; add --resume to go on with it, or choose another folder."
            )
        try:
            # Through the same check: a setting that came with a newer version has its default in an older run.
            found = parse_config(json.loads(file.read_text("utf-8"))["config"]).model_dump(mode="json")
        except (ValueError, KeyError, TypeError, ConfigError):
            raise TrainingError(f"{str(file)!r} does not hold the settings of a run; choose another folder.") from None
        if resume and (difference := _first_difference(found, wanted)):
            raise TrainingError(f"The run in {str(folder)!r} has another {difference}; resume with the same settings.")
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_text(json.dumps({"config": wanted, "versions": versions()}, indent=1), "utf-8")


def keep_protocol(file: Path, protocol: Protocol, resume: bool, write: bool) -> None:
    """Save the split; a run that goes on must have the one it was started with, else queries might be trained on."""
    if resume and file.exists() and (before := Protocol.load(file)) != protocol:
        raise TrainingError(
            f"The data have changed since the run in {str(file.parent)!r} was started (its split was "
            f"{before.fingerprint}, now it would be {protocol.fingerprint}); start a new run."
        )
    if write:
        protocol.save(file)


def _first_difference(found: Any, wanted: Any, key: str = "") -> str | None:
    if isinstance(found, dict) and isinstance(wanted, dict):
        for name in sorted(found.keys() | wanted.keys()):
            if difference := _first_difference(found.get(name), wanted.get(name), f"{key}.{name}".lstrip(".")):
                return difference
        return None
    return None if found == wanted else f"{key} ({found!r}, not {wanted!r})"

"""Settings of a run that were not given: their values, the reasons, and what was tried to find them.

They are in ``choices.json`` of the run folder. The file is written after every trial, so a run that is stopped during
its trials continues with those that are left.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scdh.config import RunConfig, parse_config
from scdh.errors import ConfigError, DataError
from scdh.storage.json_files import read_table, write_table

FORMAT = "scdh choices 1"


@dataclass(frozen=True)
class Choice:
    """A setting by its dotted key, its value, and the reason for it."""

    setting: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Trial:
    """A short run with some values: its validation MAP (None if it diverged) with the standard error of that mean, and
    l_q of the validation rows. ``halfway`` is the validation MAP after half of the epochs; if the trial was
    ``stopped`` there, because others were clearly better, the other figures are of that moment too.
    """

    values: dict[str, Any]
    validation_map: float | None
    l_q: float | None
    seconds: float
    error: float = 0.0
    halfway: float | None = None
    stopped: bool = False

    def is_sound(self) -> bool:
        """Whether the values are of the right kinds; a file may hold others."""
        numbers = (self.validation_map or 0.0, self.l_q or 0.0, self.seconds, self.error, self.halfway or 0.0)
        return isinstance(self.values, dict) and all(isinstance(number, int | float) for number in numbers)


@dataclass
class Choices:
    """What was chosen for a run so far.

    Args:
        config: the settings before anything is tried, with those of ``made`` that the data decide.
        to_try: settings that trials decide; empty when they are done, or when there are none.
        made: the choices, in the order in which they were made.
        trials: what was tried.
        refit: whether the validation rows train too, once everything is chosen.
        protocol: fingerprint of the split that trials train and validate on; "": not known.
    """

    config: RunConfig
    to_try: list[str] = field(default_factory=list)
    made: list[Choice] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    refit: bool = False
    protocol: str = ""

    def resolved(self) -> RunConfig:
        """The settings with every choice made so far."""
        return self.config.with_values({choice.setting: choice.value for choice in self.made})

    def final(self) -> RunConfig:
        """The settings of the run that follows the choices."""
        return self.resolved().with_values({"data.train_on_validation": True} if self.refit else {})

    def find_trial(self, values: dict[str, Any]) -> Trial | None:
        """The trial of these values, if it was made already."""
        return next((trial for trial in self.trials if trial.values == values), None)

    def are_for(self, config: RunConfig, protocol: str) -> bool:
        """Whether the trials are those of a run with these settings and this split."""
        is_same = self.config.with_method_defaults() == config.with_method_defaults()
        return is_same and self.protocol in ("", protocol)

    def save(self, path: Path) -> None:
        content = {
            "format": FORMAT,
            "choices": [asdict(choice) for choice in self.made],
            "to_try": self.to_try,
            "trials": [asdict(trial) for trial in self.trials],
            "refit": self.refit,
            "protocol": self.protocol,
            "config": self.config.model_dump(mode="json"),
        }
        write_table(path, content)

    @classmethod
    def load(cls, path: Path) -> "Choices | None":
        """What ``save`` wrote; None if there is no such file."""
        try:
            content = read_table(path, "the choices of a run", "restore it, or start a new run")
            if content["format"] != FORMAT:
                raise DataError(f"{path} has the format {content['format']!r}, but {FORMAT!r} was expected.")
            to_try, made = list(content["to_try"]), [Choice(**choice) for choice in content["choices"]]
            trials = [Trial(**trial) for trial in content["trials"]]
            settings = [*to_try, *(choice.setting for choice in made)]
            if not all(isinstance(name, str) for name in settings) or not all(trial.is_sound() for trial in trials):
                raise ValueError("a setting has no name, or a trial no numbers")
            return cls(
                parse_config(content["config"]),
                to_try,
                made,
                trials,
                bool(content["refit"]),
                str(content["protocol"]),
            )
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, ConfigError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"{path} does not hold the choices of a run: {error}.") from None


def flat_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Groups of settings → settings by dotted key."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return flat

"""What a run will do before it does it: its data, its split, and settings for what nobody gave."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scdh.config import RunConfig, load_config
from scdh.data.learned_labels import learned_source
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import ConfigError, TrainingError
from scdh.label_arrays import count_label_sets
from scdh.methods.declared import declared
from scdh.runs.choices import Choices
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.defaults import suited_choices
from scdh.training.device import process_count
from scdh.training.trials import choose_by_trials, settings_to_try


@dataclass(frozen=True)
class Plan:
    """A run to be: its data and split, the choices so far, and why nothing is tried where nothing is."""

    source: Source
    protocol: Protocol
    choices: Choices
    why_not_tried: str = ""

    @property
    def config(self) -> RunConfig:
        return self.choices.resolved()

    def finish(self, folder: Path | None, feature_cache: Path | None = None, *, quiet: bool = False) -> RunConfig:
        """Run the trials that are left, and give the settings of the run.

        Args:
            folder: the run folder that keeps the choices; None: nothing is written.
            feature_cache: folder that keeps a frozen trunk's features (default: the run's own).
            quiet: no progress bars.
        """
        run = None if folder is None else RunFolder(folder)
        cache = feature_cache or (None if run is None else run.features)
        file = None if run is None else run.choices_file
        if file is not None:
            earlier = Choices.load(file)
            if earlier is not None and earlier.are_for(self.choices.config, self.choices.protocol):  # it was stopped
                self.choices.trials[:] = earlier.trials
            self.choices.save(file)
        choose_by_trials(self.choices, self.source, self.protocol, file=file, feature_cache=cache, quiet=quiet)
        return self.choices.final()


def plan_run(
    given: Mapping[str, Any], *, trials: bool = True, refit: bool = False, source: Source | None = None
) -> Plan:
    """Choose settings for the data where none are given.

    Args:
        given: settings by dotted key; ``data.source`` at least.
        trials: whether settings may be found by trials.
        refit: whether the validation rows train too, once the settings are found.
        source: the data, where they are open already.
    """
    config = load_config(overrides=given)
    source = source_of(config) if source is None else source
    protocol = protocol_of(config, source)
    unlabelled = len(protocol.unlabelled) if declared(config.method.name).learns_from_unlabelled else 0
    learned = learned_source(source, protocol)
    sets = count_label_sets(learned.labels[protocol.train])
    made = suited_choices(config, learned, len(protocol.train), given, unlabelled, protocol.searched_counts, sets)
    choices = Choices(config, made=made)
    choices = Choices(choices.resolved(), made=made)
    to_try, why_not = settings_to_try(choices.config, source, protocol, given)
    if not trials:
        to_try, why_not = [], "none were asked for"
    if to_try and process_count() > 1:
        to_try, why_not = [], f"trials run in one process, and there are {process_count()}"
    choices.to_try, choices.refit, choices.protocol = to_try, refit, protocol.fingerprint
    return Plan(source, protocol, choices, why_not)


def resumed_plan(folder: Path) -> Plan | None:
    """The plan of a run that was stopped while it tried settings; None where there is no such run."""
    choices = Choices.load(RunFolder(folder).choices_file)
    if choices is None:
        return None
    if choices.to_try and process_count() > 1:
        raise ConfigError(
            f"The run in {str(folder)!r} was stopped while it tried settings, which one process does; resume it "
            "without torchrun until training begins."
        )
    source = source_of(choices.config)
    protocol = protocol_of(choices.config, source)
    if not choices.are_for(choices.config, protocol.fingerprint):
        raise TrainingError(
            f"The data have changed since the run in {str(folder)!r} tried settings on them (its split was "
            f"{choices.protocol}, now it would be {protocol.fingerprint}); start a new run."
        )
    return Plan(source, protocol, choices)

"""The plan of a run: its settings, data, split and choices, each computed once and carried as one object."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scdh.config import RunConfig, load_config
from scdh.data.protocol import Protocol, learned_source
from scdh.data.source import Source
from scdh.errors import ConfigError, TrainingError
from scdh.label_arrays import count_label_sets
from scdh.methods.registry import method_class
from scdh.runs.choices import Choices, flat_settings
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import protocol_of, source_of
from scdh.training.clusters import with_clusters
from scdh.training.defaults import suited_choices
from scdh.training.processes import process_count
from scdh.training.trials import choose_by_trials, settings_to_try


@dataclass
class Plan:
    """The plan of a run, which :func:`scdh.training.run.run_plan` carries out.

    Args:
        config: the settings, with the choices made so far.
        source: the data.
        protocol: the split.
        choices: the settings that were chosen, with reasons; None where all were given.
        is_settled: whether nothing is left to choose: all settings were given, or chosen earlier.
        why_not_tried: why no settings are tried; "" if some are, or if there is nothing to try.
    """

    config: RunConfig
    source: Source
    protocol: Protocol
    choices: Choices | None = None
    is_settled: bool = True
    why_not_tried: str = ""

    @property
    def to_try(self) -> list[str]:
        """The settings that trials have still to decide."""
        return [] if self.choices is None or self.is_settled else self.choices.to_try

    def finish(self, folder: Path | None, feature_cache: Path | None = None, *, quiet: bool = False) -> RunConfig:
        """Run the trials that are left, and return the settings of the run."""
        if self.is_settled or self.choices is None:
            return self.config
        choices, run = self.choices, None if folder is None else RunFolder(folder)
        file = None if run is None else run.choices_file
        if file is not None:
            earlier = Choices.load(file)
            if earlier is not None and earlier.are_for(choices.config, choices.protocol):  # it was stopped
                choices.trials[:] = earlier.trials
            choices.save(file)
        choose_by_trials(choices, self.source, self.protocol, file=file, feature_cache=feature_cache, quiet=quiet)
        self.config, self.is_settled = choices.final(), True
        if choices.refit and len(self.protocol.validation):
            self.protocol = self.protocol.without_validation()
        return self.config


def plan_run(
    config: RunConfig,
    *,
    resumed: Path | None = None,
    trials: bool = True,
    refit: bool = False,
    source: Source | None = None,
    feature_cache: Path | None = None,
    quiet: bool = False,
) -> Plan:
    """Open the data, split them, and choose what suits them for the settings that ``config`` leaves open.

    Args:
        config: the settings; those that were set explicitly stay as they are.
        resumed: folder of the run to continue, whose settings are those that ``config`` leaves open; None: a new run.
        trials: whether settings may be found by trials.
        refit: whether the validation rows train too, once the settings are found.
        source: the data, if they are already open.
        feature_cache: folder that keeps features, which pairs are turned into clusters by; None: the user's cache.
        quiet: no progress bars.
    """
    if config.is_complete:
        return settled_plan(config.with_values({"data.train_on_validation": True}) if refit else config, source)
    given = config.given()
    if resumed is not None:
        return _resumed_plan(resumed, given, refit, source)
    if "data.source" not in given:
        raise ConfigError("There is nothing to train on: give --data, --preset or --config (or --resume with --out).")
    source = source_of(config) if source is None else source
    protocol = protocol_of(config, source)
    if source.pairs is not None and refit:
        raise ConfigError("Pairs of held-out items choose the clusters, so these items cannot train; leave refit out.")
    source = with_clusters(config, source, protocol, feature_cache, quiet)
    unlabelled = len(protocol.unlabelled) if method_class(config.method.name).learns_from_unlabelled else 0
    learned = learned_source(source, protocol)
    sets = count_label_sets(learned.labels[protocol.train])
    made = suited_choices(config, learned, len(protocol.train), given, unlabelled, protocol.searched_counts, sets)
    config = config.with_values({choice.setting: choice.value for choice in made})
    to_try, why_not = settings_to_try(config, source, protocol, given)
    if not trials:
        to_try, why_not = [], "none were asked for"
    if to_try and process_count() > 1:
        to_try, why_not = [], f"trials run in one process, and there are {process_count()}"
    choices = Choices(config, to_try, made, refit=refit, protocol=protocol.fingerprint)
    return Plan(config, source, protocol, choices, is_settled=False, why_not_tried=why_not)


def settled_plan(config: RunConfig, source: Source | None = None, protocol: Protocol | None = None) -> Plan:
    """The plan of a run with exactly these settings, whatever the data."""
    source = source_of(config) if source is None else source
    protocol = protocol_of(config, source) if protocol is None else protocol
    return Plan(config, source if source.pairs is None else with_clusters(config, source, protocol), protocol)


def _resumed_plan(folder: Path, given: Mapping[str, Any], refit: bool, source: Source | None) -> Plan:
    """The plan of a run that was started before, even if it was stopped during its trials."""
    run = RunFolder(folder)
    choices = Choices.load(run.choices_file)
    if run.is_in_trials and choices is not None:
        return _resumed_trials(folder, choices, given, refit, source)
    if not run.config_file.exists():
        raise ConfigError(f"There is no run in {str(folder)!r} to resume: it holds no {run.config_file.name}.")
    saved = flat_settings(run.saved_settings())
    if refit and not saved.get("data.train_on_validation"):
        raise ConfigError(
            f"--refit makes a run of its own, and {str(folder)!r} holds one without it; give another --out."
        )
    plan = settled_plan(load_config(overrides={**saved, **given}), source)
    plan.choices = choices
    return plan


def _resumed_trials(
    folder: Path, choices: Choices, given: Mapping[str, Any], refit: bool, source: Source | None
) -> Plan:
    if not choices.are_for(choices.config.with_values(given), choices.protocol):
        raise ConfigError(f"The run in {str(folder)!r} was stopped while it tried settings; resume it without others.")
    if choices.to_try and process_count() > 1:
        raise ConfigError(
            f"The run in {str(folder)!r} was stopped while it tried settings, which one process does; resume it "
            "without torchrun until training begins."
        )
    choices.refit |= refit
    source = source_of(choices.config) if source is None else source
    protocol = protocol_of(choices.config, source)
    if not choices.are_for(choices.config, protocol.fingerprint):
        raise TrainingError(
            f"The data have changed since the run in {str(folder)!r} tried settings on them (its split was "
            f"{choices.protocol}, now it would be {protocol.fingerprint}); start a new run."
        )
    clustered = with_clusters(choices.config, source, protocol)
    return Plan(choices.resolved(), clustered, protocol, choices, is_settled=False)

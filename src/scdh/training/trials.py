"""Short runs that find settings for the data at hand: they train on the training rows and are scored on the validation
rows. Queries are never looked at.
"""

import copy
import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from scdh.config import RunConfig
from scdh.data.batches.batch import BadImages
from scdh.data.protocol import Protocol, learned_source
from scdh.data.source import Source
from scdh.errors import TrainingError
from scdh.methods.base import Method
from scdh.methods.registry import make_method, method_class
from scdh.model.hasher import Hasher
from scdh.nets.network import Network
from scdh.progress import count_progress
from scdh.runs.choices import Choice, Choices, Trial
from scdh.training.collapse import CollapseWarning
from scdh.training.data import TrainingData
from scdh.training.fitting import train_network
from scdh.training.processes import make_accelerator
from scdh.training.search import ALPHA, EPOCHS, RATE, Search, Start

TRUNK_RATE = "train.lr_trunk"
FIRST_STEPS, FIRST_EPOCHS = 300, 4  # at least, in a trial of the rate
# With 57 validation photos (groceries) trials chose by chance: MAP of queries 0.900, with the usual values 0.926.
LEAST_VALIDATION_ROWS = 80
EPOCH_STEPS = 200  # at most, in an epoch of a trial: a part of many rows is enough to choose by


def settings_to_try(
    config: RunConfig, source: Source, protocol: Protocol, given: Mapping[str, Any]
) -> tuple[list[str], str]:
    """The settings that trials decide, or the reason why there are none."""
    method = method_class(config.method.name)
    if not method.learns_by_gradient:
        return [], ""
    if source.kind == "images" and config.net.freeze is not True:
        return [], "trials of a whole network would take too long"
    if source.pairs is not None:
        return [], "trials need labels"
    count = len(protocol.validation)
    if count < LEAST_VALIDATION_ROWS:
        found = f"{count} validation rows are too few" if count else "there are no validation rows"
        return [], f"{found} to choose by ({LEAST_VALIDATION_ROWS} are needed)"
    keys = [RATE, EPOCHS, *([ALPHA] if "alpha" in method.Settings.model_fields else [])]
    keys += [TRUNK_RATE] if RATE not in given and source.kind == "features" else []
    return [key for key in keys if key not in given], ""


def choose_by_trials(
    choices: Choices,
    source: Source,
    protocol: Protocol,
    *,
    file: Path | None = None,
    feature_cache: Path | None = None,
    quiet: bool = False,
    rates: tuple[float, ...] | None = None,
) -> None:
    """Make the choices that are left; ``file`` is written after every trial.

    Args:
        choices: ``to_try`` says what is left to choose; it is empty afterwards.
        source: the data.
        protocol: which rows train and validate.
        file: where the choices are kept; None: nowhere.
        feature_cache: folder that keeps a frozen trunk's features; None: they are computed for the trials alone.
        quiet: no progress bars.
        rates: the learning rates to try first, with as many trials after them whatever comes out; None: the usual ones,
            and further ones if the lowest or highest of them is best.
    """
    if not choices.to_try:
        return
    runner = TrialRunner(choices, source, protocol, feature_cache, quiet)
    with count_progress(0, "trying settings", "epochs", visible=not quiet, is_bound=True) as advance:
        done = 0

        def run_trial(values: dict[str, Any], least_halfway: float | None) -> Trial:
            trial = choices.find_trial(values)
            if trial is None:

                def each_epoch(left: int) -> None:
                    nonlocal done
                    done += 1
                    advance(1, total=done + left + search.most_epochs)

                trial = runner.run(values, least_halfway, each_epoch)
                choices.trials.append(trial)
                if file is not None:
                    choices.save(file)
            return trial

        search = Search(choices.to_try, runner.start, run_trial, rates)
        made = search.run()
    choices.made = [choice for choice in choices.made if choice.setting not in choices.to_try]
    for choice in map(runner.for_whole_epochs, made):
        settings = runner.rates(choice.value) if choice.setting == RATE else {choice.setting: choice.value}
        choices.made += [Choice(key, value, choice.reason) for key, value in settings.items()]
    choices.to_try = []
    if file is not None:
        choices.save(file)


class _ClearlyWorse(Exception):
    """Ends a trial; ``net`` is the network so far."""

    def __init__(self, net: Network) -> None:
        super().__init__()
        self.net = net


class TrialRunner:
    """Trains copies of one network on rows that were read once."""

    def __init__(
        self, choices: Choices, source: Source, protocol: Protocol, feature_cache: Path | None, quiet: bool
    ) -> None:
        config, source = choices.config, learned_source(source, protocol)
        self.config = config
        self.source = source
        self.to_try = list(choices.to_try)
        self.accelerator = make_accelerator(config.train.precision)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            width = source.features.shape[1] if source.kind == "features" else None
            hasher = Hasher.build(config, source.label_names, source.multi_label, width)
            self.data = TrainingData(
                config, hasher, source, protocol, self.accelerator, BadImages(), feature_cache, quiet
            )
        self.first_network = self.data.network()
        self.epoch_steps = min(self.data.steps_per_epoch, EPOCH_STEPS)

    @property
    def start(self) -> Start:
        settings, own = self.config.train, self.config.method.own
        warm_up = own.get("warm_up_epochs", 0)  # a trial must be longer than the warm-up at its beginning
        first_epochs = max(FIRST_EPOCHS, 2 * warm_up, math.ceil(FIRST_STEPS / self.epoch_steps))
        epochs = round(settings.epochs * self.data.steps_per_epoch / self.epoch_steps)
        has_alpha = "alpha" in method_class(self.config.method.name).Settings.model_fields
        alpha = self.data.hasher.method.settings.alpha if has_alpha else None
        return Start(settings.lr_head, epochs, first_epochs, alpha)

    def run(
        self,
        values: dict[str, Any],
        least_halfway: float | None = None,
        each_epoch: Callable[[int], None] = lambda _: None,
    ) -> Trial:
        """Train with these values, then score the validation rows.

        Args:
            values: the settings that are tried.
            least_halfway: if validation MAP is lower after half of the epochs, the trial ends there; None: it is not
                looked at.
            each_epoch: called after every epoch with the number of epochs left.
        """
        epochs = values[EPOCHS]
        half = max(1, epochs // 2)
        settings = {"train.epoch_steps": self.epoch_steps, "train.validate_every": half}
        config = self.config.with_values({**values, **self.rates(values[RATE]), **settings})
        data = self.data.with_config(config)
        halfway: list[float] = []

        def validate(net: Network) -> float:
            """Called by the loop after half of the epochs, and at the end, where the score is not needed."""
            if halfway:
                return math.nan
            halfway.append(data.validate(net))
            if least_halfway is not None and halfway[0] < least_halfway:
                raise _ClearlyWorse(net)
            return halfway[0]

        started = time.perf_counter()
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            # Not the run's codes: values with which they collapse score low, and are not taken.
            warnings.simplefilter("ignore", CollapseWarning)
            torch.manual_seed(config.seed)
            net, method = copy.deepcopy(self.first_network), self._method(config)
            trained = None
            try:
                trained = train_network(
                    data,
                    net,
                    method,
                    validate=None if least_halfway is None or epochs == 1 else validate,
                    each_epoch=lambda figures: each_epoch(epochs - int(figures["epoch"])),
                    quiet=True,
                )
                scored = trained.net
            except _ClearlyWorse as stop:
                scored = stop.net
            except TrainingError:  # a non-finite loss
                return Trial(values, None, None, round(time.perf_counter() - started, 2))
        scores, l_q = data.validation_scores(scored)
        ap = scores.per_query["ap"]
        error = float(np.nanstd(ap) / math.sqrt(max(1, len(ap))))
        seconds = round(time.perf_counter() - started, 2)
        is_stopped = trained is None
        return Trial(values, scores.map, l_q, seconds, error, halfway[0] if halfway else None, is_stopped)

    def _method(self, config: RunConfig) -> Method:
        """The method that the first network was built by, with its buffers, and the settings of ``config``."""
        chosen, method = config.method, copy.deepcopy(self.data.hasher.method)
        settings = chosen.own, chosen.bits, self.source.num_classes, self.source.multi_label
        method.settings = make_method(chosen.name, *settings).settings
        return method

    def rates(self, rate: float) -> dict[str, float]:
        """The settings of a learning rate: for embeddings the hidden layers are the trunk, and learn at the head's
        rate.
        """
        return dict.fromkeys((RATE, TRUNK_RATE) if TRUNK_RATE in self.to_try else (RATE,), rate)

    def for_whole_epochs(self, choice: Choice) -> Choice:
        """The number of whole epochs with as many steps, if a trial's epoch covers only a part of the rows."""
        if choice.setting != EPOCHS or self.epoch_steps == self.data.steps_per_epoch:
            return choice
        steps = choice.value * self.epoch_steps
        epochs = max(1, round(steps / self.data.steps_per_epoch))
        return Choice(EPOCHS, epochs, f"{choice.reason}; {steps:,} steps")

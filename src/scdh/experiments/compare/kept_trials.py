"""Trials of learning rates that an earlier call kept: which of them, and which choice, would be made today as well."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from scdh.runs.choices import Choices, Trial
from scdh.training.search import ALPHA, EPOCHS, RATE, Search, Start


def as_searched_today(choices: Choices, to_try: list[str], rates: Sequence[float]) -> Choices:
    """The choices as they are, if today's search makes the same trials and takes the same rate; else what is left of
    them: an earlier version may have tried other rates, more or fewer, or have chosen by another rule.

    Args:
        choices: of trials with the same settings and split, all of them or the first.
        to_try: settings that trials decide.
        rates: that every method tries first.
    """
    asked: list[Trial] = []

    def look_up(values: dict[str, Any]) -> Trial:
        trial = choices.find_trial(values)
        if trial is None:
            raise LookupError
        if trial not in asked:
            asked.append(trial)
        return trial

    rate = None
    try:
        first, epochs = choices.trials[0].values, max(trial.values[EPOCHS] for trial in choices.trials)
        start = Start(choices.config.train.lr_head, epochs, first[EPOCHS], first.get(ALPHA))
        rate = Search([RATE], start, look_up, tuple(rates)).run()[0].value
    except LookupError:
        pass  # trials are left to make
    made = next((choice.value for choice in choices.made if choice.setting == RATE), None)
    if len(asked) == len(choices.trials) and rate == made:
        return choices
    return replace(choices, to_try=to_try, made=[], trials=asked)

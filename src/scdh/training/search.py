"""Search for the learning rate, the number of epochs and α, by the scores of trials alone.

Rates are tried at a short length first. Then the length is doubled, with the best rate and with a third of it (longer
training needs smaller steps), until validation MAP stops rising. The result must beat the usual values by more than the
standard error of its validation MAP, otherwise the usual values are taken, because few validation rows prove little.
(This does not apply to a comparison, which gives the rates: it would favour methods that the usual rate suits.) Finally
α is moved until l_q of the validation rows is in the paper's band, unless that costs validation MAP.

A trial ends after half of its epochs if its validation MAP is then clearly below that of another trial of the same
length at the same moment. (Not in a comparison: there every trial has its full length.)
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from scdh.runs.choices import Choice, Trial

RATE = "train.lr_head"
EPOCHS = "train.epochs"
ALPHA = "method.alpha"
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03)
FIRST_RATE = 0.003  # a trial that ends early needs a good one before it
RATE_STEP = 3.0  # about the ratio of neighbouring rates
FURTHER_RATES = 2  # tried below or above the others, if the lowest or the highest is best
FULL_LENGTH_TRIALS = 3  # of given rates: after the first, short ones
LONGEST = 16  # times the first length
LEAST_GAIN = 0.002  # in validation MAP, which a doubled length must bring
L_Q_BAND = (0.1, 0.2)  # paper, "Optimization": a good α lets l_q end there
ALPHA_TRIALS = 3
CLEARLY = 2.0  # standard errors by which a trial may be below another one at half its length
ALPHA_LOSS = 0.005  # in validation MAP, which an α with l_q inside the band may cost: the noise of a trial


@dataclass(frozen=True)
class Start:
    """Where a search begins."""

    rate: float
    epochs: int
    first_epochs: int
    alpha: float | None


class Search:
    """Finds values for ``to_try`` (of RATE, EPOCHS, ALPHA).

    Args:
        to_try: the settings to find.
        start: where the search begins.
        run_trial: trains with the given values and scores validation; ends halfway if validation MAP is then below the
            second argument (None: it is not looked at).
        rates: these are tried first, and then ``FULL_LENGTH_TRIALS`` more, so that every search has as many trials, and
            the best of these is taken; None: ``RATES``, and further ones if the first or last of them is best.
    """

    def __init__(
        self,
        to_try: list[str],
        start: Start,
        run_trial: Callable[[dict[str, Any], float | None], Trial],
        rates: tuple[float, ...] | None = None,
    ) -> None:
        self.to_try = to_try
        self.start = start
        self._run_trial = run_trial
        self.rates = rates if RATE in to_try else None
        self.made: list[Choice] = []
        self._done: list[Trial] = []
        self.most_epochs = 0  # at most, in the trials that may still come after the current one

    def run(self) -> list[Choice]:
        """The choices, with reasons."""
        self.most_epochs = self._most_of_rates() + self._most_of_lengths(self.start.first_epochs) + self._most_at_end()
        best = self._choose_length(self._choose_rate()) if self.rates is None else self._choose_of(self.rates)
        self.most_epochs = self._most_at_end(best.values[EPOCHS])
        if RATE in self.to_try or EPOCHS in self.to_try:
            best = self._compare_with_usual(best, has_margin=self.rates is None)
        if ALPHA in self.to_try:
            self._choose_alpha(best)
        return self.made

    def _trial(self, rate: float, epochs: int, alpha: float | None = None) -> Trial:
        values: dict[str, Any] = {RATE: rate, EPOCHS: epochs}
        alpha = self.start.alpha if alpha is None else alpha
        self.most_epochs = max(0, self.most_epochs - epochs)
        trial = self._run_trial(values if alpha is None else {**values, ALPHA: alpha}, self._least_halfway(epochs))
        self._done.append(trial)
        return trial

    def _least_halfway(self, epochs: int) -> float | None:
        """The validation MAP that a trial of this length needs after half of it, to be trained to the end."""
        if self.rates is not None:
            return None
        like = [trial for trial in self._done if trial.values[EPOCHS] == epochs and trial.halfway is not None]
        return max(((trial.halfway or 0.0) - CLEARLY * trial.error for trial in like), default=-math.inf)

    def _most_of_rates(self) -> int:
        first, full = self.start.first_epochs, self.start.epochs
        if RATE not in self.to_try:
            return first
        if self.rates is not None:
            return len(self.rates) * first + FULL_LENGTH_TRIALS * full
        return (len(RATES) + FURTHER_RATES) * first

    def _most_of_lengths(self, length: int) -> int:
        each = 2 if RATE in self.to_try else 1
        if self.rates is not None:
            return 0
        if EPOCHS not in self.to_try:
            return 0 if length >= self.start.epochs else each * self.start.epochs
        longest, total = LONGEST * self.start.first_epochs, 0
        while length < longest:
            length *= 2
            total += each * length
        return total

    def _most_at_end(self, length: int | None = None) -> int:
        """Epochs of the trial of the usual values, and of those of α at ``length`` (None: not known yet)."""
        if length is None:
            length = LONGEST * self.start.first_epochs if EPOCHS in self.to_try else self.start.epochs
        usual = self.start.epochs if RATE in self.to_try or EPOCHS in self.to_try else 0
        return usual + (ALPHA_TRIALS * max(length, self.start.epochs) if ALPHA in self.to_try else 0)

    def _choose_of(self, rates: tuple[float, ...]) -> Trial:
        """The best at the full length. The number of trials does not depend on their results, so that all methods get
        the same.
        """
        first = [self._trial(rate, min(self.start.first_epochs, self.start.epochs)) for rate in rates]
        full = [trial for trial in first if trial.values[EPOCHS] == self.start.epochs]
        most = len(full) + FULL_LENGTH_TRIALS
        for rate in self._candidates(max(first, key=_score).values[RATE]):
            if rate not in (trial.values[RATE] for trial in full):
                full.append(self._trial(rate, self.start.epochs))
            if len(full) == most:
                break
        return max(full, key=_score)

    def _candidates(self, best: float) -> Iterator[float]:
        """The best rate of the short trials, a third of it and the usual one; if some of these are equal, others around
        them.
        """
        yield from (best, _rounded(best / RATE_STEP), self.start.rate)
        for n in count(1):
            yield _rounded(best * RATE_STEP**n)
            yield _rounded(best / RATE_STEP ** (n + 1))

    def _choose_rate(self) -> Trial:
        epochs = self.start.first_epochs if EPOCHS in self.to_try else min(self.start.first_epochs, self.start.epochs)
        if RATE not in self.to_try:
            return self._trial(self.start.rate, epochs)
        by_rate = {rate: self._trial(rate, epochs) for rate in sorted(RATES, key=lambda rate: rate != FIRST_RATE)}
        trials = [by_rate[rate] for rate in RATES]
        for _ in range(FURTHER_RATES):
            best = max(trials, key=_score)
            if best is trials[0]:
                trials.insert(0, self._trial(_rounded(best.values[RATE] / RATE_STEP), epochs))
            elif best is trials[-1]:
                trials.append(self._trial(_rounded(best.values[RATE] * RATE_STEP), epochs))
            else:
                break
        return max(trials, key=_score)

    def _choose_length(self, best: Trial) -> Trial:
        """Lengthen the run while validation MAP rises."""
        if EPOCHS not in self.to_try:
            if best.values[EPOCHS] == self.start.epochs:
                return best
            return max(self._at_length(best, self.start.epochs), key=_score)
        while best.values[EPOCHS] < LONGEST * self.start.first_epochs:
            self.most_epochs = self._most_of_lengths(best.values[EPOCHS]) + self._most_at_end()
            longer = max(self._at_length(best, 2 * best.values[EPOCHS]), key=_score)
            if _score(longer) < _score(best) + LEAST_GAIN:
                return max(best, longer, key=_score)
            best = longer
        return best

    def _at_length(self, best: Trial, epochs: int) -> list[Trial]:
        rate = best.values[RATE]
        rates = [rate, _rounded(rate / RATE_STEP)] if RATE in self.to_try else [rate]
        return [self._trial(rate, epochs) for rate in rates]

    def _compare_with_usual(self, best: Trial, has_margin: bool) -> Trial:
        """The best of the trials, or the usual values if they are as good; records the choice."""
        usual = self._trial(self.start.rate, self.start.epochs)
        reason = f"validation MAP {_score(best):.3f}, the best of the rates and lengths tried"
        if best.validation_map is None:
            reason = "every trial diverged, so this is only a guess"
        elif _score(usual) >= _score(best) - (best.error if has_margin else 0.0):
            reason = f"the usual value: validation MAP {_score(usual):.3f}"
            if usual.values != best.values:
                reason += f", and the best one tried has {_score(best):.3f} ± {best.error:.3f}"
            best = usual
        self.made += [Choice(key, best.values[key], reason) for key in (RATE, EPOCHS) if key in self.to_try]
        return best

    def _choose_alpha(self, best: Trial) -> None:
        """Move α towards the band; the size of each step follows from how earlier steps changed l_q."""
        trials = [best]
        self.most_epochs = ALPHA_TRIALS * best.values[EPOCHS]
        while len(trials) <= ALPHA_TRIALS and not _in_band(trials[-1]):
            last = trials[-1]
            if last.l_q is None:
                break
            factor = 3.0 if last.l_q > L_Q_BAND[1] else 1 / 3.0
            alpha = _rounded(last.values[ALPHA] * factor)
            if any(trial.values[ALPHA] == alpha for trial in trials):  # the band lies between two steps
                alpha = _rounded((alpha * last.values[ALPHA]) ** 0.5)
            trials.append(self._trial(best.values[RATE], best.values[EPOCHS], alpha))
        top = max(map(_score, trials))
        inside = [trial for trial in trials if _in_band(trial) and _score(trial) >= top - ALPHA_LOSS]
        chosen = max(inside or trials, key=_score)
        l_q = "unknown" if chosen.l_q is None else f"{chosen.l_q:.2f}"
        reason = f"l_q of validation rows ends at {l_q}, in the paper's band"
        if not inside:
            found = ", ".join(f"α {t.values[ALPHA]:g}: l_q {t.l_q or 0:.2f}, MAP {_score(t):.3f}" for t in trials)
            reason = f"best validation MAP; no value tried ends in the paper's band without a loss ({found})"
        self.made.append(Choice(ALPHA, chosen.values[ALPHA], reason))


def _score(trial: Trial) -> float:
    return -1.0 if trial.validation_map is None else trial.validation_map


def _in_band(trial: Trial) -> bool:
    return trial.l_q is not None and L_Q_BAND[0] <= trial.l_q <= L_Q_BAND[1]


def _rounded(value: float) -> float:
    """Two digits: a rate of 0.00333333 says more than is known."""
    return float(f"{value:.2g}")

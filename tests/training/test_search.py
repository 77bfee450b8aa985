"""The search for rate, epochs and α, on made-up scores of trials."""

import math

import pytest

from scdh.runs.choices import Trial
from scdh.training.search import ALPHA, EPOCHS, FULL_LENGTH_TRIALS, L_Q_BAND, RATE, Search, Start

START = Start(rate=0.005, epochs=20, first_epochs=4, alpha=1.0)


class Trials:
    """Runs no training: the validation MAP is a function of the values."""

    def __init__(self, score, l_q=lambda values: 0.15, error=0.0):
        self.score, self.l_q, self.error, self.tried, self.least = score, l_q, error, [], []

    def __call__(self, values, least_halfway):
        self.tried.append(values)
        self.least.append(least_halfway)
        score = self.score(values)
        halfway = None if score is None or least_halfway is None else score - 0.1
        is_stopped = halfway is not None and halfway < least_halfway
        return Trial(values, score, None if score is None else self.l_q(values), 0.0, self.error, halfway, is_stopped)


def found(to_try, trials, start=START, rates=None):
    made = Search(to_try, start, trials, rates).run()
    return {choice.setting: choice.value for choice in made}


def peak(best, width=1.0):
    """A MAP that falls with the distance of the rate from ``best``, in factors of ten."""
    return lambda values: 0.9 - 0.1 / width * abs(math.log10(values[RATE] / best))


@pytest.mark.parametrize("best", [0.0001, 0.001, 0.005, 0.03, 0.2])
def test_the_rate_found_is_near_the_best_also_outside_the_first_ones(best):
    rate = found([RATE], Trials(peak(best)))[RATE]
    assert rate == pytest.approx(best, rel=0.75) or best / 3.1 <= rate <= best * 3.1


@pytest.mark.parametrize("best", [1e-6, 0.01, 0.015, 0.033, 0.1, 5.0])
@pytest.mark.parametrize("usual", [0.003, 0.0033, 0.01, 0.1, 0.3])
@pytest.mark.parametrize("epochs", [2, 4, 20])
def test_given_rates_are_as_many_trials_whatever_is_best(best, usual, epochs):
    """Also if the best rate is the usual one or a third of it, or if the full length is that of the first trials."""
    trials, rates = Trials(peak(best)), (0.001, 0.003, 0.01, 0.1)
    start = Start(rate=usual, epochs=epochs, first_epochs=4, alpha=None)
    rate = found([RATE], trials, start, rates)[RATE]
    different = {(values[RATE], values[EPOCHS]) for values in trials.tried}
    assert len(different) == len(rates) + FULL_LENGTH_TRIALS
    assert {values[RATE] for values in trials.tried} >= {*rates, usual}
    at_full_length = {rate for rate, length in different if length == epochs}
    assert usual in at_full_length
    assert rate == max(at_full_length, key=lambda rate: peak(best)({RATE: rate}))


def test_the_length_is_doubled_while_that_gains_and_no_further():
    trials = Trials(lambda values: 1 - 1 / min(values[EPOCHS], 16) - values[EPOCHS] / 1e6)
    assert found([EPOCHS], trials)[EPOCHS] == 16
    assert max(values[EPOCHS] for values in trials.tried) == 32
    assert {values[RATE] for values in trials.tried} == {START.rate}


def test_longer_training_may_have_a_smaller_rate():
    trials = Trials(
        lambda values: 0.9 - 0.2 * abs(math.log10(values[RATE] * values[EPOCHS] / 0.04)) - 1 / values[EPOCHS]
    )
    values = found([RATE, EPOCHS], trials)
    assert values[RATE] * values[EPOCHS] == pytest.approx(0.04, rel=1)
    assert values[EPOCHS] > START.first_epochs


def test_with_given_epochs_the_rate_is_judged_at_their_number():
    trials = Trials(peak(0.01))
    assert found([RATE], trials)[RATE] in (0.01, 0.0033)
    assert [values[EPOCHS] for values in trials.tried[-2:]] == [START.epochs] * 2


@pytest.mark.parametrize("first_alpha", [0.001, 0.1, 1.0, 20.0])
def test_alpha_ends_where_l_q_is_in_the_papers_band(first_alpha):
    def l_q(values):
        return 0.15 * values[ALPHA] ** -0.4

    start = Start(0.005, 20, 4, first_alpha)
    alpha = found([ALPHA], Trials(lambda values: 0.8, l_q), start)[ALPHA]
    within_reach = [first_alpha * 3.0**power for power in range(-3, 4)]
    if any(L_Q_BAND[0] <= l_q({ALPHA: a}) <= L_Q_BAND[1] for a in within_reach):
        assert L_Q_BAND[0] <= l_q({ALPHA: alpha}) <= L_Q_BAND[1]


def test_alpha_stays_where_the_band_costs_validation_map():
    trials = Trials(lambda values: 0.9 if values[ALPHA] == 1 else 0.7, lambda values: 0.05 / values[ALPHA])
    search = Search([ALPHA], START, trials)
    (choice,) = search.run()
    assert choice.value == 1
    assert "paper's band" in choice.reason
    assert "0.05" in choice.reason


def test_the_usual_values_are_kept_unless_others_are_better_by_more_than_the_error():
    def search(error, usual):
        def run_trial(values, least_halfway):
            is_usual = (values[RATE], values[EPOCHS]) == (START.rate, START.epochs)
            return Trial(values, usual if is_usual else 0.8, 0.15, 0.0, error)

        made = Search([RATE, EPOCHS], START, run_trial).run()
        return {choice.setting: choice.value for choice in made}, made[0].reason

    usual = {RATE: START.rate, EPOCHS: START.epochs}
    values, reason = search(0.03, 0.78)
    assert values == usual
    assert "usual" in reason
    assert "0.800 ± 0.030" in reason
    assert search(0.01, 0.78)[0] != usual
    assert search(0.0, 0.9)[0] == usual


def test_given_rates_have_no_margin_for_the_usual_one():
    """It would favour methods that the usual rate suits; only of equal ones it is taken."""

    def chosen(usual):
        def run_trial(values, least_halfway):
            return Trial(values, usual if values[RATE] == START.rate else 0.8, 0.15, 0.0, error=0.1)

        return Search([RATE], START, run_trial, (0.001, 0.01)).run()[0].value

    assert chosen(0.79) != START.rate
    assert chosen(0.8) == START.rate


def test_trials_that_diverge_lose_and_if_all_do_that_is_said():
    trials = Trials(lambda values: None if values[RATE] > 0.001 else 0.5)
    assert found([RATE], trials)[RATE] <= 0.001
    made = Search([RATE, EPOCHS, ALPHA], START, Trials(lambda values: None)).run()
    assert "diverged" in made[0].reason
    assert {choice.setting for choice in made} == {RATE, EPOCHS, ALPHA}


def test_a_trial_needs_what_the_best_of_its_length_had_halfway_less_two_errors():
    trials = Trials(peak(0.003), error=0.01)
    found([RATE, EPOCHS], trials)
    lengths = [values[EPOCHS] for values in trials.tried]
    for place, (values, least) in enumerate(zip(trials.tried, trials.least, strict=True)):
        before = [peak(0.003)(other) for other in trials.tried[:place] if other[EPOCHS] == values[EPOCHS]]
        assert least == pytest.approx(max(before) - 0.1 - 0.02 if before else -math.inf)
    assert trials.tried[0][RATE] == 0.003
    assert len(set(lengths)) > 1

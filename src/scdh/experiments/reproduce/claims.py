"""The claims of the paper and whether they hold, by rules that are data (``claims.toml``)."""

import math
import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Literal

from scdh.experiments.compare.results import CellResult, ComparisonResults
from scdh.experiments.reproduce.run import Reproduced, cells_of, run_folder, usual_seconds
from scdh.experiments.reproduce.toy import toy_example
from scdh.methods.registry import method_class

Outcome = Literal["holds", "does not hold", "not tested at this scale"]
BySeed = dict[int, float]  # seed → score
NOT_TESTED: Outcome = "not tested at this scale"


@dataclass(frozen=True)
class Verdict:
    """A claim with its rule, the outcome, and the numbers that decided."""

    id: str
    claim: str
    place: str
    rule: str
    outcome: Outcome
    evidence: str


def read_claims() -> tuple[str, list[dict[str, Any]]]:
    """The general rule, and the claims as they are written in ``claims.toml``."""
    text = (resources.files("scdh.experiments.reproduce") / "claims.toml").read_text("utf-8")
    content = tomllib.loads(text)
    return content["general"]["rule"], content["claims"]


def decide_all(reproduced: Reproduced) -> list[Verdict]:
    """Decide every claim."""
    verdicts = []
    for entry in read_claims()[1]:
        outcome, evidence = _KINDS[entry["kind"]](reproduced, entry)
        verdicts.append(Verdict(entry["id"], entry["claim"], entry["place"], entry["rule"], outcome, evidence))
    return verdicts


def decide(differences: Mapping[int, float]) -> tuple[Outcome, str]:
    """The rule for paired differences, by seed.

    >>> decide({0: 0.02, 1: 0.03, 2: 0.025})
    ('holds', '+0.025 ± 0.005, 3 paired seeds')
    >>> decide({0: 0.02, 1: -0.03})[0], decide({0: 0.02})[0]
    ('does not hold', 'not tested at this scale')
    """
    values = list(differences.values())
    if len(values) < 2:
        return NOT_TESTED, "fewer than two paired seeds"
    mean, deviation = statistics.fmean(values), statistics.stdev(values)
    holds = mean > 0 and mean >= 2 * deviation / math.sqrt(len(values))
    text = f"{mean:+.3f} ± {deviation:.3f}, {len(values)} paired seeds".replace("-", "−")
    return "holds" if holds else "does not hold", text


def _beats(reproduced: Reproduced, entry: Mapping[str, Any]) -> tuple[Outcome, str]:
    found = _best_rival(reproduced, entry, entry["study"])
    if found is None:
        return NOT_TESTED, "no runs"
    rival, differences = found
    outcome, text = decide(differences)
    method = method_class(entry.get("method", "scdh")).about.title
    return outcome, f"{method} minus {method_class(rival).about.title}: {text}"


def _more(reproduced: Reproduced, entry: Mapping[str, Any]) -> tuple[Outcome, str]:
    found, other = (_best_rival(reproduced, entry, entry[key]) for key in ("study", "other"))
    if found is None or other is None:
        return NOT_TESTED, "no runs"
    outcome, text = decide(_minus(found[1], other[1]))
    gains = [statistics.fmean(gain.values()) for _, gain in (found, other)]
    return outcome, f"gain {gains[0]:+.3f} with several labels, {gains[1]:+.3f} with one; difference {text}"


def _best_rival(reproduced: Reproduced, entry: Mapping[str, Any], study: str) -> tuple[str, BySeed] | None:
    """The rival with the highest mean score, and the differences to it by seed."""
    results = reproduced.results.get(study)
    if results is None:
        return None
    method, score = entry.get("method", "scdh"), entry["score"]
    bits = [max(results.bits)] if entry.get("longest") else results.bits
    own = _by_seed(results, method, score, bits)
    rivals = {name: _by_seed(results, name, score, bits) for name in entry["rivals"] if name in results.methods}
    rivals = {name: scores for name, scores in rivals.items() if scores}
    if not own or not rivals:
        return None
    best = max(rivals, key=lambda name: statistics.fmean(rivals[name].values()))
    return best, _minus(own, rivals[best])


def _by_seed(results: ComparisonResults, method: str, score: str, bits: Sequence[int] | None = None) -> BySeed:
    """Mean over the lengths of codes; a seed of which a length is missing is left out."""
    lengths = [b for b in bits or results.bits if cells_of(results, method, b)]
    by_seed: dict[int, list[float]] = {}
    for cell in (cell for length in lengths for cell in cells_of(results, method, length)):
        if (value := getattr(cell, score)) is not None:
            by_seed.setdefault(cell.seed, []).append(value)
    return {seed: statistics.fmean(values) for seed, values in by_seed.items() if len(values) == len(lengths)}


def _minus(one: BySeed, other: BySeed) -> BySeed:
    return {seed: one[seed] - other[seed] for seed in one if seed in other}


def _validation(results: ComparisonResults) -> float:
    """Highest validation MAP of SCDH's runs, mean over seeds; −1 without validation."""
    best = [max((score for _, score in cell.validation), default=-1.0) for cell in cells_of(results, "scdh")]
    return statistics.fmean(best) if best else -1.0


def _tried(reproduced: Reproduced, group: str) -> dict[float, ComparisonResults]:
    found = reproduced.values(group)
    return found if len(found) > 1 else {}


def _alpha_helps(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    return _best_minus_zero(_tried(reproduced, "alpha"), "α", "α = 0")


def _best_minus_zero(tried: Mapping[float, ComparisonResults], name: str, zero: str) -> tuple[Outcome, str]:
    if 0.0 not in tried:
        return NOT_TESTED, "no runs"
    best = max((value for value in tried if value), key=lambda value: _validation(tried[value]))
    outcome, text = decide(_map_difference(tried[best], tried[0.0]))
    return outcome, f"{name} = {best:g} minus {zero}: {text}"


def _map_difference(one: ComparisonResults, other: ComparisonResults, score: str = "map") -> BySeed:
    return _minus(_by_seed(one, "scdh", score), _by_seed(other, "scdh", score))


def _l_q_band(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    tried = _tried(reproduced, "alpha")
    if not tried:
        return NOT_TESTED, "no runs"
    best = max(tried, key=lambda value: _validation(tried[value]))
    cells = cells_of(tried[best], "scdh")
    values = [value for cell in cells if (value := final_l_q(reproduced, f"alpha={best:g}", cell)) is not None]
    if not values:
        return NOT_TESTED, "no l_q in the logs"
    mean = statistics.fmean(values)
    return "holds" if 0.1 <= mean <= 0.2 else "does not hold", f"α = {best:g} ends at l_q = {mean:.3f}"


def final_l_q(reproduced: Reproduced, study: str, cell: CellResult) -> float | None:
    """l_q of the training rows in the last epoch of a run."""
    value = run_folder(reproduced, study, cell).model_info().get("history", {}).get("l_q")
    return None if value is None else float(value)


def _small_lambda(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    tried = _tried(reproduced, "lam")
    small = [value for value in tried if value <= 0.005]
    if not small or max(tried, default=0) in small:
        return NOT_TESTED, "no runs"
    best, largest = max(small, key=lambda value: _validation(tried[value])), max(tried)
    outcome, text = decide(_map_difference(tried[best], tried[largest]))
    return outcome, f"λ = {best:g} minus λ = {largest:g}: {text}"


def _lambda_precision(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    tried = _tried(reproduced, "lam")
    if 0.0 not in tried:
        return NOT_TESTED, "no runs"
    outcome, text = decide(_map_difference(tried[max(tried)], tried[0.0], "precision_at_radius"))
    return outcome, f"λ = {max(tried):g} minus λ = 0: {text}"


def _mu_good(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    tried = _tried(reproduced, "mu")
    scores = {value: list(_by_seed(results, "scdh", "map").values()) for value, results in tried.items()}
    if len(scores.get(0.1, [])) < 2:
        return NOT_TESTED, "no runs"
    means = {value: statistics.fmean(each) for value, each in scores.items()}
    best = max(means, key=lambda value: means[value])
    allowed = max(0.005, statistics.stdev(scores[0.1]))
    holds = means[0.1] >= means[best] - allowed
    text = f"μ = 0.1: {means[0.1]:.3f}; highest {means[best]:.3f} with μ = {best:g}; allowed {allowed:.3f}"
    return "holds" if holds else "does not hold", text


def _mu_start(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    tried = _tried(reproduced, "mu")
    if 0.0 not in tried:
        return NOT_TESTED, "no runs"
    first: dict[float, BySeed] = {}
    for value in (max(tried), 0.0):
        first[value] = {cell.seed: cell.validation[0][1] for cell in cells_of(tried[value], "scdh") if cell.validation}
    outcome, text = decide(_minus(first[max(tried)], first[0.0]))
    return outcome, f"μ = {max(tried):g} minus μ = 0: {text}"


def _warm_up(reproduced: Reproduced, entry: Mapping[str, Any]) -> tuple[Outcome, str]:
    return _best_minus_zero(_tried(reproduced, entry["group"]), "s", "a random start")


def _warm_up_norm(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    tried = {norm: results for norm, results in _tried(reproduced, "warm-up").items() if norm}
    if len(tried) < 2:
        return NOT_TESTED, "no runs"
    low, high = min(tried), max(tried)
    differences = list(_map_difference(tried[high], tried[low]).values())
    if len(differences) < 2:
        return NOT_TESTED, "fewer than two paired seeds"
    mean, error = statistics.fmean(differences), statistics.stdev(differences) / math.sqrt(len(differences))
    holds = abs(mean) <= max(0.01, 2 * error)
    return "holds" if holds else "does not hold", f"s = {high:g} minus s = {low:g}: {mean:+.3f}".replace("-", "−")


def _faster(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    results = reproduced.results.get("single")
    if results is None:
        return NOT_TESTED, "no runs"
    seconds = {}
    for name in results.methods:
        kinds = set(method_class(name).about.kind.replace(",", "").split())
        times = [usual_seconds(cell) for cell in cells_of(results, name, max(results.bits))]
        known = [time for time in times if time is not None]
        if known and (name == "scdh" or {"pairwise", "triplet"} & kinds):
            seconds[name] = statistics.fmean(known)
    rivals = {name: value for name, value in seconds.items() if name != "scdh"}
    if "scdh" not in seconds or not rivals:
        return NOT_TESTED, "no runs"
    fastest = min(rivals, key=lambda name: rivals[name])
    text = f"SCDH {seconds['scdh']:.2f} s, {method_class(fastest).about.title} {rivals[fastest]:.2f} s"
    return "holds" if seconds["scdh"] < rivals[fastest] else "does not hold", text


def _toy(reproduced: Reproduced, _: Mapping[str, Any]) -> tuple[Outcome, str]:
    toy = reproduced.kept("toy", [], toy_example)
    path = max(toy["path"]["lambda"])
    cells = [value for row in toy["map"]["lambda"] for value in row]
    share = sum(value <= 0.2 for value in cells) / len(cells)
    holds = path <= 0.2 and share >= 0.9
    return "holds" if holds else "does not hold", f"at most {path:.3f} on the path; {share:.0%} of the map at most 0.2"


_KINDS: dict[str, Callable[[Reproduced, Mapping[str, Any]], tuple[Outcome, str]]] = {
    "beats": _beats,
    "more": _more,
    "alpha_helps": _alpha_helps,
    "l_q_band": _l_q_band,
    "small_lambda": _small_lambda,
    "lambda_precision": _lambda_precision,
    "mu_good": _mu_good,
    "mu_start": _mu_start,
    "warm_up": _warm_up,
    "warm_up_norm": _warm_up_norm,
    "faster": _faster,
    "toy": _toy,
}

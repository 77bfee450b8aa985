"""The same values tried for every method, and the best taken by MAP of validation rows; queries are not looked at."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.experiments.compare.cell import Bench
from scdh.experiments.compare.cell_results import FAILED, training_of
from scdh.experiments.compare.grid import Cell, Grid, check_not_shared
from scdh.methods.registry import method_class
from scdh.progress import track
from scdh.runs.protocol import protocol_of


def tune(
    grid: Grid, source: Source, out: Path, values: Mapping[str, Sequence[Any]], cache: Path, say: Callable[[str], None]
) -> tuple[Grid, dict[str, Any]]:
    """The grid with the best of ``values`` (setting → values to try, all combinations) for each method that is trained,
    and what was tried. One length of codes (the middle one) and one seed (the first) decide for all.
    """
    bits, seed = sorted(grid.bits)[len(grid.bits) // 2], grid.seeds[0]
    bench = Bench(source, out / "tuning", cache=cache, scored=False)
    trained = [name for name in grid.methods if method_class(name).learns_by_gradient]
    _check(values, trained, grid)
    work = []
    for method in trained:
        known = [key for key in values if _has(method, key)]
        for combination in product(*(values[key] for key in known)):
            work.append((method, dict(zip(known, combination, strict=True))))
    trials = [(_trial(grid, source, method, bits, seed, taken), taken) for method, taken in work]
    if trials and not len(protocol_of(trials[0][0].config, source).validation):
        raise ConfigError("Tuning needs validation rows: add --set data.validation_per_class=20, or another number.")
    for cell, _ in track(trials, len(trials), "tuning", "runs"):
        bench.run(cell)
    found: dict[str, list[dict[str, Any]]] = {}
    for cell, taken in trials:
        bench.run(cell, wait=True)  # those that another process has begun
        failed = (bench.place(cell) / FAILED).exists()  # it diverged
        curve = [] if failed else training_of(bench.place(cell))["validation"]
        kept = curve[-1:] if cell.config.train.keep == "last" else curve  # what the model would be taken by
        best = max((score for _, score in kept), default=None)
        found.setdefault(cell.method, []).append({"values": taken, "validation_map": best})
    own = {name: dict(settings) for name, settings in (grid.own or {}).items()}
    chosen: dict[str, Any] = {}
    for method, entries in found.items():
        best = max(entries, key=lambda entry: -1.0 if entry["validation_map"] is None else entry["validation_map"])
        own[method] = {**own.get(method, {}), **best["values"]}
        chosen[method] = {"chosen": best["values"], "bits": bits, "seed": seed, "tried": entries}
        words = ", ".join(f"{key}={value}" for key, value in best["values"].items()) or "nothing to tune"
        how = f"by validation MAP at {bits} bits" if best["validation_map"] is not None else "as every run diverged"
        say(f"{method}: {words}, {how}")
    return replace(grid, own=own), chosen


def _trial(grid: Grid, source: Source, method: str, bits: int, seed: int, taken: dict[str, Any]) -> Cell:
    own = {method: {**(grid.own or {}).get(method, {}), **taken}}
    words = ",".join(f"{key}={value}" for key, value in taken.items())
    return replace(replace(grid, own=own).cell(source, method, bits, seed), tried=words.replace("/", "_"))


def _check(values: Mapping[str, Sequence[Any]], trained: Sequence[str], grid: Grid) -> None:
    if not trained:
        raise ConfigError("There is nothing to tune: none of the methods is trained step by step.")
    check_not_shared(values)
    for key, tried in values.items():
        if not any(_has(method, key) for method in trained):
            raise ConfigError(f"None of the methods that are trained has the setting {key} to tune.")
        if len({str(value) for value in tried}) != len(tried):
            raise ConfigError(f"The values of {key} to try must all be different, not {list(tried)}.")
        for given in (grid.chosen or {}, *(grid.own or {}).values()):
            if key in given:
                raise ConfigError(f"{key} is either set or tuned, not both.")


def _has(method: str, key: str) -> bool:
    """Whether a setting is one of this method's, or of every run."""
    return not key.startswith("method.") or key.removeprefix("method.") in method_class(method).Settings.model_fields

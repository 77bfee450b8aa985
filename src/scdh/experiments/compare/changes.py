"""Report what changed in a comparison after queries were scored: such a change may have been chosen by the scores.

``scored.json`` keeps what was compared when queries were first scored, and the settings of every run when it was first
scored. Later calls are compared with that; differences are reported on the page and in ``compare.json``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from scdh.config import RunConfig
from scdh.errors import ConfigError, DataError, TrainingError
from scdh.experiments.compare.cell import CellRunner
from scdh.experiments.compare.grid import Cell, Grid
from scdh.experiments.compare.results import TuningResult
from scdh.methods.registry import method_class
from scdh.runs.choices import flat_settings
from scdh.runs.folder import RunFolder
from scdh.storage.checksums import CHECKSUM
from scdh.storage.files import locked
from scdh.storage.json_files import read_table, write_table

SCORED_FILE = "scored.json"
# Differ between runs of one comparison: of all lengths and seeds, and with --seconds the lengths of training.
_OF_ONE_RUN = ("seed", "method.bits", "train.epochs", "train.epoch_steps", "train.lr_steps")
_SHARED = ("data.", "net.")  # the same for all methods


@dataclass
class Compared:
    """What is compared.

    Args:
        methods, bits, seeds: as in the command.
        topk: items that count for MAP; None: the usual number.
        tried: method → values of every trial that chose its settings; None: not known.
        settings: cell → its settings by dotted key.
        is_scored: whether a query was scored since this was written.
    """

    methods: list[str]
    bits: list[int]
    seeds: list[int]
    topk: int | None = None
    tried: dict[str, list[dict[str, Any]]] | None = None
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    is_scored: bool = False


def compared_now(grid: Grid, cells: Sequence[Cell], topk: int | None, tuning: Mapping[str, TuningResult]) -> Compared:
    """What this call of a comparison compares."""
    tried = {method: [trial.values for trial in tuned.tried] for method, tuned in tuning.items()}
    settings = {cell.name: _flat(cell.config) for cell in cells}
    return Compared(list(grid.methods), list(grid.bits), list(grid.seeds), topk, tried, settings)


def first_scored(out: Path) -> Compared | None:
    """What was compared when queries were first scored; None if none was.

    If only runs have scores, because ``scdh evaluate`` scored them, the settings of these runs count.
    """
    runs = [RunFolder(folder) for folder in sorted((out / "cells").glob("*"))]
    scored = [run for run in runs if run.has_query_scores]
    kept = _read(out / SCORED_FILE)
    if kept is not None and (kept.is_scored or scored):
        return kept
    if not scored:
        return None
    configs = {run.path.name: run.config() for run in scored}
    return Compared(
        methods=list(dict.fromkeys(config.method.name for config in configs.values())),
        bits=sorted({config.method.bits for config in configs.values()}),
        seeds=sorted({config.seed for config in configs.values()}),
        settings={name: _flat(config) for name, config in configs.items()},
    )


def keep_scored(out: Path, now: Compared, *, is_scored: bool) -> None:
    """Store what is compared, before queries are scored and (``is_scored``) after; earlier entries stay."""
    with locked(out / ".scored", wait=True):
        first = first_scored(out) or now
        first.settings = {**now.settings, **first.settings}
        first.tried = {**(now.tried or {}), **(first.tried or {})}
        first.is_scored = first.is_scored or is_scored
        write_table(out / SCORED_FILE, asdict(first))


def _read(file: Path) -> Compared | None:
    remedy = "restore it from a copy, or choose another folder"
    try:
        content = read_table(file, "what was compared", remedy)
        content.pop(CHECKSUM, None)
        return Compared(**content)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except TypeError:
        raise DataError(f"{str(file)!r} does not hold what was compared; {remedy}.") from None


def changes_since(first: Compared | None, now: Compared) -> list[str]:
    """What differs from what was compared when queries were first scored, as sentences; none if nothing does.

    >>> changes_since(Compared(["scdh"], [8], [0]), Compared(["scdh", "dsh"], [8], [0]))
    ['Methods added: dsh.']
    """
    if first is None:
        return []
    sentences = []
    for what in ("methods", "bits", "seeds"):
        before, after = getattr(first, what), getattr(now, what)
        for verb, values in (("added", _without(after, before)), ("left out", _without(before, after))):
            if values:
                sentences.append(f"{what.capitalize()} {verb}: {', '.join(map(str, values))}.")
    if first.topk != now.topk:
        before, after = ("the usual" if topk is None else f"the first {topk:,}" for topk in (first.topk, now.topk))
        sentences.append(f"MAP counts {after} items, not {before} ones.")
    scored = {*first.methods, *map(_method, first.settings.values())}
    for method in (method for method in now.methods if method in scored):
        if first.tried is not None and now.tried is not None:
            sentences += _other_trials(method, first.tried.get(method, []), now.tried.get(method, []))
    return [*sentences, *_other_settings(first.settings, now.settings)]


def _other_trials(method: str, before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[str]:
    further, fewer = ([values for values in one if values not in other] for one, other in _both_ways(after, before))
    sentences = []
    for when, trials in (("after that", further), ("before that, now left out", fewer)):
        if trials:
            keys = ", ".join(dict.fromkeys(key for values in trials for key in values))
            sentences.append(f"{method}: {len(trials)} trial{'s' * (len(trials) > 1)} of {keys} {when}.")
    return sentences


def _both_ways(one: Any, other: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    return (one, other), (other, one)


def _other_settings(first: Mapping[str, dict[str, Any]], now: Mapping[str, dict[str, Any]]) -> list[str]:
    """Settings of runs that differ from those when the run, or a similar one, was first scored."""
    found: dict[str, dict[str, None]] = {}
    for cell, settings in now.items():
        before = first.get(cell) or _similar_run(first, settings)
        for key in sorted(before.keys() | settings.keys()):
            if key not in before.keys() & settings.keys() and not key.startswith("method."):
                continue  # a setting that came with a newer version
            old, new = before.get(key, "default"), settings.get(key, "default")
            is_of_other_run = cell not in first and key in _OF_ONE_RUN
            is_of_other_method = _method(before) != _method(settings) and not key.startswith(_SHARED)
            if old != new and not is_of_other_run and not is_of_other_method:
                found.setdefault(f"{key} {old} → {new}", {})[_method(settings)] = None
    return [f"{', '.join(methods)}: {text}." for text, methods in found.items()]


def _similar_run(runs: Mapping[str, dict[str, Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A run of the same method, or of another one that is trained (or fitted) too; {} if there is none."""
    method = _method(settings)
    same_method = (run for run in runs.values() if _method(run) == method)
    same_way = (run for run in runs.values() if _is_trained(_method(run)) == _is_trained(method))
    return next(same_method, None) or next(same_way, {})


def _is_trained(method: str) -> bool | None:
    try:
        return method_class(method).learns_by_gradient
    except ConfigError:  # of a package that is no longer installed
        return None


def check_same_settings(cells: Iterable[Cell], runner: CellRunner, tuned: Mapping[str, set[str]]) -> None:
    """Raise, before any work, if a run has other settings than requested; values chosen by tuning may differ."""
    for cell in cells:
        run = runner.run_of(cell)
        if run.config_file.exists() and not _changed_by_tuning(run, cell, tuned):
            run.claim(cell.config, resume=True, write=False)


def check_before_trials(cells: Iterable[Cell], runner: CellRunner, to_choose: Mapping[str, set[str]]) -> None:
    """Raise if a run has other settings, before trials start, which take long and replace the stored ones."""
    for cell in cells:
        run = runner.run_of(cell)
        if not run.config_file.exists():
            continue
        before, after = _flat(run.config().with_method_defaults()), _flat(cell.config)
        for key in sorted((before.keys() | after.keys()) - to_choose.get(cell.method, set())):
            if before.get(key) != after.get(key):
                raise TrainingError(
                    f"The run in {str(run)!r} has another {key} ({before.get(key)}, not {after.get(key)}); give the "
                    "same settings, or choose another folder."
                )


def _changed_by_tuning(run: RunFolder, cell: Cell, tuned: Mapping[str, set[str]]) -> set[str]:
    """Keys of settings that differ, if tuning has chosen all of them; else none."""
    if not tuned.get(cell.method):
        return set()
    before, after = _flat(run.config().with_method_defaults()), _flat(cell.config)
    different = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return different if different <= tuned[cell.method] else set()


def move_runs_with_other_values(
    out: Path,
    cells: Iterable[Cell],
    runner: CellRunner,
    tuned: Mapping[str, set[str]],
    notify: Callable[[str], None],
) -> None:
    """Move each run for which tuning has now chosen other values to ``earlier``, so that it is trained again.

    Other differences raise an error earlier.
    """
    for cell in cells:
        run = runner.run_of(cell)
        if run.config_file.exists() and _changed_by_tuning(run, cell, tuned):
            with locked(out / ".earlier", wait=True):  # another process may work on the same comparison
                _move(out, cell, run, tuned, notify)


def _move(out: Path, cell: Cell, run: RunFolder, tuned: Mapping[str, set[str]], notify: Callable[[str], None]) -> None:
    different = _changed_by_tuning(run, cell, tuned) if run.config_file.exists() else set()
    if not different:  # another process has just moved it
        return
    with locked(run.lock) as have_lock:
        if have_lock:  # a run that is being trained is not moved away under its process
            places = (out / "earlier" / f"{cell.name}-{n}" for n in count(1))
            place = next(place for place in places if not place.exists())
            place.parent.mkdir(exist_ok=True)
            run.path.rename(place)
            notify(
                f"{cell.name} had another {', '.join(sorted(different))}; it was moved to {place} and is trained again."
            )


def _flat(config: RunConfig) -> dict[str, Any]:
    return flat_settings(config.model_dump(mode="json"))


def _method(settings: Mapping[str, Any]) -> Any:
    return settings.get("method.name")


def _without(values: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [value for value in values if value not in others]

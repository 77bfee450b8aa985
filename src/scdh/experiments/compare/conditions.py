"""What the numbers of a comparison depend on, as sentences: data, budget, network, settings, versions, failures."""

from collections.abc import Sequence

from scdh.config import MethodSettings
from scdh.experiments.compare.results import CellResult, ComparisonResults
from scdh.experiments.compare.tables import difference_from_training, rows_by_method
from scdh.methods.registry import method_class, method_names


def conditions(results: ComparisonResults) -> dict[str, str]:
    """What the numbers depend on, as sentences by heading."""
    data, budget = results.data, results.budget
    parts = ", ".join(f"{getattr(data, p):,} {p}" for p in ("train", "unlabelled", "validation", "query", "database"))
    splits = ", ".join(f"{split['fingerprint']} (seed {seed})" for seed, split in results.protocols.items())
    names = ", ".join(sorted({split["name"] for split in results.protocols.values()}))
    labels = f"{data.labels} labels" + (", any number per item" if data.multi_label else "")
    network = ", ".join(f"{key} {value}" for key, value in results.network.items() if value not in (None, [], False))
    epochs, steps = _range(budget.epochs), _range(budget.steps)
    if not budget.steps:
        work = "Nothing was trained."
    else:
        work = f"{epochs} epochs, {steps} optimiser steps for every run that is trained"
        work += ", or fewer where validation MAP stopped rising (train.patience)." if _has_patience(results) else "."
    failed = [f"{cell}: {message}" for cell, message in results.failed.items()]
    differs = {name: text for name, text in results.fidelity.items() if ": " in text}
    sentences = {
        "Protocol": f"{names or data.name}; rows: {parts}; {labels}. "
        f"Fingerprint of the data {data.fingerprint}; of the splits {splits or 'none yet'}.",
        "Budget": work,
        "Network": f"{network}; the same for every method that is trained.",
        "Definitions": definitions_text(results.cells),
        "Versions": ", ".join(f"{name} {version}" for name, version in results.versions.items()) + ".",
        "Failed runs": " ".join([f"{len(failed)}.", *failed]),
    }
    if own := _own_settings(results):
        sentences["Settings other than a method's defaults"] = own
    if (difference := difference_from_training(results)) is not None:
        sentences["Not as `scdh train`"] = difference
    differing = [f"{name} ({text.partition(': ')[0]}): {text.partition(': ')[2]}" for name, text in differs.items()]
    sentences["Not as published"] = "; ".join(differing) + "." if differing else "Nothing."
    if not results.missing and (without := _lengths_left_out(results)):
        sentences["Lengths left out"] = without
    if results.missing:
        sentences["Not done yet"] = ", ".join(results.missing) + "."
    if results.changed_after_scoring:
        sentences["Changed after queries were scored"] = " ".join(results.changed_after_scoring)
    return sentences


def _has_patience(results: ComparisonResults) -> bool:
    return any(config["train"].get("patience") is not None for config in results.configs.values())


def _own_settings(results: ComparisonResults) -> str:
    """Values that suit the data, were given for a method, or were chosen by trials, at the first length."""
    texts: dict[str, str] = {}
    for config in results.configs.values():
        name = config["method"]["name"]
        is_known = name in method_names()  # otherwise its package is not installed here
        defaults = method_class(name).Settings.model_construct().model_dump(mode="json") if is_known else {}
        own = {key: value for key, value in config["method"].items() if key not in MethodSettings.model_fields}
        changed = [f"{key} {value}" for key, value in own.items() if value != defaults.get(key)]
        if changed:
            texts.setdefault(name, f"{name} ({', '.join(changed)})")
    return ", ".join(texts.values()) + "." if texts else ""


def _lengths_left_out(results: ComparisonResults) -> str:
    """Methods that do not have all lengths of codes, as sentences; "" where all do."""
    sentences = []
    for rows in rows_by_method(results.rows):
        if without := [str(bits) for bits in results.bits if bits not in rows.by_bits]:
            sentences.append(f"{rows.title} has no codes of {', '.join(without)} bits.")
    return " ".join(sentences)


def definitions_text(cells: Sequence[CellResult]) -> str:
    """The definitions of the scores; if methods rank by different distances, with the methods of each definition."""
    titles: dict[str, list[str]] = {}
    for cell in cells:
        if cell.definition is not None and cell.title not in titles.setdefault(cell.definition["words"], []):
            titles[cell.definition["words"]].append(cell.title)
    if len(titles) < 2:
        return next(iter(titles), "No run is done, so nothing was scored.")
    return " ".join(f"{', '.join(names)}: {text}" for text, names in titles.items())


def _range(values: Sequence[int]) -> str:
    if not values:
        return "0"
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"

"""What a comparison found, as tables and sentences: the page, the Markdown file and the terminal show the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Block:
    """One line of a table: a method (or its student) with its rows by bits."""

    method: str
    title: str
    student: bool
    by: dict[int, Row]


@dataclass(frozen=True)
class Table:
    """Texts, with the places (line, column) of the best of each column."""

    title: str
    note: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    best: frozenset[tuple[int, int]] = field(default_factory=frozenset)


def blocks(rows: Sequence[Row]) -> list[Block]:
    """In the order of the rows, which is that of measured MAP."""
    found: dict[tuple[str, bool], Block] = {}
    for row in rows:
        key = (row["method"], row["student"])
        found.setdefault(key, Block(*key[:1], row["title"], row["student"], {})).by[row["bits"]] = row
    return list(found.values())


def score_words(row: Row | None, key: str) -> str:
    if row is None:
        return "–"
    if row[key] is None:
        return "failed"
    deviation = "" if row[f"{key}_std"] is None else f" ± {row[f'{key}_std']:.3f}"
    # The mean of those that did not fail flatters a method that often does.
    return f"{row[key]:.3f}{deviation}" + (f" ({row['failed']} failed)" if row["failed"] else "")


def seconds_words(row: Row | None, key: str) -> str:
    if row is None or row[key] is None:
        return "–"
    return f"{row[key]:,.1f} s" if row[key] >= 0.1 else f"{row[key]:.3f} s" if row[key] >= 0.001 else "< 0.001 s"


def tables(found: dict[str, Any]) -> list[Table]:
    """Tables with a column for each length of codes."""
    radius = (found["definition"] or {}).get("radius", 2)
    seeds = len(found["seeds"])
    over = f"Mean ± standard deviation (n − 1) over {seeds} seeds." if seeds > 1 else "One seed: no deviation is known."
    made = [
        _table(found, "MAP", f"{over} Best mean first; the best of each length stands out.", "map"),
        _table(found, "MAP, worst – best order of ties", "Mean over seeds of what sorting could make of ties.", None),
        _table(found, f"Precision within radius {radius}", over, "precision_at_radius"),
        _table(found, f"Share of queries with nothing within radius {radius}", over, "empty_balls"),
        _table(found, "Seconds of training", "Steps alone, without scoring, caching or loading.", "seconds"),
    ]
    if found["budget"]["seconds"] is not None:
        made.append(_table(found, "Epochs", "As many as the seconds allow; – for methods that are fitted.", "epochs"))
    if found["target"] is not None:
        words = f"Seconds of training until validation MAP was {found['target']:.2f}"
        note = "Mean over seeds; – where a run never got there, or was not validated (methods that are fitted at once)."
        made.append(_table(found, words, note, "seconds_to_target"))
    return made


def _table(found: dict[str, Any], title: str, note: str, key: str | None) -> Table:
    shown = blocks(found["rows"])
    lines = [[block.title, *(_words(block.by.get(bits), key) for bits in found["bits"])] for block in shown]
    best: set[tuple[int, int]] = set()
    for column, bits in enumerate(found["bits"] if key in ("map", "precision_at_radius") else (), 1):
        values = [(block.by.get(bits) or {}).get(str(key)) for block in shown]
        highest = max((value for value in values if value is not None), default=None)
        best |= {(line, column) for line, value in enumerate(values) if value is not None and value == highest}
    return Table(title, note, ["method", *(f"{bits} bits" for bits in found["bits"])], lines, frozenset(best))


def _words(row: Row | None, key: str | None) -> str:
    if key is None:
        return "–" if row is None or row["map"] is None else f"{row['map_worst']:.3f} – {row['map_best']:.3f}"
    if key == "epochs":
        return "–" if row is None or row[key] is None else f"{row[key]:,}"
    return seconds_words(row, key) if key.startswith("seconds") else score_words(row, key)


def tuning_table(found: dict[str, Any]) -> Table | None:
    """Every value that was tried and what it gave, so that nobody has to believe the choice."""
    lines: list[list[str]] = []
    best = set()
    for method, about in found["tuned"].items():
        for trial in about["tried"]:
            if trial["values"] == about["chosen"]:
                best.add((len(lines), 2))
            score = trial["validation_map"]
            words = ", ".join(f"{key} = {value}" for key, value in trial["values"].items()) or "nothing to tune"
            taken = "taken" if trial["values"] == about["chosen"] else ""
            lines.append([method, words, "failed" if score is None else f"{score:.3f}", taken])
    if not lines:
        return None
    about = next(iter(found["tuned"].values()))
    note = (
        f"Validation MAP of a run with {about['bits']} bits and seed {about['seed']}; it decides for all lengths "
        "and seeds. No query was asked."
    )
    return Table("Values tried", note, ["method", "values", "validation MAP", ""], lines, frozenset(best))


def facts(found: dict[str, Any]) -> dict[str, str]:
    """What the numbers rest on, by heading."""
    at, budget, many = found["data"], found["budget"], int(found["data"]["multi_label"])
    parts = ", ".join(f"{at[part]:,} {part}" for part in ("train", "unlabelled", "validation", "query", "database"))
    prints = ", ".join(f"{about['fingerprint']} (seed {seed})" for seed, about in found["protocols"].items())
    names = ", ".join(sorted({about["name"] for about in found["protocols"].values()}))
    net = ", ".join(f"{key} {value}" for key, value in found["network"].items() if value not in (None, [], False))
    bounds = {key: _span(budget[key]) for key in ("epochs", "steps")}
    equal = f"{bounds['epochs']} epochs, {bounds['steps']} optimiser steps for every run that is trained"
    timed = f"about {budget['seconds']} s of training for every run: {bounds['epochs']} epochs, {bounds['steps']} steps"
    told = {
        "Protocol": f"{names or at['name']}; rows: {parts}; {at['labels']} labels{', any number an item' * many}. "
        f"Fingerprint of the data {at['fingerprint']}; of the splits {prints or 'none yet'}.",
        "Budget": ("Nothing was trained" if not budget["steps"] else timed if budget["seconds"] else equal) + ".",
        "Network": f"{net}; the same for every method.",
        "Definitions": (found["definition"] or {}).get("words", "No run is done, so nothing was scored."),
        "Versions": ", ".join(f"{what} {version}" for what, version in found["versions"].items()) + ".",
    }
    failed = [f"{cell}: {sentence}" for cell, sentence in found["failed"].items()]
    told["Failed runs"] = f"{len(failed)}." if not failed else f"{len(failed)}. " + " ".join(failed)
    if found["missing"]:
        told["Not done yet"] = ", ".join(found["missing"]) + "."
    return told


def _span(values: Sequence[int]) -> str:
    if not values:
        return "0"
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"

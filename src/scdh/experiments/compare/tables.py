"""The results of a comparison as tables of text: the page, the Markdown file and the terminal show the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scdh.experiments.compare.results import ComparisonResults, SummaryRow
from scdh.experiments.compare.summary import TARGET_SHARE

HIGHLIGHTED = ("map", "precision_at_radius", "precision_at_10")
TIME_TO_TARGET = (
    f"Mean over seeds, in whole epochs. If no other level was asked for, it is {TARGET_SHARE:.0%} of the lowest "
    "of the methods' best validation MAPs, where a best below half of the highest does not count; – where a run never "
    "reached it, or was not validated (methods that are fitted)."
)


@dataclass(frozen=True)
class MethodRows:
    """One line of a table: a method (or its student) with its summary rows by bits."""

    method: str
    title: str
    student: bool
    by_bits: dict[int, SummaryRow]

    def mean(self, score: str, bits: int) -> float | None:
        """Mean of a score at a length of codes; None where there is none."""
        row = self.by_bits.get(bits)
        return None if row is None else row.mean(score)

    def longest(self) -> SummaryRow | None:
        """The row with the most bits."""
        return self.by_bits.get(max(self.by_bits, default=0))

    @property
    def is_scored(self) -> bool:
        """Whether at least one run did not fail."""
        return any(row.map is not None for row in self.by_bits.values())


@dataclass(frozen=True)
class Table:
    """Texts, and the positions (line, column) of highlighted ones."""

    title: str
    note: str
    columns: Sequence[str]
    lines: Sequence[Sequence[str]]
    highlighted: frozenset[tuple[int, int]] = field(default_factory=frozenset)


def rows_by_method(rows: Sequence[SummaryRow]) -> list[MethodRows]:
    """In the order of the rows, which is that of measured MAP."""
    methods: dict[tuple[str, bool], MethodRows] = {}
    for row in rows:
        lines = methods.setdefault((row.method, row.student), MethodRows(row.method, row.title, row.student, {}))
        lines.by_bits[row.bits] = row
    return list(methods.values())


def format_score(row: SummaryRow | None, score: str) -> str:
    """Mean ± deviation; "–" if nothing was run, or the method's ranking has no such score."""
    if row is None:
        return "–"
    mean, deviation = row.mean(score), row.deviation(score)
    if mean is None:
        return "–" if row.runs else "failed"
    text = f"{mean:.3f}" if deviation is None else f"{mean:.3f} ± {deviation:.3f}"
    # The mean of the runs that did not fail flatters a method that often does.
    return f"{text} ({row.failed} failed)" if row.failed else text


def format_seconds(seconds: float | None) -> str:
    """Seconds with a useful number of digits."""
    if seconds is None:
        return "–"
    return f"{seconds:,.1f} s" if seconds >= 0.1 else f"{seconds:.3f} s" if seconds >= 0.001 else "< 0.001 s"


def score_tables(results: ComparisonResults) -> list[Table]:
    """Tables with a line for each method and a column for each length of codes; MAP is the first."""
    radius, seeds = results.radius, len(results.seeds)
    over = f"Mean ± standard deviation (n − 1) over {seeds} seeds." if seeds > 1 else "One seed: no deviation is known."
    tables = [
        _map_table(results, over),
        conditions_table(results),
        _table(results, "MAP, worst – best order of ties", "Mean over seeds, by how ties are sorted.", "bounds"),
        _table(results, f"Precision within radius {radius}", over, "precision_at_radius"),
        _table(results, "Precision of the first 10", over, "precision_at_10"),
        _table(results, f"Share of queries with nothing within radius {radius}", over, "empty_balls"),
        _table(
            results,
            "Seconds of training",
            "Preparation and epochs, without features, validation and scores.",
            "seconds",
        ),
    ]
    if results.target is not None:
        title = f"Seconds of training until validation MAP was {results.target:.2f}"
        tables.append(_table(results, title, TIME_TO_TARGET, "seconds_to_target"))
    return tables


def _map_table(results: ComparisonResults, over: str) -> Table:
    """MAP by bits, with that of the last epoch next to it if another epoch's model was taken."""
    order = "mean MAP over their common lengths" if len(results.bits) > 1 else "MAP"
    note = f"{over} Methods are sorted by {order}; the best of each length is highlighted."
    table = _table(results, "MAP", note, "map")
    if not has_best_epochs(results):
        note = f"{table.note} Models are those of the last epoch."
        return Table(table.title, note, table.columns, table.lines, table.highlighted)
    columns, lines = [table.columns[0]], [[line[0]] for line in table.lines]
    methods = rows_by_method(results.rows)
    for n, bits in enumerate(results.bits, 1):
        columns += [table.columns[n], "last epoch"]
        for line, (texts, shown) in enumerate(zip(lines, table.lines, strict=True)):
            last = methods[line].mean("map_last", bits) if line < len(methods) else None
            texts += [shown[n], "–" if last is None else f"{last:.3f}"]
    note = (
        f"{table.note} Models are those of the epoch with the best validation MAP; next to them is the MAP of the last "
        "epoch's models, for the order of methods without that choice."
    )
    highlighted = frozenset((line, 2 * column - 1) for line, column in table.highlighted)
    return Table(table.title, note, columns, lines, highlighted)


def has_best_epochs(results: ComparisonResults) -> bool:
    """Whether models are those of best epochs, so that the last epoch's may differ."""
    return any(row.best_epoch is not None for row in results.rows)


def conditions_table(results: ComparisonResults) -> Table:
    """Differences between the methods other than their losses: at the longest codes, means over the seeds."""
    columns = ["method", "learned weights", "beyond plain", "trials", "best epoch", "training"]
    columns += [] if results.target is None else [f"to {results.target:.2f}"]
    columns += ["fidelity"]
    lines = []
    for method in rows_by_method(results.rows):
        row = method.longest()
        at = f", {row.bits} bits" if row is not None and row.bits < max(results.bits) else ""
        is_trained = row is not None and row.epochs is not None
        tried = results.trials(method.method)
        trials = f"{tried:,}" if is_trained or tried else "–"
        lines.append([f"{method.title}{at}", *_weights(row), trials, _best_epoch(row), _format(row, "seconds")])
        lines[-1] += [] if results.target is None else [_format(row, "seconds_to_target")]
        lines[-1] += [results.fidelity.get(method.method, "").partition(":")[0]]
    note = (
        f"At {max(results.bits)} bits, unless another is given. Beyond plain: more (or fewer) than trunk, hidden "
        "layers and a plain hash layer, which all share. Trials: runs on validation rows that chose its settings. "
        "Seconds of training are preparation and epochs"
    )
    note += "." if results.target is None else f"; to {results.target:.2f}: until validation MAP was that high."
    return Table("What each method had", note, columns, lines)


def difference_from_training(results: ComparisonResults) -> str | None:
    """What ``scdh train`` would choose for these data that the comparison does not; None if there is nothing."""
    titles = {method.method: method.title for method in rows_by_method(results.rows) if not method.student}
    by_settings: dict[str, list[str]] = {}
    for name, settings in results.left_to_train.items():
        if name in titles:
            by_settings.setdefault(" and ".join(settings), []).append(titles[name])
    if not by_settings:
        return None
    found = ", ".join(f"{settings} for {', '.join(names)}" for settings, names in by_settings.items())
    return f"`scdh train` also finds {found} by trials, so its models may score differently; --set takes its values."


def _weights(row: SummaryRow | None) -> list[str]:
    learned, beyond = (None, None) if row is None else (row.learned_weights, row.own_weights)
    return [
        "–" if learned is None else f"{learned:,}",
        "–" if beyond is None else f"{beyond:+,}".replace("-", "−") if beyond else "0",
    ]


def _best_epoch(row: SummaryRow | None) -> str:
    if row is None or row.best_epoch is None:
        return "–"
    return f"{row.best_epoch:.3g} of {row.epochs:,}"


def _table(results: ComparisonResults, title: str, note: str, value: str) -> Table:
    methods = rows_by_method(results.rows)
    lines = [[rows.title, *(_format(rows.by_bits.get(bits), value) for bits in results.bits)] for rows in methods]
    highlighted: set[tuple[int, int]] = set()
    for column, bits in enumerate(results.bits if value in HIGHLIGHTED else (), 1):
        means = [rows.mean(value, bits) for rows in methods]
        best = max((mean for mean in means if mean is not None), default=None)
        highlighted |= {(line, column) for line, mean in enumerate(means) if mean is not None and mean == best}
    if value in ("map", "precision_at_10") and results.floats is not None:
        lines.append([results.floats.title, *[format_floats(results, value)] * len(results.bits)])
        note += " The floats behind the codes are not codes, so they are never highlighted."
    return Table(title, note, ["method", *(f"{bits} bits" for bits in results.bits)], lines, frozenset(highlighted))


def format_floats(results: ComparisonResults, value: str = "map") -> str:
    """MAP or precision of the first 10 of the float vectors; "–" if they were not ranked."""
    mean = None if results.floats is None else getattr(results.floats, value)
    if results.floats is None or mean is None:
        return "–"
    deviation = results.floats.map_std if value == "map" else None
    return f"{mean:.3f}" if deviation is None else f"{mean:.3f} ± {deviation:.3f}"


def _format(row: SummaryRow | None, value: str) -> str:
    if value == "bounds":
        return "–" if row is None or row.map is None else f"{row.map_worst:.3f} – {row.map_best:.3f}"
    if value in ("seconds", "seconds_to_target"):
        return format_seconds(None if row is None else row.mean(value))
    return format_score(row, value)


def tuning_table(results: ComparisonResults) -> Table | None:
    """Every value that was tried, with its score, so that the choice can be checked; None without tuning."""
    lines: list[list[str]] = []
    highlighted = set()
    for method, tuning in results.tuned.items():
        for trial in tuning.tried:
            is_chosen = trial.values.items() <= tuning.chosen.items()
            if is_chosen:
                highlighted.add((len(lines), 2))
            values = ", ".join(f"{key} = {value}" for key, value in trial.values.items()) or "nothing to tune"
            score = "failed" if trial.validation_map is None else f"{trial.validation_map:.3f}"
            lines.append([method, values, score, "chosen" if is_chosen else ""])
    if not lines:
        return None
    bits = " or ".join(str(length) for length in sorted({tuning.bits for tuning in results.tuned.values()}))
    seed = next(iter(results.tuned.values())).seed
    note = (
        f"Validation MAP of a run with {bits} bits and seed {seed}; it decides for all lengths and seeds. Rates are "
        "compared by the last epoch, other values by the best. No query was used."
    )
    return Table("Values tried", note, ["method", "values", "validation MAP", ""], lines, frozenset(highlighted))

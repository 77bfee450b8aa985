"""The tables of the paper with our numbers: mean ± deviation over seeds, next to the paper's with both scales named."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from scdh.experiments.compare.results import CellResult, ComparisonResults
from scdh.experiments.compare.summary import average
from scdh.experiments.compare.tables import format_seconds
from scdh.experiments.reproduce.blocks import Block
from scdh.experiments.reproduce.run import Reproduced, cells_of, run_folder, usual_seconds
from scdh.experiments.reproduce.scale import Role
from scdh.methods.registry import method_class


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper."""

    title: str
    paper: str
    data: str
    note: str
    columns: tuple[str, ...]
    rows: dict[tuple[str, str], dict[str, float]]

    def row(self, method: str, network: str) -> tuple[str, dict[str, float]]:
        """The row of a method: of this network if there is one, else of the first; ("–", {}) without a row."""
        networks = [net for name, net in self.rows if name == method]
        if not networks:
            return "–", {}
        chosen = network if network in networks else networks[0]
        return chosen, self.rows[method, chosen]


def paper_table(name: str) -> PaperTable:
    """The table of ``paper/<name>.toml``."""
    text = (resources.files("scdh.experiments.reproduce") / "paper" / f"{name}.toml").read_text("utf-8")
    content = tomllib.loads(text)
    columns = tuple(content["columns"])
    rows = {}
    for method, network, *values in content["rows"]:
        by_column = zip(columns, values, strict=True)
        rows[method, network] = {column: float(value) for column, value in by_column if value != ""}
    return PaperTable(content["title"], content["paper"], content["data"], content["note"], columns, rows)


def map_by_bits(reproduced: Reproduced, study: str, table: str) -> Block | None:
    """MAP by bits of all methods of a study, with the paper's row of each."""
    return _by_columns(reproduced, study, table)


def variants(reproduced: Reproduced, study: str, table: str) -> Block | None:
    """MAP and precision within radius 2 of SCDH and its variants."""
    return _by_columns(reproduced, study, table, ("scdh_s", "scdh_c", "scdh"))


def _by_columns(reproduced: Reproduced, study: str, table: str, methods: Sequence[str] | None = None) -> Block | None:
    results = reproduced.results.get(study)
    if results is None:
        return None
    paper, role = paper_table(table), reproduced.work[study].study.role
    columns = [name for name in paper.columns if _bits(name) in results.bits]
    extra = [bits for bits in results.bits if str(bits) not in paper.columns and methods is None]
    shown = [*columns, *(str(bits) for bits in extra)]
    if not shown:
        return None
    if methods is None:
        shown.sort(key=int)
    names = [name for name in methods or _by_map(results) if name in results.methods]
    lines = []
    for name in names:
        ours = {
            column: average(_score(cell, column) for cell in cells_of(results, name, _bits(column))) for column in shown
        }
        network, theirs = paper.row(name, role.network)
        line = [method_class(name).about.title, *(_mean_text(*ours[column]) for column in shown)]
        line += [network] if columns else []
        line += [f"{theirs[column]:.3f}" if column in theirs else "–" for column in columns]
        if role.is_same:
            gaps = [
                mean - theirs[column]
                for column in columns
                if column in theirs and (mean := ours[column][0]) is not None
            ]
            line.append(f"{sum(gaps) / len(gaps):+.3f}".replace("-", "−") if gaps else "–")
        lines.append(line)
    ours_name = _ours(reproduced)
    heads = ["method", *(f"{ours_name} {_head(name)}" for name in shown), *(["paper's network"] if columns else [])]
    heads += [f"paper ({role.stands_for}) {_head(name)}" for name in columns] + (
        ["mean difference"] if role.is_same else []
    )
    note = notes(reproduced, role, paper, results)
    if methods is None and (missing := [name for name, _ in paper.rows if name not in results.methods]):
        titles = ", ".join(dict.fromkeys(method_class(name).about.title for name in missing))
        note += f" In the paper's table and not run at this scale: {titles}."
    return Block(table, title_on_data(paper.title, role), note, heads, lines)


def notes(reproduced: Reproduced, role: Role, paper: PaperTable | None, results: ComparisonResults) -> str:
    """The setting of a table: our scale and data, and the paper's, always in one sentence."""
    scale, seeds = reproduced.scale, len(results.seeds)
    ours = f"Ours: scale {scale.name}, {role.title}, {seeds} seed{'s' * (seeds > 1)}, mean ± standard deviation."
    if paper is None:
        return ours
    theirs = f"Paper: {paper.paper}; {paper.data}."
    is_same = role.is_same
    difference = "" if is_same else f" The data are not the paper's {role.stands_for}, so no difference is shown."
    return " ".join(part for part in (ours, theirs + difference, paper.note) if part)


def many_classes(reproduced: Reproduced) -> Block | None:
    """MAP with many classes."""
    return map_by_bits(reproduced, "many", "many_classes")


def training_time(reproduced: Reproduced) -> Block | None:
    """Seconds of training of every method at the longest codes, and as multiples of SCDH's."""
    paper = paper_table("training_time")
    found = {name: reproduced.results[name] for name in ("single", "multi") if name in reproduced.results}
    if not found:
        return None
    heads = ["method", "kind"]
    for name in found:
        stands_for = reproduced.work[name].study.role.stands_for
        ours = f"{_ours(reproduced)}, in place of {stands_for}"
        heads += [ours, "times SCDH", f"paper, hours on {stands_for}", "times SCDH"]
    lines = []
    first = next(iter(found.values()))
    for method in [name for name in first.methods if method_class(name).learns_by_gradient]:
        line = [method_class(method).about.title, method_class(method).about.kind]
        for name, results in found.items():
            seconds, own = (_seconds(results, which) for which in (method, "scdh"))
            _, theirs = paper.row(method, "VGG-16")
            hours, scdh_hours = theirs.get(name), paper.rows["scdh", "VGG-16"][name]
            line += [format_seconds(seconds), f"{seconds / own:.1f}" if seconds and own else "–"]
            line += ["–", "–"] if hours is None else [f"{hours:g} h", f"{hours / scdh_hours:.1f}"]
        lines.append(line)
    note = (
        f"Ours: scale {reproduced.scale.name}, seconds of training of one run at {max(first.bits)} bits (number of "
        "epochs times the median epoch, mean over seeds), without features of a frozen network. "
        f"Paper: {paper.paper}; {paper.data}. Hours and seconds are not comparable, "
        "their multiples only roughly. Other work on the machine changes seconds."
    )
    return Block("training_time", "Training time", note, heads, lines)


def semi_supervised(reproduced: Reproduced, role: str) -> Block | None:
    """MAP with few labels and unlabelled rows, SCDH without them included."""
    return map_by_bits(reproduced, f"semi-{role}", f"semi_{role}")


def warm_up(reproduced: Reproduced, group: str) -> Block | None:
    """MAP, precision within radius 2 and norm of the centres, by how the centres start."""
    paper, found = paper_table("warm_up"), reproduced.values(group)
    if len(found) < 2:
        return None
    lines = []
    for norm, results in found.items():
        cells = cells_of(results, "scdh")
        norms = average(_centre_norm(reproduced, f"{group}={norm:g}", cell) for cell in cells)
        start, key = (f"warm-up, s = {norm:g}", f"{norm:g}") if norm else ("random, σ = 0.5", "random")
        _, theirs = paper.row(key, "AlexNet")
        line = [start, *(_mean_text(*average(_score(cell, name) for cell in cells)) for name in ("map", "precision"))]
        line += [_mean_text(*norms, digits=2), *(f"{theirs[name]:g}" if theirs else "–" for name in paper.columns)]
        lines.append(line)
    first = next(iter(found.values()))
    names = ("MAP", "precision within radius 2", "norm of centres")
    role = reproduced.work[next(name for name in reproduced.results if name.startswith(f"{group}="))].study.role
    heads = ["start", *(f"{_ours(reproduced)} {name}" for name in names)]
    heads += [f"paper ({role.stands_for}) {name}" for name in names]
    title, note = f"Warm-up of the centres: {role.title}", notes(reproduced, role, paper, first)
    return Block(group.replace("-", "_"), title, note, heads, lines)


def _ours(reproduced: Reproduced) -> str:
    """How columns of our numbers begin: never without the scale."""
    return f"ours (scale {reproduced.scale.name})"


def title_on_data(title: str, role: Role) -> str:
    """With the paper's data, and whether ours are others."""
    return f"{title}: {role.stands_for}" if role.is_same else f"{title}, on data in place of {role.stands_for}"


def _centre_norm(reproduced: Reproduced, study: str, cell: CellResult) -> float | None:
    history = run_folder(reproduced, study, cell).model_info().get("history", {})
    value = history.get("centre_norm")
    return None if value is None else float(value)


def _seconds(results: ComparisonResults, method: str) -> float | None:
    return average(usual_seconds(cell) for cell in cells_of(results, method, max(results.bits)))[0]


def _by_map(results: ComparisonResults) -> list[str]:
    return list(dict.fromkeys(row.method for row in results.rows if not row.student))


def _bits(column: str) -> int | None:
    """Of "48" and "precision 48"; None for a column that is not of one length."""
    last = column.split()[-1]
    return int(last) if last.isdigit() else None


def _head(column: str) -> str:
    return column if column.startswith("precision") else f"{column} bits"


def _score(cell: CellResult, column: str) -> float | None:
    return cell.precision_at_radius if column.startswith("precision") else cell.map


def _mean_text(mean: float | None, deviation: float | None, digits: int = 3) -> str:
    if mean is None:
        return "–"
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")

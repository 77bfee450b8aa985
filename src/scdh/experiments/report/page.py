"""The page of a run: one self-contained HTML file, which can be mailed and opened without a network."""

import os
import shlex
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.experiments.pages.label_texts import short_names
from scdh.experiments.pages.pictures import ShownHit, pictures_of_source
from scdh.experiments.pages.template import load_template, save_page
from scdh.experiments.report.confusions import find_confusions, shares_a_label
from scdh.experiments.report.contents import Ranked, RunContents, read_choices, read_contents, read_epochs
from scdh.experiments.report.figures import draw_bits, draw_buckets, draw_confusions, draw_curves, draw_training
from scdh.extras import versions
from scdh.methods.registry import method_class
from scdh.metrics.statistics import bucket_sizes, code_statistics
from scdh.runs.data_paths import data_options
from scdh.runs.folder import RunFolder
from scdh.runs.run_scores import RunScores
from scdh.runs.summary import summarise

PAGE = "report.html"
SHOWN_PRECISIONS = (1, 10, 100)


@dataclass(frozen=True)
class ShownQuery:
    """A query of the page with its hits, and a note about hits that are not shown."""

    image: str | None
    name: str
    label: str
    why: str
    average_precision: float
    relevant: int
    hits: list[ShownHit]
    note: str


@dataclass(frozen=True)
class ScoreRow:
    """One line of the table of scores."""

    name: str
    bytes: int | None
    map: float
    map_interval: tuple[float, float]
    map_worst: float
    map_best: float
    precision_at_radius: float | None
    precisions: list[float | None]


def write_report(
    folder: Path, out: Path | None = None, *, floats: bool = True, **options: Any
) -> tuple[Path, RunContents]:
    """Write the page of a run.

    Returns:
        The path of the page, and what it shows.
    """
    contents = read_contents(RunFolder(folder), floats=floats, **options)
    return save_page(out or folder / PAGE, to_html(contents)), contents


def to_html(contents: RunContents) -> str:
    """The HTML text of what :func:`read_contents` gives."""
    ranked, database = contents.ranked, contents.database
    has_labels = contents.source.labelled[contents.database_rows].any()
    values: dict[str, Any] = {
        "contents": contents,
        "run_name": _without_folders(str(contents.run)),
        "ranked": ranked,
        "items": "photos" if contents.source.kind == "images" else "items",
        "counts": _counts(contents),
        "split_words": _split_words(contents.protocol),
        "learned_labels": method_class(contents.config.method.name).needs_labels,
        "has_labels": bool(contents.source.labelled.any()),
        "training": draw_training(read_epochs(contents.run), _validation_database(contents)),
        "statistics": code_statistics(database, contents.database_labels if has_labels else None),
        "buckets": bucket_sizes(database),
        "bits_chart": draw_bits(database),
        "buckets_chart": draw_buckets(database),
        "choices": read_choices(contents.run),
        "settings": _settings(contents),
        "commands": _next_commands(contents),
        "versions": versions(),
        "rows": [],
        "queries": [],
        "confusions": None,
    }
    if ranked is not None:
        confusions = find_confusions(
            ranked.labels,
            contents.database_labels,
            short_names(contents.label_names),
            ranked.positions,
            ranked.scores.scores.per_query["ap"],
        )
        values |= {
            "rows": _score_rows(ranked),
            "precision_at": SHOWN_PRECISIONS,
            "curves": draw_curves(ranked),
            "queries": _shown_queries(contents, ranked),
            "rules": RULES,
            "hopeless": int((ranked.scores.scores.per_query["relevant"] == 0).sum()),
            "confusions": confusions,
            "heat_map": draw_confusions(confusions),
            "content": ranked.scores.to_dict(),
        }
    return load_template("run.html", score=lambda value: "–" if value is None else f"{value:.3f}").render(values)


def _counts(contents: RunContents) -> dict[str, int]:
    """Rows of each part of the split, as every command prints them."""
    protocol = contents.protocol
    return {
        "train": len(protocol.train),
        "validation": len(protocol.validation),
        "query": len(protocol.query),
        "database": len(protocol.database),
        "unlabelled": len(protocol.unlabelled),
    }


def _split_words(protocol: Protocol) -> str:
    """Where the split comes from, with a capital letter; the name of the split if that was not recorded."""
    words = protocol.about or protocol.name
    return words[:1].upper() + words[1:] if protocol.about else words


def _validation_database(contents: RunContents) -> str:
    """What validation rows were ranked against while the run was trained."""
    is_of_vectors = contents.source.kind != "images" or contents.config.net.freeze
    among_training_rows = contents.config.train.validation_database == "train" and is_of_vectors
    return "the training rows" if among_training_rows else "each other"


def _score_rows(ranked: Ranked) -> list[ScoreRow]:
    title = "codes" if ranked.student is None else "codes of the teacher"
    rows = [_row_of_run(title, ranked.scores)]
    if ranked.student is not None:
        rows.append(_row_of_run("codes of the student", ranked.student))
    if (floats := ranked.scores.floats) is not None:
        summary = summarise(floats.scores)
        rows.append(_row(f"{floats.name}, cosine", floats.bytes, summary))
    return rows


def _row_of_run(name: str, scores: RunScores) -> ScoreRow:
    bits = scores.scores.definition.get("bits")
    return _row(name, None if bits is None else -(-bits // 8), summarise(scores.scores))


def _row(name: str, size: int | None, summary: dict[str, Any]) -> ScoreRow:
    precisions = [summary["precision_at_k"].get(str(k)) for k in SHOWN_PRECISIONS]
    low, high = summary["map_interval"]
    return ScoreRow(
        name=name,
        bytes=size,
        map=summary["map"],
        map_interval=(low, high),
        map_worst=summary["map_worst"],
        map_best=summary["map_best"],
        precision_at_radius=summary.get("precision_at_radius"),
        precisions=precisions,
    )


def _shown_queries(contents: RunContents, ranked: Ranked) -> list[ShownQuery]:
    per_query = ranked.scores.scores.per_query
    picture, name_of = pictures_of_source(contents.source), _item_names(contents.source)
    shown = []
    for chosen in choose_queries(per_query["ap"], per_query["relevant"], ranked.labels):
        n = chosen.position
        positions, distances = ranked.hits_of(n)
        right = shares_a_label(ranked.labels[n : n + 1], contents.database_labels, positions[None])[0]
        hits = []
        for position, distance, is_right in zip(positions, distances, right, strict=True):
            item = int(contents.database_rows[position])
            bits = f"{distance} bit{'' if distance == 1 else 's'} away"
            away = bits if ranked.is_by_bits else f"distance {distance:.3g}"
            label = contents.label_text(contents.database_labels[position])
            hits.append(ShownHit(picture(item, 1), name_of(item), label, bool(is_right), away))
        assert ranked.queries.ids is not None  # codes of a run carry row numbers
        row = int(ranked.queries.ids[n])
        shown.append(
            ShownQuery(
                picture(row, 2),
                name_of(row),
                contents.label_text(ranked.labels[n]),
                chosen.why,
                float(per_query["ap"][n]),
                int(per_query["relevant"][n]),
                hits,
                ranked.tie_note(n),
            )
        )
    return shown


def _item_names(source: Source) -> Callable[[int], str]:
    """Names of rows; files are named relative to the data, as a page that is shared must not show other folders."""
    if not source.has_paths:
        return source.item_name
    names = list(source.stable_names())
    return lambda row: _without_folders(names[row])


def _without_folders(path: str) -> str:
    """A path as the user wrote it, but only the last part of an absolute one."""
    return Path(path).name if os.path.isabs(path) else path


def _shared_settings(contents: RunContents) -> dict[str, Any]:
    settings = contents.config.model_dump(mode="json")
    for key in ("source", "root", "labels"):
        if settings["data"][key] is not None:
            settings["data"][key] = _without_folders(settings["data"][key])
    return settings


def _settings(contents: RunContents) -> list[tuple[str, str]]:
    """All settings by dotted key."""
    settings = []
    for group, value in _shared_settings(contents).items():
        inner = value if isinstance(value, dict) else {"": value}
        settings += [(f"{group}.{key}".rstrip("."), str(one)) for key, one in inner.items()]
    return settings


def _next_commands(contents: RunContents) -> list[str]:
    run, source = _without_folders(str(contents.run)), contents.source
    codes, index = f"{run}/all.codes", f"{run}/all.index"
    data = _shared_settings(contents)["data"]
    commands = [["encode", run, data["source"], *data_options(data), "--out", codes]]
    model = [] if contents.ranked is None or contents.ranked.is_by_bits else ["--model", run]
    search = ["search", index, *model, "--row", "0", "--html", f"{run}/hits.html"]
    if source.kind == "images" and not Path(source.item_name(0)).is_file():
        search += ["--data", data["source"]]  # if names are not files, the pictures are those of the data
    commands += [["index", codes, "--out", index], search]
    return [shlex.join(["scdh", *command]) for command in commands]


WORST = 6
MIDDLE = 3
BEST = 3
RULES = {
    "worst": "the lowest average precision",
    "middle": "an average precision next to the median",
    "best": "the highest average precision",
}


@dataclass(frozen=True)
class ChosenQuery:
    """Position among the queries, and why it is shown: a key of ``RULES``."""

    position: int
    why: str


def choose_queries(average_precisions: np.ndarray, relevant: np.ndarray, labels: np.ndarray) -> list[ChosenQuery]:
    """The worst queries, some in the middle and the best, each of another label (or set of labels) where possible."""
    possible = np.flatnonzero(relevant > 0)
    scores = average_precisions[possible]
    if not len(possible):
        return []
    keys: list[Hashable] = [labels[n].tobytes() for n in possible]
    rising = np.argsort(scores, kind="stable")
    by_middle = np.argsort(np.abs(scores - np.median(scores)), kind="stable")
    chosen: dict[int, str] = {}
    for why, order, count in (("worst", rising, WORST), ("best", rising[::-1], BEST), ("middle", by_middle, MIDDLE)):
        for place in _of_different_keys(order, keys, count, chosen):
            chosen[place] = why
    ranked = sorted(chosen, key=lambda place: (list(RULES).index(chosen[place]), scores[place]))
    return [ChosenQuery(int(possible[place]), chosen[place]) for place in ranked]


def _of_different_keys(order: np.ndarray, keys: Sequence[Hashable], count: int, taken: Iterable[int]) -> list[int]:
    """The first ``count`` free places in order; a key is repeated only if there are too few others."""
    used = set(taken)
    free = [place for place in order.tolist() if place not in used]
    firsts: dict[Hashable, int] = {}
    for place in free:
        firsts.setdefault(keys[place], place)
    different = list(firsts.values())[:count]
    used = set(different)
    return [*different, *[place for place in free if place not in used][: count - len(different)]]

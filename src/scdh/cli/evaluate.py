"""``scdh evaluate``: score a run, or two files of codes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scdh.cli.options import Device, From, Json, MovedData, MovedRoot, NoFloats, Remaining, use_device
from scdh.cli.output import print_json, print_line, print_note, print_table
from scdh.errors import CodesError, ConfigError, DataError

if TYPE_CHECKING:
    from scdh.codes import Codes
    from scdh.data.row_names import RowNames
    from scdh.metrics.scores import RankingScores

EXAMPLES = (
    "scdh evaluate runs/digits",
    "scdh evaluate runs/taught --from student",
    "scdh evaluate runs/digits --topk 1000 --denominator relevant --json",
    "scdh evaluate runs/shop --data /mnt/photos --remaining",
    "scdh evaluate --queries queries.codes --database database.codes --radius 3",
)


def evaluate(
    run: Annotated[Path | None, typer.Argument(help="Run folder that `scdh train` wrote.", show_default=False)] = None,
    queries: Annotated[Path | None, typer.Option(help="File of query codes, instead of a run.")] = None,
    database: Annotated[Path | None, typer.Option(help="File of codes to search.")] = None,
    part: Annotated[
        Literal["query", "validation"],
        typer.Option(help="Score the run's queries, or its validation rows among themselves."),
    ] = "query",
    network: From = None,
    data: MovedData = None,
    root: MovedRoot = None,
    remaining: Remaining = False,
    topk: Annotated[
        str | None, typer.Option(metavar="N|all", help="Only the first N items count (all; 5000 for nuswide21).")
    ] = None,
    denominator: Annotated[
        Literal["hits", "relevant", "min(k, relevant)"], typer.Option(help="What average precision is divided by.")
    ] = "hits",
    radius: Annotated[int, typer.Option(help="Radius in bits of the precision within a radius.")] = 2,
    ties: Annotated[
        Literal["expected", "best", "worst", "order"], typer.Option(help="How items at equal distance are ordered.")
    ] = "expected",
    leave_one_out: Annotated[
        bool,
        typer.Option(
            "--leave-one-out", metavar="", help="The two files are the same; leave each row out of its own ranking."
        ),
    ] = False,
    on_bad_image: Annotated[
        Literal["fail", "skip"] | None, typer.Option(help="For images that cannot be read (as in training).")
    ] = None,
    no_floats: NoFloats = False,
    no_outputs: Annotated[
        bool,
        typer.Option("--no-outputs", metavar="", help="Leave out the ranking by the queries' real outputs."),
    ] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Score codes: MAP with bounds for ties and an interval, precision within a radius, precision at k.

    The codes of a run's queries and database are stored in RUN/codes. RUN/scores.json gets the scores, their
    definitions, the settings and the split's fingerprint, RUN/per_query.npz the scores of every query. A run with a
    teacher is scored twice: the teacher in these files, its student in scores_student.json. The same codes are also
    ranked by the queries' real outputs (as `scdh search --rank outputs` does). The float vectors that the codes were
    made from (the features of a frozen network, or the embeddings) are scored too, by cosine with the same queries,
    items and definitions.

    A run on pairs (docs/pairs.md) uses labels for scoring only. Without labels, the distances of pairs with held-out
    items are scored.

    The interval of MAP is a bootstrap over queries. It does not cover other seeds, splits or databases.
    """
    use_device(device)
    options: dict[str, Any] = {"denominator": denominator, "radius": radius, "ties": ties}
    if run is not None:
        if queries is not None or database is not None or leave_one_out:
            raise ConfigError("A run has its own codes; leave out --queries, --database and --leave-one-out.")
        from scdh.runs.folder import RunFolder
        from scdh.runs.pair_scores import score_pairs
        from scdh.runs.run_data import open_run_data
        from scdh.runs.scoring import ScoreOptions, score_run

        folder = RunFolder(run)
        opened = open_run_data(folder, data, root, remaining=remaining)
        if not as_json:
            print_line(f"Split: {opened.protocol.describe()}.")
        source, rows = opened.source, opened.protocol.query
        if source.pairs is not None and (part == "validation" or not source.labelled[rows].any()):
            _print_pairs(score_pairs(folder, source, opened.protocol, part, network), as_json)
            return
        shared: dict[str, Any] = {
            "source": opened.source,
            "protocol": opened.protocol,
            "on_bad_image": on_bad_image,
        }
        definitions = ScoreOptions("usual" if topk is None else _read_topk(topk), **options)
        run_scores = score_run(
            folder,
            part,
            definitions,
            network=network,
            floats=not no_floats,
            outputs=not no_outputs,
            **shared,
        )
        content, scores = run_scores.to_dict(), run_scores.scores
        if network is None and folder.has_student:
            student = score_run(folder, part, definitions, network="student", **shared)
            content["student"] = student.to_dict()
        if content["definition"]["topk"] == 5000 and topk is None and not as_json:
            print_note(
                "MAP is over the first 5,000 items, as is usual for nuswide21; --topk all takes the whole ranking."
            )
    elif queries is None or database is None:
        raise ConfigError("Give a run folder, or both --queries and --database.")
    elif part != "query" or remaining or no_floats or no_outputs or any((on_bad_image, network, data, root)):
        raise ConfigError(
            "--part, --from, --data, --root, --remaining, --on-bad-image, --no-floats and --no-outputs are for runs, "
            "not for files of codes."
        )
    else:
        options |= {"topk": _read_topk(topk), "leave_one_out": leave_one_out}
        content, scores = _score_files(queries, database, options)
    if as_json:
        print_json(content)
    else:
        _print_scores(content, scores)


def _print_pairs(content: dict[str, Any], as_json: bool) -> None:
    """Scores of held-out pairs, for a run on pairs whose rows have no labels."""
    if as_json:
        return print_json(content)
    print_table(
        ("score", "value"),
        [
            ("AUC of distances", f"{content['auc']:.4f}"),
            ("mean distance, similar", f"{content['distance_similar']:.1f} of {content['bits']} bits"),
            ("mean distance, dissimilar", f"{content['distance_dissimilar']:.1f} of {content['bits']} bits"),
        ],
        title=f"{content['pairs']:,} pairs of held-out {content['part']} rows, {content['similar']:,} of them similar",
    )


def _score_files(queries: Path, database: Path, options: dict[str, Any]) -> tuple[dict[str, Any], "RankingScores"]:
    from scdh.codes.checks import check_same_model
    from scdh.data.row_names import label_union
    from scdh.evaluation import evaluate as score
    from scdh.runs.summary import caution, summarise

    query_codes, query_names = _load_labelled(queries)
    database_codes, database_names = _load_labelled(database)
    if query_codes.bits != database_codes.bits:
        raise CodesError(
            f"{queries} holds codes of {query_codes.bits} bits, but those of {database} have "
            f"{database_codes.bits} bits."
        )
    check_same_model(query_codes.metadata, database_codes.metadata, str(queries), str(database))
    label_names, multi = label_union([query_names, database_names])
    scores = score(
        query_codes,
        query_names.labels_among(label_names, multi),
        database_codes,
        database_names.labels_among(label_names, multi),
        progress=True,
        **options,
    )
    content = {"queries": str(queries), "database": str(database), **summarise(scores)}
    if (warned := caution(scores)) is not None:
        content["caution"] = warned
    if "l_q" in query_codes.metadata:
        content["l_q"] = float(query_codes.metadata["l_q"])
    return content, scores


def _load_labelled(path: Path) -> tuple["Codes", "RowNames"]:
    """Codes of a file and its labels."""
    from scdh.data.name_files import load_named_codes

    codes, row_names = load_named_codes(path)
    if row_names is None:
        raise DataError(f"The labels of {path} are missing: it holds codes only, as `Codes.save` writes them.")
    if not row_names.labelled:
        raise DataError(f"The rows of {path} have no labels, so nothing can be scored.")
    return codes, row_names


def _read_topk(text: str | None) -> int | None:
    if text is None or text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--topk must be a whole number of at least 1, or 'all', not {text!r}.")
    return int(text)


def _radius_rows(scores: "RankingScores") -> list[tuple[str, str, float]]:
    """Precision within a radius is defined for Hamming distances only."""
    from scdh.metrics.scores import Scores

    if not isinstance(scores, Scores):
        return []
    return [
        ("precision_at_radius", f"precision within radius {scores.definition['radius']}", scores.precision_at_radius),
        ("empty_balls", "share of queries with nothing in that radius", scores.empty_balls),
    ]


def _print_scores(content: dict[str, Any], scores: "RankingScores") -> None:
    definition, floats = scores.definition, content.get("floats")
    name = "MAP" if definition["topk"] is None else f"MAP@{definition['topk']}"
    rows = [
        ("map", f"{name}, ties {definition['ties']}", scores.map),
        ("map_best", f"{name}, best order of ties", scores.map_best),
        ("map_worst", f"{name}, worst order of ties", scores.map_worst),
        *_radius_rows(scores),
        *((k, f"precision@{k}", precision) for k, precision in content["precision_at_k"].items()),
    ]
    if "l_q" in content:
        rows.append(("l_q", "l_q of the query outputs", content["l_q"]))
    columns, cells = ["score", "value"], [[label, f"{value:.4f}"] for _, label, value in rows]
    others = {}
    if "outputs" in content:
        others["codes, query's outputs"] = content["outputs"]
    if floats is not None:
        others[f"{floats['width']:,} floats, cosine"] = floats
    if others:
        columns = ["score", "codes", *others]
        for other in others.values():
            values = {**other, **other["precision_at_k"]}
            for (key, _, _), line in zip(rows, cells, strict=True):
                line.append(f"{values[key]:.4f}" if key in values else "–")
        code_bytes = f"{-(-definition['bits'] // 8):,}" if "bits" in definition else "–"
        sizes = [f"{other['bytes']:,}" if "bytes" in other else code_bytes for other in others.values()]
        cells.insert(0, ["bytes per item", code_bytes, *sizes])
    intervals = [f"{low:.3f}–{high:.3f}" for low, high in (one["map_interval"] for one in (content, *others.values()))]
    cells.insert(len(cells) - len(rows) + 1, [f"{name}, 95 % interval over queries", *intervals])
    bits = f", {definition['bits']} bits" if "bits" in definition else ""
    title = f"{definition['queries']:,} queries, {definition['database']:,} items{bits}"
    print_table(columns, cells, title=title, right=columns[1:])
    if "nested" in content:
        every = {**content["nested"], str(definition["bits"]): content}
        lines = [
            [bits, f"{one['map']:.4f}", "{:.3f}–{:.3f}".format(*one["map_interval"])] for bits, one in every.items()
        ]
        print_table(["first bits", name, "95 % interval"], lines, title="Nested codes", right=[name, "95 % interval"])
    if "caution" in content:
        print_line(content["caution"])
    if "no_floats" in content:
        print_line(f"The float vectors behind these codes are not scored: {content['no_floats']}.")
    if "advice" in content:
        print_line(content["advice"])
    print_line(definition["words"])
    if "unlabelled_items" in content:
        count, items = content["unlabelled_items"], definition["database"]
        print_line(
            f"{count:,} of the {items:,} items have no label, so they count as wrong wherever they are found: compare "
            "these scores only with each other."
        )
    if "student" in content:
        both = (content, content["student"])
        maps = " and ".join(f"{network['map']:.4f}" for network in both)
        radius = definition.get("radius")
        precisions = " and ".join(f"{network['precision_at_radius']:.4f}" for network in both if radius is not None)
        within = "" if radius is None else f", precision within radius {radius} {precisions}"
        print_line(f"Teacher (above) and student: {name} {maps}{within}.")
    if "run" in content:
        print_line(f"Written to {Path(content['run']) / content['file']} and {content['per_query']}.")

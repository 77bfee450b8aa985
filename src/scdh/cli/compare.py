"""``scdh compare``: methods side by side, under one protocol, with one network and one budget."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from scdh.cli.options import ImageColumn, Json, LabelColumn, Labels, Root, data_settings
from scdh.cli.show import Stopped, document, remark, result, table
from scdh.errors import ConfigError

EXAMPLES = (
    "scdh compare scdh csq dsh itq lsh --preset demo-digits --bits 16,32 --out runs/compared",
    "scdh compare scdh mt_scdh --data photos/ --set data.labelled_per_class=10 --set train.epoch_steps=100",
    "scdh compare scdh dpsh --data vectors.npz --seconds 30 --set dpsh:train.lr_head=0.01",
    "scdh compare scdh csq --data vectors.npz --set data.validation_per_class=20 --tune train.lr_head=0.001,0.01",
)


def compare(
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="METHOD...", help="Names of `scdh methods`, or `all`.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Ready settings, as for `scdh train`.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; it goes over the preset.")] = None,
    data: Annotated[str | None, typer.Option(help="Data as for `scdh train`.")] = None,
    root: Root = None,
    image_column: ImageColumn = None,
    label_column: LabelColumn = None,
    labels: Labels = None,
    bits: Annotated[str, typer.Option(metavar="N,N...", help="Lengths of codes.")] = "12,24,32,48",
    seeds: Annotated[
        str, typer.Option(metavar="N,N...", help="Each decides split, first weights and order.")
    ] = "0,1,2",
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the labelled rows, the same for every method.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Equal training time for every method, instead of equal epochs.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="Tell the time to this validation MAP (default: what every run reaches).")
    ] = None,
    topk: Annotated[
        int | None, typer.Option(help="Only the first N items count for MAP (all; 5000 for nuswide21).")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="[METHOD:]KEY=VALUE", help="A setting of all runs, or of one method; repeatable."
        ),
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V,V...", help="Try these values for every method on validation rows; repeatable."),
    ] = None,
    feature_cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps a frozen network's features (OUT/features).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, tables, page and plots.")] = Path("runs/compare"),
    as_json: Json = False,
) -> None:
    """Compare methods: mean and deviation over seeds of MAP, precision within radius 2, and training time.

    Each run has a folder below OUT/cells; the same command after a stop goes on where it was, and started in two
    terminals (or on two machines with one disk) it shares the work. With a frozen network (net.freeze) its features
    are computed once for all runs. Nothing is chosen on queries: set data.validation_per_class for a best epoch, for
    the time to a validation MAP, and for --tune.
    """
    from scdh.cli.inputs import check_place
    from scdh.config import load_config
    from scdh.experiments.compare.grid import Grid, refuse_early, split_own
    from scdh.experiments.compare.page import write_page
    from scdh.experiments.compare.run import RESULTS, compare_methods
    from scdh.methods.registry import method_names
    from scdh.runs.protocol import source_of

    if preset is None and config is None and data is None:
        raise ConfigError("There is nothing to compare on: give --data, --preset or --config.")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise ConfigError(f"--seconds must be more than 0, not {seconds}.")
    if topk is not None and topk < 1:
        raise ConfigError(f"--topk must be at least 1, not {topk}.")
    if target is not None and not 0 < target <= 1:
        raise ConfigError(f"--target is a MAP, so more than 0 and at most 1, not {target}.")
    common, own = split_own(setting or [])
    chosen, given = data_settings(data, root, image_column, label_column, labels), _pairs(common)
    chosen |= {} if epochs is None else {"train.epochs": epochs}
    for key in chosen.keys() & given.keys():
        raise ConfigError(f"{key} is given twice, by an option and by --set; give it once.")
    chosen |= given
    if "train.epochs" in chosen and seconds is not None:
        raise ConfigError("The budget is either epochs or --seconds, not both.")
    for key in ("method.name", "method.bits", "seed"):
        if key in chosen:
            raise ConfigError(f"{key} differs from run to run; give methods, --bits and --seeds instead.")
    wanted = tuple(methods or ())
    if not wanted:
        raise ConfigError(f"Name the methods to compare, or all; there are {', '.join(method_names())}.")
    grid = Grid(
        tuple(method_names()) if wanted == ("all",) else wanted,
        _numbers(bits, "--bits"),
        _numbers(seeds, "--seeds", least=0),
        preset,
        config,
        chosen,
        {name: _pairs(pairs) for name, pairs in own.items()},
    ).check()
    tuned = _together(map(_values, tune or []), "--tune")
    source = source_of(load_config(preset, config, {**chosen, "method.name": grid.methods[0]}))
    if wanted == ("all",):
        grid = replace(grid, methods=tuple(name for name in grid.methods if _can_learn(name, source)))
    for name, length in product(grid.methods, grid.bits):  # what a method refuses must not wait for its turn
        refuse_early(grid.config(name, length, grid.seeds[0], source), source)
    check_place(out)
    try:
        found = compare_methods(
            grid,
            source,
            out,
            topk=topk,
            seconds=seconds,
            tuned=tuned,
            target=target,
            cache=feature_cache,
            say=remark,
        )
    except KeyboardInterrupt:
        raise Stopped(f"Stopped; the same command goes on where it was (runs are in {quote(str(out))})") from None
    written = [out / RESULTS, *write_page(found, out)]
    if as_json:
        document(found)
        return
    _print(found)
    result(f"Written: {', '.join(str(path) for path in written)}.")


def _print(found: dict[str, Any]) -> None:
    from scdh.experiments.compare.tables import blocks, score_words, seconds_words

    at, longest, radius = found["data"], max(found["bits"]), (found["definition"] or {}).get("radius", 2)
    to = "" if found["target"] is None else f"to {found['target']:.2f}"
    columns = ["method", *(f"{bits} bits" for bits in found["bits"]), f"radius {radius}", "training"]
    columns += [to] if to else []
    rows = []
    for block in blocks(found["rows"]):
        last = block.by.get(longest)
        times = [seconds_words(last, key) for key in ("seconds", "seconds_to_target")[: 2 if to else 1]]
        maps = [score_words(block.by.get(bits), "map") for bits in found["bits"]]
        rows.append((block.title, *maps, score_words(last, "precision_at_radius"), *times))
    about = (
        f"MAP on {at['name']}: {at['train']:,} labelled, {at['unlabelled']:,} unlabelled, {at['query']:,} queries, "
        f"{at['database']:,} items; mean ± deviation of {len(found['seeds'])} seeds"
    )
    table(columns, rows, title=about, right=columns[1:])
    result(f"Precision within radius {radius} and seconds of training are those of {longest} bits.")
    if to:
        result(f"The last column is the seconds of training until the validation MAP was {found['target']:.2f}.")
    for cell, sentence in found["failed"].items():
        result(f"{cell} failed: {sentence}")
    if found["missing"]:
        result(f"Not done yet: {', '.join(found['missing'])}.")


def _can_learn(name: str, source: Any) -> bool:
    """For `all`: methods that take such labels; another package's that does not load is left out with a word."""
    from scdh.experiments.compare.grid import takes_labels

    try:
        return takes_labels(name, source)
    except ConfigError as error:
        remark(f"Warning: {error}")
        return False


def _numbers(text: str, option: str, least: int = 1) -> tuple[int, ...]:
    try:
        values = tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ConfigError(f"{option} takes whole numbers joined by commas, such as 12,24, not {text!r}.") from None
    if min(values) < least:
        raise ConfigError(f"{option} takes numbers from {least} on, not {min(values)}.")
    return values


def _pairs(settings: Sequence[str]) -> dict[str, Any]:
    from scdh.config import split_override

    return _together(map(split_override, settings), "--set")


def _values(text: str) -> tuple[str, list[Any]]:
    from scdh.config import split_override

    key, equals, words = text.partition("=")
    if not equals or not all(word.strip() for word in (key, *words.split(","))):
        raise ConfigError(f"--tune looks like train.lr_head=0.001,0.01, not {text!r}.")
    return key.strip(), [split_override(f"value={word}")[1] for word in words.split(",")]


def _together(pairs: Iterable[tuple[str, Any]], option: str) -> dict[str, Any]:
    """As ``dict`` does, but of two values for one key none is dropped without a word."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigError(f"{key} is given twice by {option}; give it once.")
        found[key] = value
    return found

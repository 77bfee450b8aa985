"""``scdh compare``: compare methods under one protocol, with one network and one budget."""

from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scdh.cli.completion import complete_data, complete_method, complete_preset
from scdh.cli.options import (
    Device,
    ImageColumn,
    Json,
    LabelColumn,
    Labels,
    LabelSeparator,
    Root,
    VectorColumn,
    data_settings,
    merge_settings,
    read_numbers,
    read_settings,
    read_tuned_values,
    use_device,
)
from scdh.cli.output import Stopped, print_json, print_line, print_note, print_table
from scdh.errors import ConfigError
from scdh.printable import counted

if TYPE_CHECKING:
    from scdh.data.source import Source
    from scdh.experiments.compare.grid import Grid
    from scdh.experiments.compare.results import ComparisonResults

EXAMPLES = (
    "scdh compare scdh csq dsh itq lsh --preset demo-digits --bits 16,32 --out runs/compared",
    "scdh compare scdh mt_scdh --data photos/ --set data.labelled_per_class=10 --set train.epoch_steps=100",
    "scdh compare scdh dpsh --data vectors.npz --epochs 30 --set dpsh:train.lr_head=0.01",
    "scdh compare scdh dsh csq --data vectors.npz --tune grid",
    "scdh compare scdh csq --data vectors.npz --set data.validation_per_class=20 --tune train.lr_head=0.001,0.01",
)


def compare(
    methods: Annotated[
        list[str] | None,
        typer.Argument(metavar="METHOD...", help="Names of `scdh methods`, or `all`.", autocompletion=complete_method),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Ready settings, as for `scdh train`.", autocompletion=complete_preset)
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; it overrides the preset.")] = None,
    data: Annotated[str | None, typer.Option(help="Data as for `scdh train`.", autocompletion=complete_data)] = None,
    root: Root = None,
    image_column: ImageColumn = None,
    vector_column: VectorColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    labels: Labels = None,
    bits: Annotated[str, typer.Option(metavar="N,N...", help="Lengths of codes.")] = "12,24,32,48",
    seeds: Annotated[
        str, typer.Option(metavar="N,N...", help="Each sets the split, the initial weights and the order.")
    ] = "0,1,2",
    epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of every method; each has the steps of one pass over the labelled rows."),
    ] = None,
    target: Annotated[
        float | None,
        typer.Option(help="Report the time to this validation MAP (default: 95 % of the lowest method's best)."),
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
        typer.Option(
            metavar="grid|KEY=V,V...",
            help="Tune every method on validation rows: an equal number of trials over its own ranges (grid), "
            "or these values for all (repeatable).",
        ),
    ] = None,
    trials: Annotated[
        bool,
        typer.Option(
            "--trials/--no-trials", metavar="", help="Find a learning rate for each method, where none is set."
        ),
    ] = True,
    feature_cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps a frozen network's features (OUT/features).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for runs, tables, page and plots.")] = Path("runs/compare"),
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Compare methods: mean and deviation over seeds of MAP, precision within radius 2, and training time.

    Each run has a folder below OUT/cells. After a stop, the same command continues. Started in two terminals (or on two
    machines with a shared disk), the processes share the work. With a frozen network (net.freeze) its features are
    computed once for all runs. Nothing is chosen on queries: learning rates, the best epoch and values of --tune are
    chosen on validation rows (data.validation_per_class; by default a tenth of the training rows). Queries are scored
    once, when all runs are trained; later changes are reported on the page.
    """
    from scdh.cli.inputs import check_folder_writable
    from scdh.experiments.compare.grid import split_settings
    from scdh.experiments.compare.page import PAGE_PACKAGES, write_page
    from scdh.experiments.compare.results import RESULTS_FILE
    from scdh.experiments.compare.run import compare_methods
    from scdh.extras import lack_message, missing_packages
    from scdh.runs.protocol import source_of
    from scdh.training.processes import process_count

    if process_count() > 1:
        raise ConfigError(
            f"A comparison runs in one process, not in {process_count()}; start it without torchrun, and for more "
            "speed several times at once."
        )
    use_device(device)
    if preset is None and config is None and data is None:
        raise ConfigError("There is nothing to compare on: give --data, --preset or --config.")
    _check_ranges(topk, target)
    common, by_method = split_settings(setting or [])
    options = data_settings(
        data,
        root=root,
        image_column=image_column,
        vector_column=vector_column,
        label_column=label_column,
        label_separator=label_separator,
        labels=labels,
    )
    options |= {} if epochs is None else {"train.epochs": epochs}
    settings = merge_settings(options, read_settings(common))
    method_settings = {name: read_settings(texts) for name, texts in by_method.items()}
    _check_settings(settings)
    grid = _grid(methods or [], bits, seeds, preset, config, settings, method_settings)
    tuned = _tuned(tune or [])
    source = source_of(grid.config(grid.methods[0], grid.bits[0], grid.seeds[0], settings))
    if methods == ["all"]:
        grid = replace(grid, methods=tuple(name for name in grid.methods if _can_learn(name, source, grid)))
    grid.check_runs(source)
    for sentence in grid.left_out():
        print_note(sentence)
    check_folder_writable(out)
    if not as_json:
        print_line(f"Split: {grid.split(source, grid.seeds[0]).protocol.describe()}.")
    if missing := missing_packages(*PAGE_PACKAGES):  # reported before a long comparison, not after it
        print_note(f"Warning: {lack_message('The page with plots, which is left out,', *missing)}")
    try:
        results = compare_methods(
            grid,
            source,
            out,
            topk=topk,
            tuned=tuned,
            target=target,
            cache=feature_cache,
            find_rates=trials,
            notify=print_note,
        )
    except KeyboardInterrupt:
        raise Stopped(f"Stopped; the same command continues (runs are in {quote(str(out))})") from None
    written = [out / RESULTS_FILE, *write_page(results, out)]
    if as_json:
        print_json(results.to_json())
        return
    _print_results(results)
    print_line(f"Written: {', '.join(str(path) for path in written)}.")


def _check_ranges(topk: int | None, target: float | None) -> None:
    if topk is not None and topk < 1:
        raise ConfigError(f"--topk must be at least 1, not {topk}.")
    if target is not None and not 0 < target <= 1:
        raise ConfigError(f"--target is a MAP, so more than 0 and at most 1, not {target}.")


def _tuned(texts: list[str]) -> "dict[str, list[Any]] | Literal['grid']":
    if "grid" not in texts:
        return read_tuned_values(texts)
    if len(texts) > 1:
        raise ConfigError("--tune grid cannot be combined with values: give one or the other.")
    return "grid"


def _check_settings(settings: dict[str, Any]) -> None:
    for key in ("method.name", "method.bits", "seed"):
        if key in settings:
            raise ConfigError(f"{key} differs from run to run; give methods, --bits and --seeds instead.")


def _grid(methods: list[str], bits: str, seeds: str, *settings: Any) -> "Grid":
    from scdh.experiments.compare.grid import Grid
    from scdh.methods.registry import method_names

    if not methods:
        raise ConfigError(f"Name the methods to compare, or all; there are {', '.join(method_names())}.")
    names = method_names() if methods == ["all"] else methods
    return Grid(tuple(names), read_numbers(bits, "--bits"), read_numbers(seeds, "--seeds", least=0), *settings).check()


def _can_learn(name: str, source: "Source", grid: "Grid") -> bool:
    """For `all`: the methods that take such labels. Those that do not load or have none of the lengths are left out
    with a warning.
    """
    from scdh.experiments.compare.grid import takes_labels
    from scdh.methods.registry import make_method

    try:
        if not takes_labels(name, source):
            return False
        for length in grid.bits_of(name) or grid.bits:
            make_method(name, {}, length, source.num_classes, source.multi_label)
        return True
    except ConfigError as error:
        print_note(f"Warning: {error}")
        return False


def _print_results(results: "ComparisonResults") -> None:
    from scdh.experiments.compare.tables import (
        conditions_table,
        difference_from_training,
        format_floats,
        format_score,
        has_best_epochs,
        rows_by_method,
    )

    data, longest = results.data, max(results.bits)
    last = ["last epoch"] if has_best_epochs(results) else []
    scores_of_longest = ("precision_at_radius", "precision_at_10")
    columns = ["method", *(f"{bits} bits" for bits in results.bits), *last, f"radius {results.radius}", "first 10"]
    lines = []
    for method in rows_by_method(results.rows):
        scores = [format_score(method.by_bits.get(bits), "map") for bits in results.bits]
        scores += [format_score(method.by_bits.get(longest), "map_last")] if last else []
        scores += [format_score(method.by_bits.get(longest), score) for score in scores_of_longest]
        lines.append((method.title, *scores))
    if results.floats is not None:
        rest = [*["–"] * (len(columns) - 2 - len(results.bits)), format_floats(results, "precision_at_10")]
        lines.append((results.floats.title, *[format_floats(results)] * len(results.bits), *rest))
    title = (
        f"MAP on {data.name}: {data.train:,} labelled, {data.unlabelled:,} unlabelled, {data.query:,} queries, "
        f"{data.database:,} items; mean ± deviation of {counted(len(results.seeds), 'seed')}"
    )
    print_table(columns, lines, title=title, right=columns[1:])
    with_last = "MAP with the last epoch's model instead of the best on validation rows, and precision" if last else ""
    print_line(f"{with_last or 'Precision'} within radius {results.radius} and of the first 10: at {longest} bits.")
    if (difference := difference_from_training(results)) is not None:
        print_line(difference)
    had = conditions_table(results)
    print_table(had.columns, had.lines, title=had.title, right=had.columns[1:-1])
    print_line(had.note)
    for sentence in results.changed_after_scoring:
        print_line(f"Changed after queries were scored: {sentence}")
    for cell, message in results.failed.items():
        print_line(f"{cell} failed: {message}")
    if results.missing:
        first, others = results.missing[:6], len(results.missing) - 6
        print_line(f"Not done yet: {', '.join(first)}{f' and {others} more runs' if others > 0 else ''}.")

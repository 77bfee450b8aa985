"""``scdh train``: train on labelled data, and write a run folder with a model."""

import re
import time
from dataclasses import asdict
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scdh.cli.chosen import print_alpha_advice, print_found, print_plan, print_settings
from scdh.cli.completion import complete_data, complete_method, complete_preset
from scdh.cli.options import (
    Device,
    IdColumn,
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
    use_device,
)
from scdh.cli.output import Stopped, join_training, print_json, print_line, split_json

if TYPE_CHECKING:
    from scdh.config import RunConfig
    from scdh.model.hasher import Hasher
    from scdh.training.plan import Plan

EXAMPLES = (
    "scdh train --preset demo-digits --epochs 5 --out runs/digits",
    "scdh train --data photos/ --bits 32 --out runs/shop",
    "scdh train --data photos/ --bits 12,24,48",
    "scdh train --data photos/ --set net.freeze=false --set train.batch_size=32",
    "scdh train --data vectors.npz --bits 64 --show-config",
    "scdh train --data items.parquet --vector-column embedding --method itq --bits 64",
    'scdh train --data photos.csv --label-column tags --label-separator ","',
    "scdh train --data photos/ --pairs pairs.csv --out runs/pairs",
    "scdh train --resume --out runs/digits",
)


def train(
    preset: Annotated[
        str | None,
        typer.Option(
            help="Ready settings: demo-digits, demo-groceries, cifar10-lite0, cifar10-frozen, cifar10, nuswide21, "
            "imagenet1k.",
            autocompletion=complete_preset,
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; it overrides the preset.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Name of `scdh datasets`, folder, .parquet/.csv/.npy/.npz, or hf:owner/name.",
            autocompletion=complete_data,
        ),
    ] = None,
    root: Root = None,
    image_column: ImageColumn = None,
    vector_column: VectorColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    id_column: IdColumn = None,
    labels: Labels = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Table of pairs (columns a, b, similar) to learn from in place of labels.", show_default=False
        ),
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="Name of `scdh methods` (scdh).", autocompletion=complete_method)
    ] = None,
    bits: Annotated[
        str | None,
        typer.Option(
            metavar="N[,N...]",
            help="Length of the codes (32). Several: nested codes of the largest, whose first bits are good codes too.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Sets the split, the initial weights and the order (0).")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the data (found by trials, or from the number of rows).")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as train.lr_head=0.01; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder (default: below runs/, named after data, method, bits and seed).")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", metavar="", help="Continue the run in --out.")] = False,
    on_bad_image: Annotated[
        Literal["fail", "skip"] | None, typer.Option(help="What to do with an image that cannot be read (fail).")
    ] = None,
    feature_cache: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps a frozen network's features for other runs (see `scdh cache`)."),
    ] = None,
    trials: Annotated[
        bool,
        typer.Option(
            "--trials/--no-trials",
            metavar="",
            help="Find learning rate, epochs and α by short runs, if they are not given.",
        ),
    ] = True,
    refit: Annotated[
        bool, typer.Option("--refit", metavar="", help="With the settings found, train on the validation rows too.")
    ] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", metavar="", help="Print all settings as TOML, with reasons, and exit.")
    ] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Learn codes from labelled images or embeddings.

    Settings come from the defaults, --preset, --config and the options here; later ones win. Without preset and file
    some depend on the data; --show-config shows which, and lists the keys of --set (`scdh methods NAME`: a method's
    own). Settings, split, logs, the last epoch's checkpoint and the model go into the run folder. Several processes:
    `torchrun --nproc_per_node 2 -m scdh train ...`.
    """
    from scdh.config import length_settings, load_config

    use_device(device)
    options = {
        **data_settings(
            data,
            root=root,
            image_column=image_column,
            vector_column=vector_column,
            label_column=label_column,
            label_separator=label_separator,
            id_column=id_column,
            labels=labels,
            pairs=pairs,
        ),
        "data.on_bad_image": on_bad_image,
        "method.name": method,
        **({} if bits is None else length_settings(read_numbers(bits, "--bits"))),
        "seed": seed,
        "train.epochs": epochs,
    }
    given = {key: value for key, value in options.items() if value is not None}
    settings = merge_settings(given, read_settings(setting or []))
    from scdh.runs.folder import RunFolder
    from scdh.training.plan import plan_run
    from scdh.training.processes import is_first_process

    resumed = out if resume else None
    if out is not None and not show_config:
        if is_first_process():  # which holds the folder for the others
            RunFolder(out).check_idle()
        RunFolder(out).reject_earlier_run(resume=resume)
    run_config = load_config(preset, config, settings)
    plan = plan_run(run_config, resumed=resumed, trials=trials, refit=refit, feature_cache=feature_cache, quiet=as_json)
    if show_config:
        print_settings(plan, as_json)
        return
    join_training()
    folder = out or default_folder(plan.config)
    if out is None:
        RunFolder(folder).reject_earlier_run(resume=resume)
    if not as_json:
        print_plan(plan, folder)
    started = time.perf_counter()
    model = _run(plan, folder, resume, feature_cache, as_json)
    seconds = time.perf_counter() - started
    if as_json:
        print_json(
            {
                "run": str(folder),
                "model": str(RunFolder(folder).model),
                "bits": model.bits,
                "labels": len(model.label_names),
                "seconds": round(seconds, 3),
                "info": model.info,
                **split_json(plan.protocol),
                "choices": [] if plan.choices is None else [asdict(choice) for choice in plan.choices.made],
                "config": plan.config.model_dump(mode="json"),
            }
        )
        return
    learned = f"{len(model.label_names) or 'no'} {'labels' if plan.source.pairs is None else 'clusters of pairs'}"
    size = f"{model.bits} bits, {'pairs' if model.method.pairs is not None else learned}"
    print_line(f"The model is in {RunFolder(folder).model} ({size}, {seconds:.1f} s).")
    print_alpha_advice(model, plan.choices)
    print_line("Next:")
    for command in _next_commands(plan.config, folder, model.method.ranking, bool(len(plan.protocol.query))):
        print_line(f"  {command}")


def _run(plan: "Plan", folder: Path, resume: bool, feature_cache: Path | None, as_json: bool) -> "Hasher":
    """The model; what was found by trials is printed as soon as it is known."""
    from scdh.cli.inputs import check_folder_writable
    from scdh.runs.folder import RunFolder
    from scdh.training.run import run_plan

    check_folder_writable(folder)
    has_trials = not plan.is_settled
    try:
        return run_plan(
            plan,
            folder,
            resume=resume,
            feature_cache=feature_cache,
            after_trials=print_found if has_trials and not as_json else None,
        )
    except KeyboardInterrupt:
        if RunFolder(folder).checkpoint.exists() or RunFolder(folder).choices_file.exists():
            raise Stopped(f"Stopped; `scdh train --resume --out {quote(str(folder))}` goes on") from None
        raise Stopped(f"Stopped before the first epoch was done, so {folder} holds nothing to resume") from None


def default_folder(run: "RunConfig") -> Path:
    """``runs/<data>-<method>-<bits>bit-seed<seed>``."""
    source = Path(run.data.source.removeprefix("hf:"))
    name = source.name if source.suffix == "" or source.is_dir() else source.stem
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data"
    return Path("runs") / f"{plain}-{run.method.name}-{run.method.bits}bit-seed{run.seed}"


def _next_commands(run: "RunConfig", folder: Path, ranking: str, has_queries: bool) -> list[str]:
    """The next commands, ready for a shell: names with spaces are quoted, and data have the same options."""
    from scdh.codes import HAMMING
    from scdh.runs.data_paths import data_options

    data = run.data
    given = data_options(data.model_dump())
    codes, index = str(folder / "all.codes"), str(folder / "all.index")
    commands = [
        *([["evaluate", str(folder)]] if has_queries else []),
        ["report", str(folder)],
        ["encode", str(folder), data.source, *given, "--out", codes],
        ["index", codes, "--out", index],
        # A distance of the method's own is computed by the model.
        ["search", index, *([] if ranking == HAMMING else ["--model", str(folder)]), "--row", "0"],
    ]
    return [join(["scdh", *parts]) for parts in commands]

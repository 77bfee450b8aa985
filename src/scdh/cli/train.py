"""``scdh train``: from labelled data to a run folder with a model in it."""

import re
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scdh.cli.chosen import choices_of, print_alpha_advice, print_found, print_plan, print_settings
from scdh.cli.completion import complete_data, complete_method, complete_preset
from scdh.cli.next_commands import next_commands
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
    read_settings,
    use_device,
)
from scdh.cli.output import Stopped, join_training, print_json, print_line
from scdh.cli.split_counts import print_split, split_json
from scdh.errors import ConfigError

if TYPE_CHECKING:
    from scdh.config import RunConfig
    from scdh.data.source import Source
    from scdh.hasher import Hasher
    from scdh.training.plan import Plan

EXAMPLES = (
    "scdh train --preset demo-digits --epochs 5 --out runs/digits",
    "scdh train --data photos/ --bits 32 --out runs/shop",
    "scdh train --data photos/ --set net.freeze=false --set train.batch_size=32",
    "scdh train --data vectors.npz --bits 64 --show-config",
    "scdh train --data items.parquet --vector-column embedding --method itq --bits 64",
    'scdh train --data photos.csv --label-column tags --label-separator ","',
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
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; it goes over the preset.")] = None,
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
    method: Annotated[
        str | None, typer.Option(help="Name of `scdh methods` (scdh).", autocompletion=complete_method)
    ] = None,
    bits: Annotated[int | None, typer.Option(help="Length of the codes (48).")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides split, first weights and order (0).")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Times that training goes through the data (found by trials, else by rows).")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, such as train.lr_head=0.01; repeatable."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; by default one below runs/, named after data, method, bits, seed.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", metavar="", help="Go on with the run in --out.")] = False,
    on_bad_image: Annotated[
        Literal["fail", "skip"] | None, typer.Option(help="What to do with an image that cannot be read (fail).")
    ] = None,
    feature_cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps a frozen network's features for other runs.")
    ] = None,
    trials: Annotated[
        bool,
        typer.Option(
            "--trials/--no-trials",
            metavar="",
            help="Find learning rate, epochs and α by short runs, where they are not given.",
        ),
    ] = True,
    refit: Annotated[
        bool, typer.Option("--refit", metavar="", help="With the settings found, train on the validation rows too.")
    ] = False,
    show_config: Annotated[
        bool, typer.Option("--show-config", metavar="", help="Print all settings as TOML, with reasons, and end.")
    ] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Learn codes from labelled images or embeddings.

    Settings are the defaults, then --preset, then --config, then the options here. Without preset and file the data
    decides some; --show-config says which, and lists the keys of --set (`scdh methods NAME`: a method's own).
    Settings, split, logs, the last epoch's checkpoint and the model go into the run folder. Several processes:
    `torchrun --nproc_per_node 2 -m scdh train ...`.
    """
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
        ),
        "data.on_bad_image": on_bad_image,
        "method.name": method,
        "method.bits": bits,
        "seed": seed,
        "train.epochs": epochs,
    }
    given = {key: value for key, value in options.items() if value is not None}
    settings = merge_settings(given, read_settings(setting or []))
    from scdh.runs.folder import RunFolder

    run, plan = _resolve(preset, config, settings, out if resume else None, trials, refit)
    if show_config:
        print_settings(
            run if plan is None else plan.choices.final(), choices_of(plan, out if resume else None), as_json
        )
        return
    join_training()
    folder = out or default_folder(run)
    if not as_json:
        print_line(
            f"Training {run.method.name} with {run.method.bits} bits on {run.data.source} "
            f"({run.net.backbone}, {_duration(run, plan)}seed {run.seed}) in {folder}."
        )
    source, split = print_split(run, None if plan is None else plan.source, quiet=as_json)
    if not as_json:
        print_plan(plan)
    model, run, seconds = _train(run, plan, source, folder, resume, feature_cache, as_json)
    if as_json:
        choices = choices_of(plan, folder)
        print_json(
            {
                "run": str(folder),
                "model": str(RunFolder(folder).model),
                "bits": model.bits,
                "labels": len(model.label_names),
                "seconds": round(seconds, 3),
                "info": model.info,
                **split_json(RunFolder(folder).protocol(source)),  # with --refit other rows than before the trials
                "choices": [] if choices is None else [asdict(choice) for choice in choices.made],
                "config": run.model_dump(mode="json"),
            }
        )
        return
    size = f"{model.bits} bits, {len(model.label_names) or 'no'} labels"
    print_line(f"The model is in {RunFolder(folder).model} ({size}, {seconds:.1f} s).")
    print_alpha_advice(model, choices_of(plan, folder))
    print_line("Next:")
    for command in next_commands(run, folder, model.method.ranking, bool(split["split_counts"]["query"])):
        print_line(f"  {command}")


def _train(
    run: "RunConfig",
    plan: "Plan | None",
    source: "Source",
    folder: Path,
    resume: bool,
    feature_cache: Path | None,
    as_json: bool,
) -> "tuple[Hasher, RunConfig, float]":
    """The model, the settings it was trained with, and how many seconds it took to find these and to train."""
    from scdh.cli.inputs import check_folder_writable
    from scdh.runs.folder import RunFolder
    from scdh.training.run import train as train_run

    check_folder_writable(folder)
    started = time.perf_counter()
    try:
        if plan is not None:
            RunFolder(folder).refuse_earlier_run(resume=resume)
            run = plan.finish(folder, feature_cache)
            print_found(plan, as_json)
        elif not resume:
            RunFolder(folder).choices_file.unlink(missing_ok=True)  # of a run that was stopped in its trials
        model = train_run(run, folder, resume=resume, feature_cache=feature_cache, source=source)
    except KeyboardInterrupt:
        if RunFolder(folder).checkpoint.exists() or RunFolder(folder).choices_file.exists():
            raise Stopped(f"Stopped; `scdh train --resume --out {quote(str(folder))}` goes on") from None
        raise Stopped(f"Stopped before the first epoch was done, so {folder} holds nothing to resume") from None
    return model, run, time.perf_counter() - started


def _duration(run: "RunConfig", plan: "Plan | None") -> str:
    from scdh.methods.declared import declared

    if plan is not None and "train.epochs" in plan.choices.to_try:
        return ""
    return f"{run.train.epochs} epochs, " if declared(run.method.name).learns_by_gradient else ""


def _resolve(
    preset: str | None, file: Path | None, given: Mapping[str, Any], resumed: Path | None, trials: bool, refit: bool
) -> "tuple[RunConfig, Plan | None]":
    """The settings of the run and, where neither preset, file nor an earlier run gives them, the plan they are of."""
    from scdh.config import load_config

    refitted = {"data.train_on_validation": True} if refit else {}
    if preset is not None or file is not None:
        return load_config(preset, file, {**given, **refitted}), None
    from scdh.training.plan import plan_run

    if resumed is not None:
        plan = _stopped_plan(resumed, given)
        if plan is not None:
            plan.choices.refit |= refit
            return plan.config, plan
        saved = _saved_settings(resumed)
        if refit and not saved.get("data.train_on_validation"):
            raise ConfigError(
                f"--refit makes a run of its own, and {str(resumed)!r} holds one without it; give another --out."
            )
        return load_config(overrides={**saved, **given}), None
    if "data.source" not in given:
        raise ConfigError("There is nothing to train on: give --data, --preset or --config (or --resume with --out).")
    plan = plan_run(given, trials=trials, refit=refit)
    return plan.config, plan


def _stopped_plan(folder: Path, given: Mapping[str, Any]) -> "Plan | None":
    """The plan of a run that was stopped while it tried settings, before it had any."""
    from scdh.runs.folder import RunFolder
    from scdh.training.plan import resumed_plan

    plan = resumed_plan(folder) if RunFolder(folder).is_in_trials else None
    if plan is not None and given:
        raise ConfigError(f"The run in {str(folder)!r} was stopped while it tried settings; resume it without others.")
    return plan


def _saved_settings(folder: Path) -> dict[str, Any]:
    """Settings by dotted key that a run was started with."""
    from scdh.runs.choices import flat_settings
    from scdh.runs.folder import RunFolder

    run = RunFolder(folder)
    if not run.config_file.exists():
        raise ConfigError(f"There is no run in {str(folder)!r} to resume: it holds no {run.config_file.name}.")
    return flat_settings(run.saved_settings())


def default_folder(run: "RunConfig") -> Path:
    """``runs/<data>-<method>-<bits>bit-seed<seed>``."""
    source = Path(run.data.source.removeprefix("hf:"))
    name = source.name if source.suffix == "" or source.is_dir() else source.stem
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data"
    return Path("runs") / f"{plain}-{run.method.name}-{run.method.bits}bit-seed{run.seed}"

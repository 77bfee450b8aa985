"""``scdh train``: from labelled data to a run folder with a model in it."""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scdh.cli.completion import complete_data, complete_method, complete_preset
from scdh.cli.options import (
    Device,
    ImageColumn,
    Json,
    LabelColumn,
    Labels,
    Root,
    data_settings,
    merge_settings,
    read_settings,
    use_device,
)
from scdh.cli.output import Stopped, print_json, print_line
from scdh.errors import ConfigError

if TYPE_CHECKING:
    from scdh.config import RunConfig
    from scdh.data.source import Source

EXAMPLES = (
    "scdh train --preset demo-digits --epochs 5 --out runs/digits",
    "scdh train --data photos/ --bits 32 --out runs/shop",
    "scdh train --data photos/ --set net.freeze=false --set train.batch_size=32",
    "scdh train --data vectors.npz --bits 64 --show-config",
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
    label_column: LabelColumn = None,
    labels: Labels = None,
    method: Annotated[
        str | None, typer.Option(help="Name of `scdh methods` (scdh).", autocompletion=complete_method)
    ] = None,
    bits: Annotated[int | None, typer.Option(help="Length of the codes (48).")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides split, first weights and order (0).")] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Times that training goes through the data (images: 60, embeddings: 30).")
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
    show_config: Annotated[
        bool, typer.Option("--show-config", metavar="", help="Print all settings as TOML and end.")
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
        **data_settings(data, root, image_column, label_column, labels),
        "data.on_bad_image": on_bad_image,
        "method.name": method,
        "method.bits": bits,
        "seed": seed,
        "train.epochs": epochs,
    }
    given = {key: value for key, value in options.items() if value is not None}
    settings = merge_settings(given, read_settings(setting or []))
    run, source, note = _resolve(preset, config, settings, out if resume else None)
    if show_config:
        toml = (f"# {note}\n" if note else "") + to_toml(run)
        print_json(run.model_dump(mode="json")) if as_json else print_line(toml)
        return
    folder = out or default_folder(run)
    if not as_json:
        print_line(
            f"Training {run.method.name} with {run.method.bits} bits on {run.data.source} "
            f"({run.net.backbone}, {_duration(run)}seed {run.seed}) in {folder}. {note}".rstrip()
        )
    _train(run, source, folder, resume, feature_cache, as_json)


def _train(
    run: "RunConfig",
    source: "Source | None",
    folder: Path,
    resume: bool,
    feature_cache: Path | None,
    as_json: bool,
) -> None:
    from scdh.cli.inputs import check_folder_writable
    from scdh.runs.folder import RunFolder
    from scdh.training.run import train as train_run

    check_folder_writable(folder)
    started = time.perf_counter()
    try:
        model = train_run(run, folder, resume=resume, feature_cache=feature_cache, source=source)
    except KeyboardInterrupt:
        if RunFolder(folder).checkpoint.exists():
            raise Stopped(f"Stopped; `scdh train --resume --out {quote(str(folder))}` goes on") from None
        raise Stopped(f"Stopped before the first epoch was done, so {folder} holds nothing to resume") from None
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
                "config": run.model_dump(mode="json"),
            }
        )
        return
    size = f"{model.bits} bits, {len(model.label_names)} labels"
    print_line(f"The model is in {RunFolder(folder).model} ({size}, {seconds:.1f} s).")
    print_line("Next:")
    for command in _next_commands(run, folder, model.method.ranking):
        print_line(f"  {command}")


def _duration(run: "RunConfig") -> str:
    from scdh.methods.declared import declared

    return f"{run.train.epochs} epochs, " if declared(run.method.name).learns_by_gradient else ""


def _next_commands(run: "RunConfig", folder: Path, ranking: str) -> list[str]:
    """Commands to go on with, ready for a shell: names with spaces are quoted, and data have the same options."""
    from scdh.codes import HAMMING

    data = run.data
    options = {
        "--root": data.root,
        "--image-column": data.image_column,
        "--label-column": data.label_column,
        "--labels": data.labels,
        "--on-bad-image": "skip" if data.on_bad_image == "skip" else None,
    }
    given = [part for option, value in options.items() if value is not None for part in (option, value)]
    codes, index = str(folder / "all.codes"), str(folder / "all.index")
    commands = [] if data.split == "all" else [["evaluate", str(folder)]]
    commands += [
        ["encode", str(folder), data.source, *given, "--out", codes],
        *([] if ranking != HAMMING else [["index", codes, "--out", index], ["search", index, "--row", "0"]]),
    ]
    return [join(["scdh", *parts]) for parts in commands]


def _resolve(
    preset: str | None, file: Path | None, given: Mapping[str, Any], resumed: Path | None
) -> tuple["RunConfig", "Source | None", str]:
    """The settings of the run, its data where they had to be opened, and a note on settings chosen to suit them.

    Settings that are not given are those of the preset and the file, or of the run to resume, or suit the data.
    """
    from scdh.config import load_config

    if preset is not None or file is not None:
        return load_config(preset, file, given), None, ""
    if resumed is not None:
        return load_config(overrides={**_saved_settings(resumed), **given}), None, ""
    if "data.source" not in given:
        raise ConfigError("There is nothing to train on: give --data, --preset or --config (or --resume with --out).")
    from scdh.runs.protocol import source_of
    from scdh.training.defaults import suited_settings

    run = load_config(overrides=given)
    source = source_of(run)
    chosen = suited_settings(run, source, given)
    if not chosen:
        return run, source, ""
    values = ", ".join(f"{key}={_toml_value(value)}" for key, value in chosen.items())
    kind = "embeddings" if source.kind == "features" else "images"
    note = f"{source.name} holds {kind}, so these were chosen: {values} (change any with --set)."
    if "data.split" in chosen:
        note += " A class of a single row cannot both train and be a query, so there are no queries to evaluate with."
    return load_config(overrides={**chosen, **given}), source, note


def _saved_settings(folder: Path) -> dict[str, Any]:
    """Settings by dotted key that a run was started with."""
    from scdh.runs.folder import RunFolder

    run = RunFolder(folder)
    if not run.config_file.exists():
        raise ConfigError(f"There is no run in {str(folder)!r} to resume: it holds no {run.config_file.name}.")
    saved = run.saved_settings()
    settings = {key: value for key, value in saved.items() if not isinstance(value, dict)}
    for group, values in saved.items():
        if isinstance(values, dict):
            settings |= {f"{group}.{key}": value for key, value in values.items()}
    return settings


def default_folder(run: "RunConfig") -> Path:
    """``runs/<data>-<method>-<bits>bit-seed<seed>``."""
    source = Path(run.data.source.removeprefix("hf:"))
    name = source.name if source.suffix == "" or source.is_dir() else source.stem
    plain = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "data"
    return Path("runs") / f"{plain}-{run.method.name}-{run.method.bits}bit-seed{run.seed}"


def to_toml(run: "RunConfig") -> str:
    """All settings, readable by ``--config`` again; "none" has no form in TOML and becomes a comment."""
    values = run.model_dump(mode="json")
    lines = [_toml_line(key, value) for key, value in values.items() if not isinstance(value, dict)]
    for group, inner in values.items():
        if isinstance(inner, dict):
            lines += ["", f"[{group}]", *(_toml_line(key, value) for key, value in inner.items())]
    return "\n".join(lines)


def _toml_line(key: str, value: Any) -> str:
    return f"# {key} is not set" if value is None else f"{key} = {_toml_value(value)}"


def _toml_value(value: Any) -> str:
    """Strings, numbers, truth values and lists of them are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)

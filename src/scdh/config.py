"""One validated description of a run: TOML presets and files, overridden key by key; unknown keys are refused.

A preset or file holds only what differs from the defaults below. Defaults are the paper's CIFAR-10 setting where the
paper gives a value.
"""

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from scdh.errors import ConfigError, unknown_name


class Settings(BaseModel):
    """A group of settings that refuses unknown keys and cannot be changed after it was checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(Settings):
    """Where items and labels come from, and how they are split (see :mod:`scdh.data`)."""

    source: str = Field("digits", description="built-in name, folder, .parquet/.csv/.npy/.npz path, or hf:owner/name")
    root: str | None = Field(None, description="folder that holds a named benchmark")
    image_column: str | None = None
    vector_column: str | None = Field(None, description="column of a table that holds embeddings")
    label_column: str | None = Field(None, description="one column, or several joined by commas (many labels)")
    label_separator: str = Field(
        "auto", min_length=1, description="between several labels in one cell of text; none: a cell is one label"
    )
    id_column: str | None = Field(None, description="column of a table that says what rows are called in results")
    labels: str | None = Field(None, description=".npy file with the labels of a .npy embedding file")
    split: Literal["auto", "draw", "given", "all"] = Field(
        "auto", description="auto, draw (by seed), given (the data's own parts), or all (every row trains, no queries)"
    )
    train: str = Field("train", description="name of the training part when the data has its own split")
    query: str = Field("test", description="name of the query part when the data has its own split")
    query_per_class: int = Field(100, ge=1)
    train_per_class: int | None = Field(None, ge=1, description="none: every labelled database item trains")
    labelled_per_class: int | None = Field(
        None,
        ge=1,
        description="how many training rows of a class keep their label; the others train without one, where the "
        "method learns from unlabelled rows",
    )
    validation_per_class: int = Field(0, ge=0, description="held out of the training items; 0: no validation")
    on_bad_image: Literal["fail", "skip"] = "fail"

    @field_validator("label_separator", mode="before")
    @classmethod
    def _read_none_as_name(cls, value: Any) -> Any:
        return "none" if value is None else value  # in an override "none" means no value; here cells stay whole


class NetSettings(Settings):
    """The trunk below the hash layer (see :mod:`scdh.nets`)."""

    backbone: str = "efficientnet_lite0"
    pretrained: bool = True
    image_size: int | None = Field(None, ge=8, description="none: the backbone's own")
    evaluation_size: int | None = Field(
        None, ge=8, description="size for validation and codes; somewhat above image_size fits random crops"
    )
    hidden: list[Annotated[int, Field(ge=1)]] = Field(
        [], description="widths of learned layers between backbone (or embeddings) and heads; empty: none"
    )
    dropout: float | None = Field(
        None, ge=0, lt=1, description="in the trunk and after each hidden layer; none: the backbone's own"
    )
    drop_path: float | None = Field(None, ge=0, lt=1, description="none: the backbone's own")
    frozen_batch_norm: bool = Field(False, description="keep the trunk's batch-norm statistics as pretrained")
    freeze: bool = Field(False, description="train only the heads, on cached features of the trunk")
    views: int = Field(4, ge=1, description="augmented copies of each item to cache when the trunk is frozen")

    @model_validator(mode="after")
    def _check_sizes(self) -> "NetSettings":
        if self.evaluation_size is not None and self.image_size is None:
            raise ConfigError("net.evaluation_size needs net.image_size beside it.")
        return self

    @model_validator(mode="after")
    def _check_frozen_trunk(self) -> "NetSettings":
        for key in ("dropout", "drop_path"):
            if self.freeze and getattr(self, key) is not None and not (key == "dropout" and self.hidden):
                raise ConfigError(
                    f"net.{key} acts inside the trunk, which net.freeze leaves unchanged; set one of them."
                )
        return self


class TrainSettings(Settings):
    """The loop. The paper: SGD, momentum 0.9, lr 0.001 before fc7's output and 0.01 after, ×0.2 at the steps."""

    epochs: int = Field(160, ge=1)
    batch_size: int = Field(128, ge=1, description="over all processes together")
    optimiser: Literal["sgd", "adamw"] = "sgd"
    lr_trunk: float = Field(0.001, ge=0)
    lr_head: float = Field(0.01, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="of SGD; AdamW's first beta")
    weight_decay: float = Field(5e-4, ge=0)
    schedule: Literal["constant", "step", "cosine"] = "step"
    lr_steps: list[int] = Field([100, 140], description="epochs after which the step schedule lowers the rate")
    lr_factor: float = Field(0.2, gt=0, le=1)
    lr_warm_up: float = Field(0.0, ge=0, description="epochs of linear rise of the learning rate from 0")
    clip_norm: float | None = Field(None, gt=0)
    ema: float = Field(0.0, ge=0, lt=1, description="decay of averaged weights used for validation and codes; 0: off")
    recalibrate: bool = Field(False, description="at the end, measure batch-norm statistics anew on whole images")
    precision: Literal["auto", "fp32", "bf16", "fp16"] = Field("auto", description="auto: mixed where there is a GPU")
    augmentation: str = "crop"
    balanced: bool = Field(False, description="draw every class equally often")
    labelled_share: float = Field(
        0.5, gt=0, lt=1, description="of a batch, where a method also learns from unlabelled rows"
    )
    epoch_steps: int | None = Field(
        None,
        ge=1,
        description="steps that make an epoch; none: one pass over the training rows (over the unlabelled ones where "
        "a method learns from them)",
    )
    workers: int | None = Field(None, ge=0, description="processes that decode images; none: chosen by the machine")
    validate_every: int = Field(1, ge=1, description="epochs between two validation scores")
    keep: Literal["best", "last"] = Field("best", description="which epoch's model is taken, where there is validation")

    @field_validator("augmentation", mode="before")
    @classmethod
    def _read_none_as_name(cls, value: Any) -> Any:
        return "none" if value is None else value  # in an override "none" means no value; here it is an augmentation


class MethodSettings(BaseModel):
    """Which method, how many bits; its own settings (λ, μ, α …) are checked by the method itself."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "scdh"
    bits: int = Field(48, ge=1, le=65536)

    @property
    def own(self) -> dict[str, Any]:
        """The method's own settings."""
        return dict(self.model_extra or {})


class RunConfig(Settings):
    """Everything that decides the outcome of a run."""

    seed: int = Field(0, ge=0)
    data: DataSettings = DataSettings()
    net: NetSettings = NetSettings()
    method: MethodSettings = MethodSettings()
    train: TrainSettings = TrainSettings()

    @model_validator(mode="after")
    def _check_recalibrate(self) -> "RunConfig":
        if self.train.recalibrate and (self.net.freeze or self.net.frozen_batch_norm):
            raise ConfigError("train.recalibrate changes batch-norm statistics, which this run keeps frozen.")
        return self

    @model_validator(mode="after")
    def _check_method_settings(self) -> "RunConfig":
        from scdh.methods.declared import method_settings

        method_settings(self.method.name, self.method.own)
        return self


def preset_names() -> list[str]:
    return sorted(p.name.removesuffix(".toml") for p in _presets().iterdir() if p.name.endswith(".toml"))


def _presets() -> Any:
    return resources.files("scdh") / "presets"


def load_config(
    preset: str | None = None,
    file: str | Path | None = None,
    overrides: Mapping[str, Any] | Iterable[str] = (),
) -> RunConfig:
    """The settings of a run: defaults, then a preset, then a TOML file, then overrides; the last one wins.

    Args:
        preset: name of ready settings, one of :func:`preset_names`.
        file: TOML file with the settings that differ.
        overrides: ``"train.epochs=20"`` texts, or a mapping of dotted keys to values.

    Raises:
        ConfigError: for an unknown key or preset, or a value out of range, in one sentence.
    """
    values: dict[str, Any] = {}
    if preset is not None:
        if preset not in preset_names():
            raise ConfigError(unknown_name("preset", preset, preset_names()))
        values = tomllib.loads((_presets() / f"{preset}.toml").read_text("utf-8"))
    from_file: dict[str, Any] = {}
    if file is not None:
        try:
            from_file = tomllib.loads(Path(file).read_text("utf-8"))
        except FileNotFoundError:
            raise ConfigError(f"There is no configuration file {str(file)!r}.") from None
        except OSError as error:
            raise ConfigError(f"Configuration file {str(file)!r} cannot be read: {error.strerror}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"Configuration file {str(file)!r} is not valid TOML: {error}.") from None
    pairs = list(overrides.items() if isinstance(overrides, Mapping) else (split_override(o) for o in overrides))
    table = from_file.get("method")
    method = dict(pairs).get("method.name", table.get("name") if isinstance(table, dict) else None)
    if isinstance(method, str):
        _drop_unknown_settings(values, method)
    _merge(values, from_file)
    for key, value in pairs:
        *groups, name = key.split(".")
        table = values
        for group in groups:
            table = table.setdefault(group, {})
            if not isinstance(table, dict):
                raise ConfigError(f"Setting {key!r} goes below {group!r}, which is a value, not a group.")
        table[name] = value
    return parse_config(values)


def _drop_unknown_settings(preset: dict[str, Any], method: str) -> None:
    """A preset's [method] settings were chosen for its own method; another method keeps those that it has too."""
    from scdh.methods.declared import declared

    table = preset.get("method", {})
    if method != table.get("name", MethodSettings().name):
        known = {*MethodSettings.model_fields, *declared(method).Settings.model_fields}
        preset["method"] = {key: value for key, value in table.items() if key in known}


def parse_config(values: Mapping[str, Any]) -> RunConfig:
    """Check a nested mapping; every mistake becomes one sentence that names the key."""
    try:
        return RunConfig.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(one_sentence(error, RunConfig)) from None


def one_sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first problem that pydantic reports as one sentence with the key and the value."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return unknown_name("setting", key, _keys(model))
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return f"Setting {key!r} cannot be {problem['input']!r}: {problem['msg'].lower()}."


def _keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            keys += _keys(inner, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys


def _merge(into: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, Mapping) else value


def split_override(text: str) -> tuple[str, Any]:
    key, equals, raw = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"An override looks like train.epochs=20, not {text!r}.")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()  # a bare word is a string: net.backbone=alexnet
    return key.strip(), None if value in ("none", "None") else value

"""One validated description of a run: TOML presets and files, overridden key by key; unknown keys are refused.

A preset or file holds only what differs from the defaults of :mod:`scdh.settings`.
"""

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from scdh.errors import ConfigError, unknown_name
from scdh.files import read_regular
from scdh.settings import DataSettings as DataSettings  # also imported from here
from scdh.settings import MethodSettings as MethodSettings
from scdh.settings import NetSettings as NetSettings
from scdh.settings import Settings as Settings
from scdh.settings import TrainSettings as TrainSettings


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

    def with_method_defaults(self) -> "RunConfig":
        """The same settings with all of the method's own written out, also those that have their defaults."""
        from scdh.methods.declared import method_settings

        own = method_settings(self.method.name, self.method.own).model_dump(mode="json")
        known = {"name": self.method.name, "bits": self.method.bits}
        return self.model_copy(update={"method": MethodSettings.model_validate({**own, **known})})


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
    from_file = {} if file is None else read_settings_file(file)
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


def read_settings_file(file: str | Path) -> dict[str, Any]:
    """The tables of a TOML file with settings, not checked yet; a file that is missing or no TOML is refused."""
    try:
        return tomllib.loads(read_regular(file).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"There is no configuration file {str(file)!r}.") from None
    except OSError as error:
        raise ConfigError(f"Configuration file {str(file)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"Configuration file {str(file)!r} is not valid TOML: {error}.") from None


def _drop_unknown_settings(preset: dict[str, Any], method: str) -> None:
    """A preset's [method] settings were chosen for its own method: only a variant of that takes those it has too.

    λ or μ of another method is another weight, though it has the same name.
    """
    from scdh.methods.declared import declared

    table, other = preset.get("method", {}), declared(method)
    owner = table.get("name", MethodSettings().name)
    if method != owner:
        shared = other.Settings.model_fields if other.preset_settings_of == owner else ()
        known = {*MethodSettings.model_fields, *shared}
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

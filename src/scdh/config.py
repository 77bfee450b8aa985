"""One validated description of a run: TOML presets and files, overridden key by key; unknown keys are rejected.

A preset or file holds only what differs from the defaults of :mod:`scdh.settings`.
"""

import tomllib
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError, model_validator

from scdh.errors import ConfigError, unknown_name
from scdh.settings import DataSettings as DataSettings  # also imported from here
from scdh.settings import MethodSettings as MethodSettings
from scdh.settings import NetSettings as NetSettings
from scdh.settings import Settings as Settings
from scdh.settings import TrainSettings as TrainSettings
from scdh.storage.files import read_regular

SHORT_LIST = 12  # names that a message may list


class RunConfig(Settings):
    """Everything that decides the outcome of a run."""

    seed: int = Field(0, ge=0)
    data: DataSettings = DataSettings()
    net: NetSettings = NetSettings()
    method: MethodSettings = MethodSettings()
    train: TrainSettings = TrainSettings()

    @model_validator(mode="after")
    def _check_groups(self) -> "RunConfig":
        return self._checked()

    def _checked(self) -> "RunConfig":
        """Return the settings; raise ConfigError if two groups, or method and settings, contradict each other."""
        from scdh.methods.registry import method_settings

        if self.train.recalibrate and (self.net.caches_frozen or self.net.frozen_batch_norm):
            raise ConfigError("train.recalibrate changes batch-norm statistics, which this run keeps frozen.")
        method_settings(self.method.name, self.method.own)
        return self

    def given(self) -> dict[str, Any]:
        """The settings that were set explicitly, by dotted key; all others have their defaults."""
        values: dict[str, Any] = {}
        for key in sorted(self.model_fields_set):
            value = getattr(self, key)
            if isinstance(value, BaseModel):
                values |= {f"{key}.{name}": getattr(value, name) for name in sorted(value.model_fields_set)}
            else:
                values[key] = value
        return values

    @property
    def is_complete(self) -> bool:
        """Whether every setting was set explicitly, as in a preset, a file or a finished run."""
        return self.given().keys() >= set(_keys(RunConfig))

    def completed(self) -> "RunConfig":
        """The same settings; the defaults count as set explicitly too."""
        groups = {name: getattr(self, name) for name in type(self).model_fields}
        return self.model_copy(
            update={
                name: group.model_copy(update=dict(group)) if isinstance(group, BaseModel) else group
                for name, group in groups.items()
            }
        )

    def with_values(self, values: Mapping[str, Any]) -> "RunConfig":
        """The same settings with some replaced, by dotted key. Only the groups that change are checked again."""
        changes: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            group, _, name = key.rpartition(".")
            changes.setdefault(group, {})[name] = value
        update = changes.pop("", {})
        for group, entries in changes.items():
            settings: BaseModel = getattr(self, group)
            try:
                update[group] = type(settings).model_validate({**settings.model_dump(exclude_unset=True), **entries})
            except ValidationError:
                # Parse everything again for an error message with the full key of the setting.
                return parse_config({**self.model_dump(), group: {**settings.model_dump(), **entries}})
        return self.model_copy(update=update)._checked()

    def with_method_defaults(self) -> "RunConfig":
        """The same settings with all of the method's own written out, including those at their defaults."""
        from scdh.methods.registry import method_settings

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

    With a preset or a file the settings are complete: training uses them as they are. Without, training chooses what
    suits the data for the settings that are not given (docs/defaults.md).

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
    overrides = [overrides] if isinstance(overrides, str) else overrides
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
    config = parse_config(values)
    return config if preset is None and file is None else config.completed()


def length_settings(bits: Iterable[int]) -> dict[str, Any]:
    """Settings for codes of one length, or for nested codes: the largest length, with the others as its first bits."""
    lengths = sorted(set(bits))
    return {"method.bits": lengths[-1], **({"method.nested": lengths[:-1]} if len(lengths) > 1 else {})}


def read_settings_file(file: str | Path) -> dict[str, Any]:
    """The tables of a TOML file with settings, not checked yet; a missing file or one that is not TOML is rejected."""
    try:
        return tomllib.loads(read_regular(file).decode("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"There is no configuration file {str(file)!r}.") from None
    except OSError as error:
        raise ConfigError(f"Configuration file {str(file)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"Configuration file {str(file)!r} is not valid TOML: {error}.") from None


def _drop_unknown_settings(preset: dict[str, Any], method: str) -> None:
    """Drop a preset's [method] settings that do not apply: they were chosen for its method, and suit only its variants.

    λ and μ of another method weigh other terms, although the names are the same. A method with a teacher averages the
    weights itself, so the preset's averaging is dropped.
    """
    from scdh.methods.base import Method
    from scdh.methods.registry import method_class

    table, other = preset.get("method", {}), method_class(method)
    owner = table.get("name", MethodSettings().name)
    if method != owner:
        shared = other.Settings.model_fields if other.preset_settings_of == owner else ()
        known = {*MethodSettings.model_fields, *shared}
        preset["method"] = {key: value for key, value in table.items() if key in known}
    if other.teacher_decay is not Method.teacher_decay:
        preset.get("train", {}).pop("ema", None)


def parse_config(values: Mapping[str, Any]) -> RunConfig:
    """Check a nested mapping; every mistake becomes one sentence that names the key."""
    if not isinstance(values, Mapping):
        raise ConfigError(
            f"A config is what scdh.load_config gives, or a mapping of settings, not a {type(values).__name__}; "
            "scdh.train(data) trains on data."
        )
    try:
        return RunConfig.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(one_sentence(error, RunConfig)) from None


def one_sentence(error: ValidationError, model: type[BaseModel]) -> str:
    """The first problem that pydantic reports as one sentence with the key and the value."""
    problem = error.errors()[0]
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return _unknown_setting(key, _keys(model))
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    return f"Setting {key!r} cannot be {problem['input']!r}: {problem['msg'].lower()}."


def _unknown_setting(key: str, known: list[str]) -> str:
    """One sentence with the nearest names; the whole list of a run's settings would fill a screen."""
    last = key.rpartition(".")[2]
    similar = [name for name in known if last in name.rpartition(".")[2]]
    if get_close_matches(key, known, n=1) or len(known) <= SHORT_LIST:
        return unknown_name("setting", key, known)
    names = f"similar names are {', '.join(similar)}, and " if similar else ""
    return f"Unknown setting {key!r}; {names}`scdh train --show-config` lists all settings."


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

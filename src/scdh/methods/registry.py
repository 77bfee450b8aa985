"""Methods by name. A new method is one file in this folder whose class is called as the file, in capitals or not."""

import importlib
import pkgutil
from typing import Any

from pydantic import ValidationError

from scdh.config import Settings, one_sentence
from scdh.errors import ConfigError, unknown_name
from scdh.methods.base import Method

_NOT_METHODS = {"base", "registry"}


def method_names() -> list[str]:
    import scdh.methods

    return sorted(m.name for m in pkgutil.iter_modules(scdh.methods.__path__) if m.name not in _NOT_METHODS)


def method_class(name: str) -> type[Method]:
    if name not in method_names():
        raise ConfigError(unknown_name("method", name, method_names()))
    module = importlib.import_module(f"scdh.methods.{name}")
    wanted = name.replace("_", "").lower()
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Method) and value.__name__.lower() == wanted:
            return value
    raise ConfigError(f"The file of method {name!r} has no class of that name.")


def method_settings(name: str, own: dict[str, Any]) -> Settings:
    """The method's own settings, checked; a wrong key or value is one sentence."""
    model = method_class(name).Settings
    try:
        return model.model_validate(own)
    except ValidationError as error:
        raise ConfigError(one_sentence(error, model).replace("setting '", f"{name} setting '")) from None

"""Methods by name: those of this folder, and those that other installed packages offer.

A method of this folder is one file whose class is called as the file, in capitals or not. Another package offers its
own by an entry point of the group ``scdh.methods``, ``name = "module:Class"`` (see docs/add_a_method.md). A path to a
file is no name: a model keeps its method's name, and loading it must not run whatever file its description points at.
"""

import importlib
import pkgutil
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from scdh.config import Settings, one_sentence
from scdh.errors import ConfigError, unknown_name
from scdh.methods.base import About, Method

GROUP = "scdh.methods"
_NOT_METHODS = {"base", "registry"}


def method_names() -> list[str]:
    return sorted({*_of_this_folder(), *_offered(tuple(sys.path))})


def method_class(name: str) -> type[Method]:
    offers, here = _offered(tuple(sys.path)).get(name, ()), name in _of_this_folder()
    if here + len(offers) > 1:
        owners = ["scdh itself"] * here + [f"package {_package(offer)!r}" for offer in offers]
        raise ConfigError(f"Method {name!r} is offered by {' and by '.join(owners)}; rename or remove one.")
    if offers:
        return _load(offers[0])
    if not here:
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


def _of_this_folder() -> set[str]:
    import scdh.methods

    return {module.name for module in pkgutil.iter_modules(scdh.methods.__path__)} - _NOT_METHODS


@cache
def _offered(path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points by name. Looking through all packages takes some milliseconds and a method is asked for at every
    batch, so it is done once for each ``sys.path``.
    """
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        found[entry.name] = (*found.get(entry.name, ()), entry)
    return found


def _load(entry: EntryPoint) -> type[Method]:
    said = f"Method {entry.name!r} of package {_package(entry)!r}"
    try:
        found = entry.load()
    except Exception as error:  # whatever another's file raises when it is imported
        raise ConfigError(f"{said} cannot be loaded: {type(error).__name__}: {str(error).rstrip('.')}.") from error
    if not (isinstance(found, type) and issubclass(found, Method) and isinstance(getattr(found, "about", None), About)):
        raise ConfigError(f"{said} is to be {entry.value!r}, which is no class derived from Method with an about.")
    return found


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else entry.dist.name

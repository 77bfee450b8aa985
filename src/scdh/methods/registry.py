"""Methods by name: those of this folder, and those that other installed packages offer.

A method of this folder is one file whose class is called as the file, in capitals or not. Another package offers its
own by an entry point of the group ``scdh.methods``, ``name = "module:Class"`` (see docs/add_a_method.md). A path to a
file is not accepted as a name: a model keeps its method's name, and loading a model must not run whatever file its
description points at.
"""

import importlib
import sys
from importlib.metadata import EntryPoint
from typing import Any

from scdh.errors import ConfigError
from scdh.methods.about import About
from scdh.methods.base import Method
from scdh.methods.declared import check_known, is_class_of, method_settings, names_of_this_folder, offered


def method_class(name: str) -> type[Method]:
    """The class of a method; an unknown name, or one that two packages offer, is refused."""
    entries, built_in = offered(tuple(sys.path)).get(name, ()), name in names_of_this_folder()
    if built_in + len(entries) > 1:
        owners = ["scdh itself"] * built_in + [f"package {_package(entry)!r}" for entry in entries]
        raise ConfigError(f"Method {name!r} is offered by {' and by '.join(owners)}; rename or remove one.")
    if entries:
        return _load(entries[0])
    check_known(name)
    module = importlib.import_module(f"scdh.methods.{name}")
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Method) and is_class_of(value.__name__, name):
            return value
    raise ConfigError(f"The file of method {name!r} has no class of that name.")


def make_method(name: str, settings: dict[str, Any], bits: int, num_classes: int, multi_label: bool) -> Method:
    """A method with its own settings checked; see :class:`Method` for the arguments."""
    method_settings(name, settings)  # refuses a wrong setting in one sentence
    method = method_class(name)
    about = method.about
    if not about.has_length(bits):
        raise ConfigError(f"{about.title} needs bits that are a multiple of {about.bits_multiple}, not {bits}.")
    return method(method.Settings.model_validate(settings), bits, num_classes, multi_label)


def _load(entry: EntryPoint) -> type[Method]:
    subject = f"Method {entry.name!r} of package {_package(entry)!r}"
    try:
        value = entry.load()
    except Exception as error:  # anything may happen while another package's file is imported
        raise ConfigError(f"{subject} cannot be loaded: {type(error).__name__}: {str(error).rstrip('.')}.") from error
    if not (isinstance(value, type) and issubclass(value, Method) and isinstance(getattr(value, "about", None), About)):
        raise ConfigError(f"{subject} is to be {entry.value!r}, which is no class derived from Method with an about.")
    return value


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else entry.dist.name

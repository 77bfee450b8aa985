"""Methods by name: those in this folder, and those of other installed packages.

A method of this folder is one file, and its class has the same name: ``scdh_c.py`` and ``ScdhC``. Another package
offers its own method by an entry point of the group ``scdh.methods``, ``name = "module:Class"`` (see
docs/add_a_method.md). A path to a file is not accepted as a name: a model stores the name of its method, and loading a
model must not run a file that its description points at.

The names are listed without importing the methods, because that imports torch.
"""

import importlib
import pkgutil
import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import scdh.methods
from scdh.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from scdh.config import Settings
    from scdh.methods.base import Method

GROUP = "scdh.methods"
_NOT_METHODS = {"base", "explanation", "registry"}


def method_names() -> list[str]:
    return sorted({*built_in_names(), *_offered()})


@cache
def built_in_names() -> frozenset[str]:
    """The methods of this folder."""
    return frozenset({module.name for module in pkgutil.iter_modules(scdh.methods.__path__)} - _NOT_METHODS)


def check_known(name: str) -> None:
    if name not in method_names():
        raise ConfigError(unknown_name("method", name, method_names()))


def method_class(name: str) -> "type[Method]":
    """The class of a method; raises :class:`ConfigError` if the name is unknown or offered by two packages."""
    entries = _offered().get(name, ())
    is_built_in = name in built_in_names()
    if is_built_in + len(entries) > 1:
        owners = ["scdh itself"] * is_built_in + [f"package {_package(entry)!r}" for entry in entries]
        raise ConfigError(f"Method {name!r} is offered by {' and by '.join(owners)}; rename or remove one.")
    if entries:
        return _load(entries[0])
    check_known(name)
    return _built_in_class(name)


def method_settings(name: str, values: dict[str, Any]) -> "Settings":
    """The method's own settings, checked; a wrong key or value is reported in one sentence."""
    from pydantic import ValidationError

    from scdh.config import one_sentence

    model = method_class(name).Settings
    if "nested" in values and "nested" not in model.model_fields:  # several lengths in --bits
        title = method_class(name).about.title
        raise ConfigError(f"{title} does not learn nested codes; give one number of bits, or use scdh or mt_scdh.")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(one_sentence(error, model).replace("setting '", f"{name} setting '")) from None


def make_method(name: str, settings: dict[str, Any], bits: int, num_classes: int, multi_label: bool) -> "Method":
    """A method with its own settings checked; see :class:`~scdh.methods.base.Method` for the arguments."""
    checked = method_settings(name, settings)
    method = method_class(name)
    about = method.about
    if not about.has_length(bits):
        raise ConfigError(f"{about.title} needs bits that are a multiple of {about.bits_multiple}, not {bits}.")
    return method(checked, bits, num_classes, multi_label)


@cache
def _built_in_class(name: str) -> "type[Method]":
    module = importlib.import_module(f"scdh.methods.{name}")
    classes = {key.lower(): value for key, value in vars(module).items() if isinstance(value, type)}
    method: type[Method] = classes[name.replace("_", "").lower()]
    return method


def _offered() -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points by name."""
    return _offered_on(tuple(sys.path))


@cache
def _offered_on(path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Looking through all packages takes some milliseconds, so it is done once for each ``sys.path``."""
    entries: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        entries[entry.name] = (*entries.get(entry.name, ()), entry)
    return entries


def _load(entry: EntryPoint) -> "type[Method]":
    from scdh.methods.base import About, Method

    subject = f"Method {entry.name!r} of package {_package(entry)!r}"
    try:
        value = entry.load()
    except Exception as error:  # importing another package's file may raise any error
        raise ConfigError(f"{subject} cannot be loaded: {type(error).__name__}: {str(error).rstrip('.')}.") from error
    if not (isinstance(value, type) and issubclass(value, Method) and isinstance(getattr(value, "about", None), About)):
        raise ConfigError(f"{subject} must be a class derived from Method with an about, but {entry.value!r} is not.")
    return value


def _package(entry: EntryPoint) -> str:
    return "unknown" if entry.dist is None else entry.dist.name

"""What methods declare: their names, descriptions and settings, read without importing torch.

A method's file imports torch, which takes seconds; a configuration is checked, and ``scdh methods`` lists what there
is, without it. Of a file of this folder only the declarations are run: the ``Settings`` classes, and attributes such
as ``about`` of the method's class. They may use pydantic, typing, literal constants of the file and other methods'
declarations; where they need more than that, the whole file is imported instead. Methods of other packages (entry
points) are always imported.
"""

import ast
import pkgutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from importlib import resources
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from scdh.config import Settings, one_sentence
from scdh.errors import ConfigError, unknown_name
from scdh.methods.about import About
from scdh.ranking_names import HAMMING

GROUP = "scdh.methods"
_NOT_METHODS = {"about", "base", "declared", "explained", "registry"}
_CHEAP_MODULES = ("pydantic", "typing", "collections")


class NotReadable(Exception):
    """The declarations of a method cannot be read without importing its file."""


@dataclass(frozen=True)
class Declared:
    """What is known of a method before torch is imported."""

    name: str
    about: About
    Settings: type[Settings]
    learns_by_gradient: bool = True
    needs_labels: bool = True
    learns_from_unlabelled: bool = False
    ranking: str = HAMMING
    suited_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    timing_settings: Mapping[str, Any] = field(default_factory=dict)
    preset_settings_of: str = ""
    tuned_settings: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


_ATTRIBUTES = tuple(entry.name for entry in fields(Declared) if entry.name != "name")


def method_names() -> list[str]:
    return sorted({*names_of_this_folder(), *offered(tuple(sys.path))})


def declared(name: str) -> Declared:
    """What the method ``name`` declares; an unknown name is refused with the nearest known one."""
    return _declared(name, tuple(sys.path))


@cache
def _declared(name: str, path: tuple[str, ...]) -> Declared:
    if name in names_of_this_folder() and name not in offered(path):
        try:
            return _read_declarations(name)
        except (NotReadable, NameError, StopIteration):
            pass  # the declarations need more of the file than themselves
    from scdh.methods.registry import method_class

    method = method_class(name)
    return Declared(name, **{key: getattr(method, key) for key in _ATTRIBUTES})


def method_settings(name: str, values: dict[str, Any]) -> Settings:
    """The method's own settings, checked; a wrong key or value is one sentence."""
    model = declared(name).Settings
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ConfigError(one_sentence(error, model).replace("setting '", f"{name} setting '")) from None


def is_class_of(class_name: str, method_name: str) -> bool:
    """A method of this folder is the class called as its file, whatever the capitals: ``scdh_c.py`` and ``ScdhC``."""
    return class_name.lower() == method_name.replace("_", "").lower()


@cache
def names_of_this_folder() -> frozenset[str]:
    import scdh.methods

    return frozenset({module.name for module in pkgutil.iter_modules(scdh.methods.__path__)} - _NOT_METHODS)


@cache
def offered(path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Entry points by name. Looking through all packages takes some milliseconds, so it is done once for each
    ``sys.path``.
    """
    entries: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in entry_points(group=GROUP):
        entries[entry.name] = (*entries.get(entry.name, ()), entry)
    return entries


def check_known(name: str) -> None:
    if name not in method_names():
        raise ConfigError(unknown_name("method", name, method_names()))


def _read_declarations(name: str) -> Declared:
    tree = _parse(name)
    names = _declared_names(name)
    method = next(node for node in _classes(tree) if is_class_of(node.name, name))
    if [ast.unparse(base) for base in method.bases] != ["Method"]:
        raise NotReadable  # what it inherits is not in this file
    values: dict[str, ast.expr] = {}
    for statement in method.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=key)], value=value) if key in _ATTRIBUTES:
                values[key] = value
            case ast.AnnAssign(target=ast.Name(id=key), value=ast.expr() as value) if key in _ATTRIBUTES:
                values[key] = value
            case ast.ClassDef(name=key) | ast.FunctionDef(name=key) if key in _ATTRIBUTES:
                raise NotReadable
    if "about" not in values:
        raise NotReadable
    evaluated = {
        key: eval(compile(ast.Expression(value), f"{name}.py", "eval"), dict(names)) for key, value in values.items()
    }
    return Declared(name, **{"Settings": Settings, **evaluated})


@cache
def _declared_names(name: str) -> dict[str, Any]:
    """The names that the declarations of a method's file may use: cheap imports and its ``Settings`` classes."""
    names: dict[str, Any] = {"About": About, "Settings": Settings, "__name__": f"scdh.methods.{name}"}
    for node in _parse(name).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _CHEAP_MODULES:
            _run(node, name, names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scdh.methods."):
            other = (node.module or "").removeprefix("scdh.methods.")
            if other not in _NOT_METHODS:
                known = _declared_names(other)
                names |= {alias.name: known[alias.name] for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ClassDef) and any(
            isinstance(base, ast.Name) and _is_settings(names.get(base.id)) for base in node.bases
        ):
            if any(isinstance(statement, ast.FunctionDef) for statement in node.body):
                raise NotReadable  # a validator may use anything that the file defines
            _run(node, name, names)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if isinstance(target, ast.Name):
                with suppress(ValueError):  # not a literal, so not needed by a declaration
                    names[target.id] = ast.literal_eval(node.value)
    return names


def _is_settings(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Settings)


def _run(node: ast.stmt, name: str, names: dict[str, Any]) -> None:
    exec(compile(ast.Module([node], []), f"{name}.py", "exec"), names)


def parsed_file(name: str) -> ast.Module:
    """The file of a method of this folder, parsed and not run."""
    return _parse(name)


@cache
def _parse(name: str) -> ast.Module:
    return ast.parse((resources.files("scdh.methods") / f"{name}.py").read_text("utf-8"))


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]

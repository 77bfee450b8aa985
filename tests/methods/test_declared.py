"""What is read of a method's file without importing it is what the imported class says, however it is written."""

import sys
import textwrap

import pytest

import scdh.methods
from scdh.methods import declared as declarations
from scdh.methods.declared import Declared, declared, method_names, method_settings
from scdh.methods.registry import method_class

HEAD = """
from typing import ClassVar
from pydantic import Field, field_validator
from scdh.methods.base import About, Method, Settings
from scdh.methods.dsh import Dsh

ABOUT = ("Toy", "unary", 2026, "none", "none", "none")

def checked(value):
    return abs(value)

"""
BODIES = {
    "annotated": """
        class Toy(Method):
            about = About("Toy", "unary", 2026, "none", "none", "none")
            learns_by_gradient: ClassVar[bool] = False
            needs_labels: bool = False
        """,
    "nested_settings": """
        class Toy(Method):
            about = About("Toy", "unary", 2026, "none", "none", "none")

            class Settings(Settings):
                weight: float = 1.0
        """,
    "inherited": """
        class Toy(Dsh):
            about = About("Toy", "unary", 2026, "none", "none", "none")
        """,
    "validator": """
        class ToySettings(Settings):
            weight: float = Field(1.0)

            @field_validator("weight")
            @classmethod
            def _check(cls, value):
                return checked(value)

        class Toy(Method):
            about = About("Toy", "unary", 2026, "none", "none", "none")
            Settings = ToySettings
        """,
    "computed": """
        class Toy(Method):
            about = About(*ABOUT)
        """,
}


def assert_equal_to_class(name):
    method = method_class(name)
    known = declared(name)
    for attribute in declarations._ATTRIBUTES:
        if attribute == "Settings":
            assert known.Settings.model_json_schema() == method.Settings.model_json_schema()
        else:
            assert getattr(known, attribute) == getattr(method, attribute), attribute


@pytest.mark.parametrize("name", sorted(declarations.names_of_this_folder()))
def test_declarations_equal_the_class(name):
    assert_equal_to_class(name)


@pytest.mark.parametrize("case", BODIES)
def test_declarations_in_any_form(case, tmp_path, monkeypatch):
    (tmp_path / "toy.py").write_text(HEAD + textwrap.dedent(BODIES[case]))
    monkeypatch.setattr(scdh.methods, "__path__", [*scdh.methods.__path__, str(tmp_path)])
    monkeypatch.setattr(declarations, "_parse", _parser(tmp_path))
    caches = (declarations.names_of_this_folder, declarations._declared, declarations._declared_names)
    for cache in caches:
        cache.cache_clear()
    try:
        assert "toy" in method_names()
        assert isinstance(declared("toy"), Declared)
        assert_equal_to_class("toy")
        if case == "validator":
            assert method_settings("toy", {"weight": -2.0}).weight == 2.0
    finally:
        sys.modules.pop("scdh.methods.toy", None)
        for cache in caches:
            cache.cache_clear()


def _parser(folder):
    original = declarations._parse

    def parse(name):
        import ast

        return ast.parse((folder / "toy.py").read_text()) if name == "toy" else original(name)

    return parse

"""The page of methods is made from what methods declare, and is up to date."""

import importlib.util
import re
from pathlib import Path

import pytest

from scdh.cli.methods import value_text
from scdh.codes import HAMMING
from scdh.methods.explanation import explain, explanation_of
from scdh.methods.registry import built_in_names, method_class

SCRIPT = Path(__file__).parents[1] / "docs" / "make_methods.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_methods", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script):
    assert script.PAGE.read_text("utf-8") == script.render(), "run `python docs/make_methods.py`"


@pytest.mark.parametrize("name", sorted(built_in_names()))
def test_the_page_says_everything_about_a_method(script, name):
    page = script.render()
    section = page.split(f"\n### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
    method = method_class(name)
    for text in (method.about.fidelity, method.about.differs, method.about.reference, method.about.use_when):
        assert script.escape_markdown(text) in section
    for key in method.Settings.model_fields:
        assert f"`method.{key}`" in section
    for key, values in method.tuned_settings.items():
        assert f"`{key if '.' in key else f'method.{key}'}` {value_text(values[0])}" in section
    assert (f"- **Ranked** by {method.ranking}, not by" in section) == (method.ranking != HAMMING)
    assert f"(#{name})" in page  # the overview leads to it


def test_the_first_clause_of_a_cost_is_that_of_a_step(script):
    page = script.render()
    assert "- **Cost**: O(B²·d + B·256·d) per step, d the bottleneck; k-means every second epoch.\n" in page
    assert "- **Cost**: O(B·r) per step; graph cuts over 500·n triplets for each bit.\n" in page
    assert "- **Cost**: O(B·C·r) per step.\n" in page
    assert "- **Cost**: O(n·m²), once; fitted at once.\n" in page
    assert not re.search(r"- \*\*Cost\*\*: [^\n]*[;,][^\n]* per step", page)


def test_long_numbers_are_shortened():
    assert [value_text(value) for value in (1 / 55, 10 / 3, 0.1 + 0.2, 0.0089, 1e-5, None)] == [
        *("1/55", "3.33", "0.3", "0.0089", "1e-05", "None")
    ]


@pytest.mark.parametrize("name", sorted(built_in_names()))
def test_every_method_explains_itself(name):
    """By an equation, or where it is fitted by what its fit computes."""
    explanation = explanation_of(name)
    assert explanation.sentence
    if method_class(name).learns_by_gradient:
        assert explanation.equation
        assert not explanation.equation.startswith(" ")
    else:
        assert explanation.equation or explanation.paragraphs


def test_a_docstring_in_its_parts():
    text = """Toy: a method with
two lines.

    min  a +
         b

where a is
a number.

    s.t. c

The end: c."""
    parts = explain(text)
    assert parts.sentence == "a method with two lines."
    assert parts.equation == "min  a +\n     b\ns.t. c"
    assert parts.paragraphs == ["where a is a number.", "The end: c."]
    assert explain("No name in this sentence: it is long.").sentence == "No name in this sentence: it is long."
    assert explain("") == explain("\n\n")

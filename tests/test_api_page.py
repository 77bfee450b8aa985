"""The reference page is made from docstrings that describe every argument of every public function."""

import importlib.util
from pathlib import Path

import pytest

import scdh

PAGE = Path(__file__).parents[1] / "docs" / "make_api.py"


@pytest.fixture(scope="module")
def api():
    spec = importlib.util.spec_from_file_location("make_api", PAGE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_argument_is_described(api):
    assert api.undescribed() == []


def test_the_page_is_up_to_date(api):
    assert api.PAGE.read_text("utf-8") == api.render(), "run `python docs/make_api.py`"


def test_every_public_name_has_a_place(api):
    names = {path.partition(":")[2] for paths in api.CHAPTERS.values() for path in paths}
    assert set(dir(scdh)) - {"__version__", "losses"} <= names


def test_sections_are_read(api):
    parsed = api.parse("""Text.

    Args:
        a, b: two
            lines.
        c: one.

    Returns:
        A number.

    >>> 1
    1
    """)
    assert (parsed.text, parsed.returns) == ("Text.", "A number.")
    assert parsed.sections == {"Args": {"a": "two lines.", "b": "two lines.", "c": "one."}}

"""Loading the HTML templates of all pages, in which texts from data are escaped, and writing pages."""

from importlib import resources
from pathlib import Path
from typing import Any

from scdh.printable import printable
from scdh.storage.files import replacing

_LAYOUT = "\n\t\r"  # control characters that a page may have

# The base page and the folder of experiments that each template belongs to.
_FOLDERS = {
    "base.html": "pages",
    "hits.html": "pages",
    "compare.html": "compare",
    "reproduce.html": "reproduce",
    "run.html": "report",
    "search.html": "report",
    "duplicates.html": "report",
}


def load_template(name: str, **filters: Any) -> Any:
    """A jinja2 template.

    Args:
        name: file name, such as ``"run.html"``.
        filters: functions that the template may use as ``{{ value | name }}``, in addition to ``count`` (1,234) and
            ``breakable`` (a text with possible line breaks after "/" and "_").

    Returns:
        A jinja2 ``Template``. Every value is escaped unless the template marks it as safe, which only SVG drawn by
        :mod:`scdh.experiments.pages.svg` may be.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = resources.files("scdh.experiments")
    environment = Environment(
        loader=FunctionLoader(lambda file: (folder / _FOLDERS[file] / file).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": lambda value: f"{value:,}", "breakable": _breakable, **filters}
    return environment.get_template(name)


def _breakable(text: str) -> Any:
    from markupsafe import Markup, escape

    return escape(text).replace("/", Markup("/<wbr>")).replace("_", Markup("_<wbr>"))


def save_page(path: Path, text: str) -> Path:
    """Write the text of a page, whole or not at all, as valid UTF-8; other characters are escaped. Returns ``path``."""
    with replacing(path) as temporary:
        temporary.write_text(printable(text, keep=_LAYOUT), "utf-8")
    return path

"""Loading the HTML templates of all pages; texts that come from data are escaped in them."""

from importlib import resources
from typing import Any

# The base page and the folder of experiments that each template belongs to.
_FOLDERS = {
    "base.html": "pages",
    "hits.html": "pages",
    "compare.html": "compare",
    "report.html": "demo",
    "reproduce.html": "reproduce",
    "run.html": "report",
    "search.html": "report",
    "duplicates.html": "report",
}


def load_template(name: str, **filters: Any) -> Any:
    """A jinja2 template.

    Args:
        name: file name, such as ``"report.html"``.
        filters: functions that the template may use as ``{{ value | name }}``, besides ``count`` (1,234) and
            ``path`` (the name of a file, which is broken after a folder where it is too long for a line).

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
    environment.filters |= {"count": lambda value: f"{value:,}", "path": _breakable, **filters}
    return environment.get_template(name)


def _breakable(path: str) -> Any:
    from markupsafe import Markup, escape

    return escape(path).replace("/", Markup("/<wbr>"))

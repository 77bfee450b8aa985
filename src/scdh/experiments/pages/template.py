"""How pages are made from templates: one look, and everything that comes from data escaped."""

from importlib import resources
from typing import Any

_FOLDERS = {"base.html": "pages", "compare.html": "compare", "report.html": "demo"}


def template(name: str, **filters: Any) -> Any:
    """A template of this folder; texts of data are escaped in it, only our own drawings pass as they are."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    folder = resources.files("scdh.experiments")
    environment = Environment(
        loader=FunctionLoader(lambda file: (folder / _FOLDERS[file] / file).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": lambda value: f"{value:,}", **filters}
    return environment.get_template(name)

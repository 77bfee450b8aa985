"""How pages are made from templates: one look, and everything that comes from data escaped."""

from importlib import resources
from typing import Any


def template(name: str, **filters: Any) -> Any:
    """A template of this folder; texts of data are escaped in it, only our own drawings pass as they are."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(lambda file: (resources.files("scdh.experiments") / file).read_text("utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count": lambda value: f"{value:,}", **filters}
    return environment.get_template(name)

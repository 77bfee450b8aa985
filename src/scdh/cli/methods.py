"""``scdh methods``: which ways to learn codes there are, and what can be set in each."""

from typing import Annotated, Any

import typer

from scdh.cli.options import Json
from scdh.cli.show import document, result, table

EXAMPLES = ("scdh methods", "scdh methods scdh", "scdh methods --json")


def methods(
    name: Annotated[str | None, typer.Argument(help="Show the settings of this method.")] = None,
    as_json: Json = False,
) -> None:
    """List the methods that learn codes, or the settings of one.

    A setting is given as `scdh train --set method.NAME=VALUE`, or in the [method] part of a TOML file.
    """
    from scdh.methods.registry import method_names

    if name is None:
        known = [describe(one) for one in method_names()]
        document(known) if as_json else _list(known)
        return
    about = describe(name)
    document(about) if as_json else _print(about)


def describe(name: str) -> dict[str, Any]:
    """What a method says of itself, and its settings with their defaults."""
    from dataclasses import asdict

    from scdh.methods.registry import method_class

    method = method_class(name)
    settings = [
        {"name": key, "default": field.get_default(call_default_factory=True), "what": field.description or ""}
        for key, field in method.Settings.model_fields.items()
    ]
    about = asdict(method.about) | {"labels": list(method.about.labels)}
    return {"name": name, **about, "trained": method.learns_by_gradient, "settings": settings}


def _list(known: list[dict[str, Any]]) -> None:
    columns = ("name", "kind", "year", "labels", "cost per step", "fidelity")
    rows = [
        (
            about["name"],
            about["kind"],
            about["year"],
            ", ".join(about["labels"]),
            about["cost"],
            about["faithful"],
        )
        for about in known
    ]
    table(columns, rows, right=("year",))
    result("B: batch, C: classes, r: bits. `scdh methods NAME` shows its paper and settings.")


def _print(about: dict[str, Any]) -> None:
    result(f"{about['title']} ({about['kind']}, {about['year']}): {about['reference']}")
    way = "trained step by step" if about["trained"] else "fitted to features at once"
    result(f"Labels: {', '.join(about['labels'])}. Cost: {about['cost']}. It is {way}; {about['faithful']}.")
    if not about["settings"]:
        result("It has no settings of its own.")
        return
    rows = [(f"method.{s['name']}", s["default"], s["what"]) for s in about["settings"]]
    table(("setting", "default", "what"), rows)

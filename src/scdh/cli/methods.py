"""``scdh methods``: which ways to learn codes there are, and what can be set in each."""

from typing import Annotated, Any

import typer

from scdh.cli.options import Json
from scdh.cli.show import document, remark, result, table
from scdh.errors import ConfigError

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
        known = []
        for one in method_names():
            try:
                known.append(describe(one))
            except ConfigError as error:  # another package's method that does not load must not hide the others
                remark(f"Warning: {error}")
        known.sort(key=_order)
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
    way = {"trained": method.learns_by_gradient, "unlabelled": method.learns_from_unlabelled}
    return {"name": name, **about, **way, "settings": settings}


def _order(about: dict[str, Any]) -> tuple[bool, bool, str, int, str]:
    """The paper's own first, then what is trained by kind and year, and last what is fitted at once."""
    return ("scdh" not in about["name"], not about["trained"], about["kind"], about["year"], about["name"])


def _list(known: list[dict[str, Any]]) -> None:
    columns = ("name", "kind", "year", "labels", "unlabelled", "cost per step", "fidelity", "reference")
    rows = [
        (
            about["name"],
            about["kind"],
            about["year"],
            ", ".join(about["labels"]),
            "yes" if about["unlabelled"] else "no",
            about["cost"],
            about["faithful"],
            _short(about["reference"]),
        )
        for about in known
    ]
    table(columns, rows, right=("year",))
    result("B: batch, C: classes, r: bits, n: training rows. Unlabelled: rows without label are learned from too.")
    result("`scdh methods NAME` shows the paper and settings of one; `scdh compare` puts several side by side.")


def _short(reference: str) -> str:
    """Authors and place, without the title between."""
    parts = reference.split(", ")
    return reference if len(parts) < 3 else f"{parts[0]}, {parts[-1]}"


def _print(about: dict[str, Any]) -> None:
    result(f"{about['title']} ({about['kind']}, {about['year']}): {about['reference']}")
    way = "trained step by step" if about["trained"] else "fitted to features at once"
    without = "Rows without label are learned from too" if about["unlabelled"] else "Rows without label are left out"
    result(f"Labels: {', '.join(about['labels'])}. {without}. Cost: {about['cost']}.")
    result(f"It is {way}; {about['faithful']}.")
    if not about["settings"]:
        result("It has no settings of its own.")
        return
    rows = [(f"method.{s['name']}", s["default"], s["what"]) for s in about["settings"]]
    table(("setting", "default", "what"), rows)

"""``scdh methods``: the methods that learn codes, and the settings of each."""

from typing import Annotated, Any

import typer

from scdh.cli.completion import complete_method
from scdh.cli.options import Json
from scdh.cli.output import print_json, print_line, print_note, print_table
from scdh.errors import ConfigError

EXAMPLES = ("scdh methods", "scdh methods scdh", "scdh methods --json")


def methods(
    name: Annotated[
        str | None, typer.Argument(help="Show the settings of this method.", autocompletion=complete_method)
    ] = None,
    as_json: Json = False,
) -> None:
    """List the methods that learn codes, or the settings of one.

    A setting is given as `scdh train --set method.NAME=VALUE`, or in the [method] part of a TOML file.
    """
    from scdh.methods.declared import method_names

    if name is None:
        descriptions = []
        for method in method_names():
            try:
                descriptions.append(describe(method))
            except ConfigError as error:  # another package's method that does not load must not hide the others
                print_note(f"Warning: {error}")
        descriptions.sort(key=_sort_key)
        print_json(descriptions) if as_json else _print_list(descriptions)
        return
    description = describe(name)
    print_json(description) if as_json else _print_description(description)


def describe(name: str) -> dict[str, Any]:
    """A method's own description, and its settings with their defaults, ready for JSON."""
    from dataclasses import asdict

    from scdh.methods.declared import declared

    method = declared(name)
    settings = [
        {"name": key, "default": field.get_default(call_default_factory=True), "what": field.description or ""}
        for key, field in method.Settings.model_fields.items()
    ]
    return {
        "name": name,
        **asdict(method.about),
        "labels": list(method.about.labels),
        "needs_labels": method.needs_labels,
        "trained": method.learns_by_gradient,
        "unlabelled": method.learns_from_unlabelled,
        "settings": settings,
    }


def _sort_key(description: dict[str, Any]) -> tuple[bool, bool, str, int, str]:
    """The paper's own first, then trained methods by kind and year, then fitted ones."""
    return (
        "scdh" not in description["name"],
        not description["trained"],
        description["kind"],
        description["year"],
        description["name"],
    )


def _print_list(descriptions: list[dict[str, Any]]) -> None:
    columns = ("name", "kind", "year", "labels", "unlabelled", "cost per step", "fidelity", "reference")
    rows = [
        (
            description["name"],
            description["kind"],
            description["year"],
            _labels(description),
            "yes" if description["unlabelled"] else "no",
            description["cost"],
            _fidelity(description),
            _without_title(description["reference"]),
        )
        for description in descriptions
    ]
    print_table(columns, rows, right=("year",))
    print_line("B: batch, C: classes, r: bits, n: training rows. Unlabelled: rows without label are learned from too.")
    print_line("`scdh methods NAME` shows the paper and settings of one; `scdh compare` puts several side by side.")


def _labels(description: dict[str, Any]) -> str:
    return ", ".join(description["labels"]) if description["needs_labels"] else "none needed"


def _fidelity(description: dict[str, Any]) -> str:
    return ": ".join(part for part in (description["fidelity"], description["differs"]) if part)


def _without_title(reference: str) -> str:
    """Authors and venue of a reference."""
    parts = reference.split(", ")
    return reference if len(parts) < 3 else f"{parts[0]}, {parts[-1]}"


def _print_description(description: dict[str, Any]) -> None:
    print_line(f"{description['title']} ({description['kind']}, {description['year']}): {description['reference']}")
    way = "trained step by step" if description["trained"] else "fitted to features at once"
    without = (
        "Rows without label are learned from too"
        if description["unlabelled"]
        else "Rows without label are left out"
        if description["needs_labels"]
        else "Data without any label will do"
    )
    print_line(f"Labels: {_labels(description)}. {without}. Cost: {description['cost']}.")
    print_line(f"It is {way}; {_fidelity(description)}. Use it when {description['use_when']}.")
    if not description["settings"]:
        print_line("It has no settings of its own.")
        return
    rows = [(f"method.{s['name']}", s["default"], s["what"]) for s in description["settings"]]
    print_table(("setting", "default", "what"), rows)

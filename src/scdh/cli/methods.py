"""``scdh methods``: list the methods that learn codes, or describe one."""

import shutil
import textwrap
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from scdh.cli.completion import complete_method
from scdh.cli.options import Json
from scdh.cli.output import print_json, print_line, print_note, print_table
from scdh.errors import ConfigError

EXAMPLES = ("scdh methods", "scdh methods scdh", "scdh methods --json")
OWN = "the paper's own"
# Kinds of methods in the order of the list, each with a short explanation; other kinds come before the last two.
GROUPS = {
    OWN: "Semantic Cluster Unary Loss for Efficient Deep Hashing, its variants and ablations",
    "unary": "each item by itself, against classes or learned centres",
    "fixed centres": "each item against a fixed target code",
    "pairwise": "pairs of items, similar or not",
    "triplet": "an item with a similar and a dissimilar one",
    "semi-supervised": "unlabelled rows are used too",
    "discrete": "codes are solved for, and a function is fitted to them",
    "unsupervised": "no labels are needed",
    "data-independent": "nothing is learned",
}
LAST_GROUPS = ("unsupervised", "data-independent")
WIDEST = 120
MOST_DIGITS = 8  # with the decimal point; longer numbers are shown as fractions


def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="Show equation, fidelity and settings of this method.", autocompletion=complete_method),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the methods that learn codes, or show one: its equation, when to use it, what differs from its paper.

    A setting is given as `scdh train --set method.NAME=VALUE`, or in the [method] part of a TOML file.
    """
    if name is None:
        descriptions = describe_all()
        print_json(descriptions) if as_json else _print_list(descriptions)
        return
    description = describe(name)
    print_json(description) if as_json else _print_description(description)


def describe_all() -> list[dict[str, Any]]:
    """Descriptions of all methods: by group, trained ones first, then by year and name."""
    from scdh.methods.registry import method_names

    descriptions = []
    for method in method_names():
        try:
            descriptions.append(describe(method))
        except ConfigError as error:  # another package's method that does not load must not hide the others
            print_note(f"Warning: {error}")
    return sorted(descriptions, key=_sort_key)


def describe(name: str) -> dict[str, Any]:
    """A method's own description, and its settings with their defaults, ready for JSON."""
    from dataclasses import asdict

    from scdh.methods.explanation import explanation_of
    from scdh.methods.registry import method_class

    method = method_class(name)
    settings = [
        {"name": key, "default": field.get_default(call_default_factory=True), "what": field.description or ""}
        for key, field in method.Settings.model_fields.items()
    ]
    return {
        "name": name,
        **asdict(method.about),
        "group": group_of(name, method.about.kind),
        **asdict(explanation_of(name)),
        "labels": list(method.about.labels),
        "needs_labels": method.needs_labels,
        "trained": method.learns_by_gradient,
        "unlabelled": method.learns_from_unlabelled,
        "ranking": method.ranking,
        "settings": settings,
        "tuned": {
            key if "." in key else f"method.{key}": list(values) for key, values in method.tuned_settings.items()
        },
        "suited": {
            kind: {f"method.{key}": value for key, value in settings.items()}
            for kind, settings in method.suited_settings.items()
        },
    }


def group_of(name: str, kind: str) -> str:
    """Heading that a method is listed under.

    >>> group_of("scdh_c", "unary"), group_of("dsh", "pairwise"), group_of("x", "pairwise, semi-supervised")
    ("the paper's own", 'pairwise', 'semi-supervised')
    """
    if "scdh" in name:
        return OWN
    words = kind.split(", ")
    return next((word for word in ("semi-supervised", *LAST_GROUPS) if word in words), words[0])


def by_group(descriptions: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group → its methods, in the order of the descriptions."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for description in descriptions:
        groups.setdefault(description["group"], []).append(description)
    return groups


def _sort_key(description: dict[str, Any]) -> tuple[int, str, bool, bool, int, str]:
    """The paper's own first, groups without trained methods last."""
    group = description["group"]
    known = list(GROUPS).index(group) if group in GROUPS else -1
    place = len(GROUPS) + known if group in LAST_GROUPS else len(GROUPS) - 1 if known < 0 else known
    is_first, is_fitted = description["name"] == "scdh", not description["trained"]
    return place, group, is_fitted, not is_first, description["year"], description["name"]


def _print_list(descriptions: list[dict[str, Any]]) -> None:
    name_width = max(len(description["name"]) for description in descriptions)
    _print_text("Name, year, how near to the publication it is, and what differs from it:")
    print_line()
    for group, members in by_group(descriptions).items():
        meaning = f" ({GROUPS[group]})" if group in GROUPS else ""
        _print_text(f"{group[0].upper()}{group[1:]}{meaning}", hanging=2)
        for member in members:
            start = f"  {member['name']:{name_width}}  {member['year']}  {member['fidelity']:14}  "
            _print_text(start + _remarks(member), hanging=len(start))
        print_line()
    _print_text(
        "faithful: as published, except for small differences that are listed; variant: a difference changes "
        "results; reconstruction: the formulas are not known for certain. Methods take rows with one label or with "
        "several, unless stated otherwise."
    )
    _print_text(
        "`scdh methods NAME` shows equation, use and settings of one; `scdh compare` puts several side by side."
    )


def _remarks(description: dict[str, Any]) -> str:
    """What differs from the publication, and what else to know before choosing."""
    from scdh.codes import HAMMING

    remarks = [description["differs"] or "nothing differs"]
    if description["needs_labels"] and len(description["labels"]) == 1:
        remarks.append(f"{description['labels'][0]}-label data only")
    if description["bits_multiple"] > 1:
        remarks.append(f"multiples of {description['bits_multiple']} bits only")
    if description["unlabelled"]:
        remarks.append("learns from unlabelled rows too")
    if not description["needs_labels"] and description["trained"]:
        remarks.append("trained without labels")
    if description["ranking"] != HAMMING:
        remarks.append("a distance of its own: `scdh search` needs --model")
    return "; ".join(remarks)


def _print_text(text: str, hanging: int = 0) -> None:
    """Lines as wide as the terminal; those after the first are indented."""
    width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
    indent = " " * min(hanging, width // 2)
    print_line(textwrap.fill(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False))


def value_text(value: Any) -> str:
    """A value of a setting; a number with many digits as 1/n if it is such a fraction, otherwise with three digits.

    >>> value_text(1 / 55), value_text(0.1 + 0.2), value_text(10 / 3), value_text(0.0089), value_text(None)
    ('1/55', '0.3', '3.33', '0.0089', 'None')
    """
    if not isinstance(value, float) or len(repr(value)) <= MOST_DIGITS:
        return str(value)
    part = round(1 / value)
    return f"1/{part}" if part and 1 / part == value else f"{value:.3g}"


def suited_text(suited: dict[str, dict[str, Any]]) -> str:
    """Values that go before the defaults on some kinds of data.

    >>> suited_text({"embeddings": {"method.alpha": 0.5}, "many labels": {"method.mu": 0.1, "method.lam": 0.001}})
    'embeddings: method.alpha 0.5; many labels: method.mu 0.1, method.lam 0.001'
    """
    return "; ".join(
        f"{kind}: {', '.join(f'{key} {value_text(value)}' for key, value in settings.items())}"
        for kind, settings in suited.items()
    )


def ranking_text(ranking: str) -> str:
    """How to search codes that are ranked by a distance other than Hamming distance; "" for Hamming distance."""
    from scdh.codes import HAMMING

    if ranking == HAMMING:
        return ""
    return (
        f"by {ranking}, not by {HAMMING}: the model computes it, so `scdh search` needs --model for every query; "
        "there is no radius, and search engines do not take the codes"
    )


def _print_description(description: dict[str, Any]) -> None:
    _print_text(f"{description['title']}: {description['sentence'] or description['kind']}")
    _print_text(f"{description['kind']}, {description['year']}: {description['reference']}")
    if description["equation"]:
        print_line(f"\n{textwrap.indent(description['equation'], '    ')}\n")
    for paragraph in description["paragraphs"]:
        _print_text(paragraph)
    way = "trained step by step" if description["trained"] else "fitted to features at once"
    _print_text(f"Use it when {description['use_when'] or 'nothing else is known'}. It is {way}.")
    differs = f" What differs: {description['differs']}." if description["differs"] else ""
    _print_text(f"Fidelity: {description['fidelity']}.{differs}")
    kinds = " or ".join({"single": "one", "multi": "several"}[kind] for kind in description["labels"])
    labels = f"{kinds} per row" if description["needs_labels"] else "none needed"
    _print_text(f"Labels: {labels}. {_without_label(description)}. Cost: {description['cost']}.")
    if text := ranking_text(description["ranking"]):
        _print_text(f"Ranked {text}.")
    if description["suited"]:
        _print_text(f"Without a preset or file, on {suited_text(description['suited'])}.")
    if any("§" in paragraph for paragraph in description["paragraphs"]):
        _print_text("§ marks what the publication leaves open, and what is done here.")
    if description["tuned"]:
        tuned = "; ".join(f"{key} {', '.join(map(value_text, values))}" for key, values in description["tuned"].items())
        _print_text(f"Worth tuning (`scdh compare --tune grid`): {tuned}.")
    if not description["settings"]:
        print_line("It has no settings of its own.")
        return
    rows = [(f"method.{s['name']}", value_text(s["default"]), s["what"]) for s in description["settings"]]
    print_table(("setting", "default", "what"), rows)


def _without_label(description: dict[str, Any]) -> str:
    if description["unlabelled"]:
        return "Learns from unlabelled rows too"
    return "Unlabelled rows are left out" if description["needs_labels"] else "Works on data without labels"

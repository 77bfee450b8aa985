"""Write docs/methods.md from what the methods declare and their docstrings: ``python docs/make_methods.py``.

A test checks that the page is up to date. Methods of other packages are not on it.
"""

import re
from pathlib import Path
from typing import Any

from scdh.cli.methods import GROUPS, by_group, describe_all, ranking_text, suited_text, value_text
from scdh.experiments.pages.markdown import escape_markdown, markdown_table
from scdh.methods.registry import built_in_names

PAGE = Path(__file__).parent / "methods.md"
INTRODUCTION = """# Methods

Made by `python docs/make_methods.py` from what each method's file says. `scdh methods` lists them, `scdh methods NAME`
shows one; `scdh train --method NAME` takes one, and [compare.md](compare.md) explains how to compare several.

**Faithful**: as published, except for small differences that are listed. **Variant**: a difference changes results.
**Reconstruction**: the formulas are not known for certain. § marks what a publication leaves open, and what is done
here.

In equations u are the real outputs of the network for an item (r numbers), b or sgn(u) is its code, y its label or Y
its labels; s = 1 where two items share a label, else 0; l_1 is the softmax cross-entropy of class scores, σ the
sigmoid. In costs B is the batch, C the number of classes, r that of bits and n that of training rows. *To tune* are the
values of `scdh compare --tune grid`, nine combinations per method. *Suited* values are taken in place of the defaults
if neither a preset nor a file of settings is given ([defaults.md](defaults.md))."""


def render() -> str:
    methods = [method for method in describe_all() if method["name"] in built_in_names()]
    overview = [
        [
            f"[{escape_markdown(method['title'])}](#{method['name']})",
            method["group"],
            str(method["year"]),
            method["fidelity"],
            escape_markdown(method["use_when"]),
        ]
        for method in methods
    ]
    parts = [INTRODUCTION, markdown_table(["method", "group", "year", "fidelity", "use it when"], overview, range(5))]
    for group, members in by_group(methods).items():
        meaning = GROUPS.get(group, "")
        parts += [f"## {group[0].upper()}{group[1:]}", f"{meaning[0].upper()}{meaning[1:]}." if meaning else ""]
        for method in members:
            parts += describe_method(method)
    return "\n\n".join(part for part in parts if part) + "\n"


def describe_method(method: dict[str, Any]) -> list[str]:
    """The parts of one method's section."""
    sentence = method["sentence"] or method["title"]
    differs = f". What differs: {method['differs']}" if method["differs"] else ""
    return [
        f"### {method['name']}",
        _text(f"{method['title']}: {sentence}"),
        f"```text\n{method['equation']}\n```" if method["equation"] else "",
        _text(" ".join(method["paragraphs"])),
        "\n".join(
            [
                f"- **Use it when** {escape_markdown(method['use_when'])}.",
                f"- **Fidelity**: {escape_markdown(method['fidelity'] + differs)}.",
                f"- **Reference**: {escape_markdown(method['reference'])}.",
                f"- **Cost**: {escape_markdown(_cost(method))}.",
                f"- **Labels**: {_labels(method)}.",
                *([f"- **Bits**: multiples of {method['bits_multiple']}."] if method["bits_multiple"] > 1 else []),
                *([f"- **Ranked** {_text(text)}."] if (text := ranking_text(method["ranking"])) else []),
                f"- **To tune**: {_tuned(method)}.",
                *([f"- **Suited**: {escape_markdown(suited_text(method['suited']))}."] if method["suited"] else []),
            ]
        ),
        _settings_table(method["settings"]),
    ]


def _text(text: str) -> str:
    """Words between backquotes are code, the rest is escaped."""
    parts = text.split("`")
    return "".join(f"`{part}`" if n % 2 else _escape_part(part) for n, part in enumerate(parts))


def _escape_part(text: str) -> str:
    """As :func:`escape_markdown`, with the spaces at both ends."""
    escaped = escape_markdown(f"x{text}x")
    return escaped[1:-1]


def _cost(method: dict[str, Any]) -> str:
    """The cost: the first clause is that of a step, further ones say when other work is done."""
    if not method["trained"]:
        return f"{method['cost']}; fitted at once"
    first = re.split("[;,]", method["cost"], maxsplit=1)[0]
    return f"{first} per step{method['cost'].removeprefix(first)}"


def _labels(method: dict[str, Any]) -> str:
    if not method["needs_labels"]:
        return "none needed"
    kinds = " or ".join({"single": "one", "multi": "several"}[kind] for kind in method["labels"])
    return f"{kinds} per row" + ("; it also learns from rows without a label" if method["unlabelled"] else "")


def _tuned(method: dict[str, Any]) -> str:
    texts = [f"`{key}` {', '.join(map(value_text, values))}" for key, values in method["tuned"].items()]
    return "; ".join(texts) or "nothing"


def _settings_table(settings: list[dict[str, Any]]) -> str:
    if not settings:
        return "It has no settings of its own."
    rows = [[f"`method.{s['name']}`", f"`{value_text(s['default'])}`", escape_markdown(s["what"])] for s in settings]
    return markdown_table(["setting", "default", "what"], rows, range(3))


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")

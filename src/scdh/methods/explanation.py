"""Read the explanation in a method's file: a sentence, the equation and further paragraphs.

The docstring of the file begins with ``NAME: sentence``; a block that is indented by four spaces is the equation. If
there is none, as for methods that are fitted in one go, the docstring of ``fit`` says what is computed.
"""

import inspect
import sys
import textwrap
from dataclasses import dataclass

from scdh.methods.registry import method_class

INDENT = "    "


@dataclass(frozen=True)
class Explanation:
    """The explanation of a method."""

    sentence: str
    equation: str
    paragraphs: list[str]


def explanation_of(name: str) -> Explanation:
    """The explanation in a method's file; raises :class:`ConfigError` for an unknown name."""
    method = method_class(name)
    of_file = explain(inspect.cleandoc(sys.modules[method.__module__].__doc__ or ""))
    own_fit = vars(method).get("fit")
    if of_file.equation or own_fit is None or own_fit.__doc__ is None:
        return of_file
    of_fit = explain(inspect.cleandoc(own_fit.__doc__))
    return Explanation(of_file.sentence, of_fit.equation, [*of_file.paragraphs, of_fit.sentence, *of_fit.paragraphs])


def explain(docstring: str) -> Explanation:
    """The parts of a docstring.

    >>> explain("DSH: Deep Hashing, by pairs.\\n\\n    min  l(u)\\n\\nu is\\nreal.")
    Explanation(sentence='Deep Hashing, by pairs.', equation='min  l(u)', paragraphs=['u is real.'])
    """
    sentence = ""
    equations: list[str] = []
    paragraphs: list[str] = []
    for block in docstring.replace("``", "`").split("\n\n"):
        if not block.strip():
            continue
        if block.startswith(INDENT):
            equations.append(textwrap.dedent(block).rstrip())
        elif sentence:
            paragraphs.append(" ".join(block.split()))
        else:
            sentence = " ".join(block.split())
    name, colon, rest = sentence.partition(": ")
    is_named = bool(colon) and len(name.split()) < 4
    return Explanation(rest if is_named else sentence, "\n".join(equations), paragraphs)

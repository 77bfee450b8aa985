"""What the file of a method says of it: a sentence, the equation and further text. Imports no torch for methods of this
folder.

The docstring of the file begins with ``NAME: sentence``; a block that is indented by four spaces is the equation. Where
there is none, as of methods that are fitted at once, the docstring of ``fit`` says what is computed.
"""

import ast
import inspect
import sys
import textwrap
from dataclasses import dataclass

from scdh.methods.declared import is_class_of, names_of_this_folder, offered, parsed_file

INDENT = "    "


@dataclass(frozen=True)
class Explanation:
    """What a method is.

    Args:
        sentence: what it is called in full, or what it does.
        equation: what it minimises, as plain text of one or more lines; "" where its file has none.
        paragraphs: the rest, each on one line.
    """

    sentence: str
    equation: str
    paragraphs: list[str]


def explained(name: str) -> Explanation:
    """What the file of a method says of it; an unknown name is refused."""
    of_file, of_fit = _docstrings(name)
    explanation = explain(of_file)
    if explanation.equation or not of_fit:
        return explanation
    of_function = explain(of_fit)
    paragraphs = [*explanation.paragraphs, of_function.sentence, *of_function.paragraphs]
    return Explanation(explanation.sentence, of_function.equation, paragraphs)


def explain(docstring: str) -> Explanation:
    """A docstring in its parts.

    >>> explain("DSH: Deep Hashing, by pairs.\\n\\n    min  l(u)\\n\\nu is\\nreal.")
    Explanation(sentence='Deep Hashing, by pairs.', equation='min  l(u)', paragraphs=['u is real.'])
    """
    sentence, equations, paragraphs = "", [], []
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


def _docstrings(name: str) -> tuple[str, str]:
    """Of the file of a method, and of its ``fit``; "" where there is none."""
    if name in names_of_this_folder() and name not in offered(tuple(sys.path)):
        tree = parsed_file(name)
        functions = (
            function
            for node in tree.body
            if isinstance(node, ast.ClassDef) and is_class_of(node.name, name)
            for function in node.body
            if isinstance(function, ast.FunctionDef) and function.name == "fit"
        )
        function = next(functions, None)
        return ast.get_docstring(tree) or "", (ast.get_docstring(function) or "") if function else ""
    from scdh.methods.registry import method_class

    method = method_class(name)
    of_fit = inspect.getdoc(method.fit) if "fit" in vars(method) else None
    return inspect.cleandoc(sys.modules[method.__module__].__doc__ or ""), of_fit or ""

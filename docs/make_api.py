"""Write docs/api.md from the docstrings of the public names: ``python docs/make_api.py``.

A test checks that the page is up to date, and that every argument of every public function is described.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent / "api.md"
CHAPTERS = {
    "Models": [
        "scdh.training.train:train",
        "scdh.model.hasher:Hasher",
        "scdh.estimator:HashTransformer",
        "scdh.estimator:SCDHTransformer",
    ],
    "Codes and search": [
        "scdh.codes:Codes",
        "scdh.index:HammingIndex",
        "scdh.index:Hits",
        "scdh.index:RaggedHits",
        "scdh.index.store:IndexWriter",
        "scdh.index.milvus:MilvusIndex",
    ],
    "Service": [
        "scdh.serve.client:Client",
        "scdh.serve.client:QueryAnswer",
        "scdh.serve.client:FoundItem",
    ],
    "Scores": ["scdh.evaluation:evaluate", "scdh.evaluation:evaluate_distances", "scdh.evaluation:Scores"],
    "Data and settings": ["scdh.config:load_config", "scdh.data.open:open_source", "scdh.errors:ScdhError"],
    "Losses": [
        "scdh.losses:scul",
        "scdh.losses:scul_hinge",
        "scdh.losses:scul_own",
        "scdh.losses:softmax_loss",
        "scdh.losses:own_softmax_loss",
        "scdh.losses:quantization_loss",
        "scdh.losses:consistency_loss",
        "scdh.losses:contrastive_loss",
        "scdh.losses:pair_likelihood_loss",
        "scdh.losses:batch_likelihood_loss",
        "scdh.losses:cauchy_pair_loss",
        "scdh.losses:cauchy_corner_loss",
        "scdh.losses:similar_pair_loss",
        "scdh.losses:triplet_hinge_loss",
        "scdh.losses:central_similarity_loss",
        "scdh.losses:cosine_margin_loss",
        "scdh.losses:target_likelihood_loss",
        "scdh.losses:polarization_loss",
        "scdh.losses:inner_product_loss",
        "scdh.losses:centre_loss",
        "scdh.losses:sign_distance_loss",
        "scdh.losses:triplet_ranking_loss",
        "scdh.losses:unary_upper_bound",
        "scdh.losses:SemanticClusterUnaryLoss",
    ],
}
SECTIONS = ("Args", "Attributes", "Returns", "Raises")


@dataclass
class Docstring:
    """A docstring in its parts; ``sections`` has (name, text) pairs for Args, Attributes and Raises."""

    text: str = ""
    returns: str = ""
    sections: dict[str, dict[str, str]] = field(default_factory=dict)


def parse(docstring: str | None) -> Docstring:
    parsed = Docstring()
    name = ""
    lines: list[str] = []

    def close() -> None:
        body = inspect.cleandoc("\n" + "\n".join(lines))
        if not name:
            parsed.text = body
        elif name == "Returns":
            parsed.returns = " ".join(body.split())
        else:
            parsed.sections[name] = dict(_entries(body))

    for line in inspect.cleandoc(docstring or "").splitlines():
        heading = re.fullmatch(r"(\w+):", line)
        is_example = line.startswith(">>>")
        if heading and heading.group(1) in SECTIONS:
            close()
            name, lines = heading.group(1), []
        elif name and (is_example or (line and not line.startswith(" "))):
            close()
            break
        else:
            lines.append(line)
    else:
        close()
    parsed.text = re.split(r"^>>>", parsed.text, flags=re.MULTILINE)[0].strip()
    return parsed


def _entries(body: str) -> Iterator[tuple[str, str]]:
    for entry in re.split(r"\n(?=\S)", body):
        names, _, text = entry.partition(":")
        for name in names.split(","):
            yield name.strip().strip("`"), " ".join(text.split())


def resolve(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def methods(owner: type) -> dict[str, Any]:
    """Public methods that the class, or a base of this package, defines."""
    found = {}
    for base in reversed(owner.__mro__):
        if base.__module__.startswith("scdh"):
            for name, value in vars(base).items():
                function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                if inspect.isfunction(function) and not name.startswith("_") and inspect.getdoc(function):
                    found[name] = function
    return {name: function for name, function in found.items() if function.__name__ == name}


def parameters(function: Any) -> list[str]:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = inspect.signature(function).parameters
    return [name for name, value in names.items() if name not in ("self", "cls") and value.kind not in kinds]


def undescribed() -> list[str]:
    """Arguments of public functions and methods that no docstring describes."""
    missing = []
    for path in (path for paths in CHAPTERS.values() for path in paths):
        value = resolve(path)
        functions = (
            {path: value} if inspect.isfunction(value) else {f"{path}.{n}": f for n, f in methods(value).items()}
        )
        if inspect.isclass(value) and not issubclass(value, Exception):
            documented = [parse(text) for base in value.__mro__ for text in (base.__doc__, base.__init__.__doc__)]
            described = {
                name for one in documented for key in ("Args", "Attributes") for name in one.sections.get(key, ())
            }
            names = [name for name in parameters(value) if not name.startswith("_")]
            missing += [f"{path}({name})" for name in names if name not in described]
        for name, function in functions.items():
            documented = parse(function.__doc__)
            in_text = set(re.findall(r"``(\w+)``", documented.text))
            known = set(documented.sections.get("Args", {})) | in_text
            missing += [f"{name}({argument})" for argument in parameters(function) if argument not in known]
    return missing


def render() -> str:
    parts = [
        "# Reference\n\nMade from the docstrings by `python docs/make_api.py`. Shapes: n items, q queries, r bits, "
        "B rows of a batch, C classes, d the width of an embedding."
    ]
    for chapter, paths in CHAPTERS.items():
        parts.append(f"## {chapter}")
        for path in paths:
            parts += _render(path)
    page = "\n\n".join(part for part in parts if part) + "\n"
    page = re.sub(r"(?<!`)``(?!`)", "`", page)  # Markdown has one kind of code
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", page)


def _render(path: str) -> list[str]:
    value, name = resolve(path), path.partition(":")[2]
    module = "scdh.losses." if path.startswith("scdh.losses") else "scdh."
    module = module if hasattr(importlib.import_module(module.strip(".")), name) else path.partition(":")[0] + "."
    if not inspect.isclass(value):
        return [f"### `{module}{name}`", f"```python\n{_signature(name, value)}\n```", *_describe(value.__doc__)]
    parts = [f"### `{module}{name}`"]
    if not issubclass(value, Exception):
        parts.append(f"```python\n{_signature(name, value)}\n```")
    documented = parse(value.__doc__)
    if "Args" not in documented.sections and inspect.isfunction(value.__init__):
        documented.sections |= parse(value.__init__.__doc__).sections
    parts += _tables(documented)
    for method, function in methods(value).items():
        parts += [f"#### `{name}.{method}`", f"```python\n{_signature(method, function)}\n```"]
        parts += _describe(function.__doc__)
    return parts


def _describe(docstring: str | None) -> list[str]:
    return _tables(parse(docstring))


def _tables(documented: Docstring) -> list[str]:
    parts = [documented.text]
    for section, heading in (("Args", "argument"), ("Attributes", "attribute"), ("Raises", "raises")):
        rows = documented.sections.get(section)
        if rows:
            lines = [f"| `{name}` | {text.replace('|', chr(92) + '|')} |" for name, text in rows.items()]
            parts.append("\n".join([f"| {heading} | |", "|---|---|", *lines]))
    return [*parts, f"Returns: {documented.returns}" if documented.returns else ""]


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    shown = [
        value.replace(annotation=inspect.Parameter.empty)
        for value in signature.parameters.values()
        if value.name not in ("self", "cls")
    ]
    return f"{name}{signature.replace(parameters=shown, return_annotation=inspect.Signature.empty)}"


if __name__ == "__main__":
    PAGE.write_text(render(), "utf-8")

"""Control flow looks at the class and the attributes of an error, never at its text; errors of other libraries."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from scdh.cli.app import explain
from scdh.errors import is_out_of_memory


def test_memory_that_torch_cannot_allocate_is_one_sentence() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 50)
    for error in (raised.value, MemoryError(), torch.OutOfMemoryError("CUDA out of memory")):
        assert is_out_of_memory(error)
        assert explain(error)[1].startswith("Error: There is not enough memory; ")
    assert not is_out_of_memory(RuntimeError("shapes differ"))


SOURCE = Path(__file__).parents[1] / "src" / "scdh"
# Errors of other libraries that have no attribute for the cause.
ALLOWED = {
    "errors.py": "torch on a CPU reports that memory is short only in its text",
    "storage/files.py": "safetensors reports the number of an operating system error only in its text",
    "index/milvus/server.py": "pymilvus reports a wrong password or database only in its text",
}
TEXT_METHODS = {"startswith", "endswith", "find", "index", "count", "removeprefix", "partition"}
PATTERN_FUNCTIONS = {"search", "match", "fullmatch", "findall"}


def is_text_of(node: ast.AST, errors: set[str]) -> bool:
    """Whether an expression is ``str(error)``, ``repr(error)``, ``error.args`` or ``error.message``."""
    match node:
        case ast.Call(func=ast.Name(id="str" | "repr" | "_message"), args=[ast.Name(id=name)]):
            return name in errors
        case ast.Attribute(value=ast.Name(id=name), attr="args" | "message" | "msg"):
            return name in errors
    return False


def has_text(node: ast.AST, errors: set[str], texts: set[str]) -> bool:
    return any(is_text_of(part, errors) or (isinstance(part, ast.Name) and part.id in texts) for part in ast.walk(node))


def text_decisions(code: str) -> Iterator[int]:
    """Lines that compare the text of an exception with words."""
    for scope in ast.walk(ast.parse(code)):
        if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        errors = {node.name for node in ast.walk(scope) if isinstance(node, ast.ExceptHandler) and node.name}
        errors |= {one.arg for one in scope.args.args if one.arg in ("error", "cause", "exception")}
        texts = {
            node.targets[0].id
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and any(is_text_of(part, errors) for part in ast.walk(node.value))
        }
        for node in ast.walk(scope):
            match node:
                case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                    found = has_text(right, errors, texts) or has_text(left, errors, texts)
                case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                    sides = (left, right)
                    found = any(has_text(one, errors, texts) for one in sides) and any(
                        isinstance(one, ast.Constant) and isinstance(one.value, str) for one in sides
                    )
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=name), args=arguments):
                    found = name in PATTERN_FUNCTIONS and any(has_text(one, errors, texts) for one in arguments)
                case ast.Call(func=ast.Attribute(value=value, attr=name)):
                    found = name in TEXT_METHODS and has_text(value, errors, texts)
                case _:
                    found = False
            if found:
                yield node.lineno


@pytest.mark.parametrize(
    "decision",
    [
        'if "no id" in str(error): pass',
        'if "no id" not in error.args[0]: pass',
        'if str(error).startswith("x"): pass',
        'text = str(error)\n        if "a" in text: pass',
        're.search("a", str(error))',
        'if str(error) == "x": pass',
    ],
)
def test_the_check_finds_decisions_by_text(decision: str) -> None:
    assert list(text_decisions(f"def f():\n    try: g()\n    except E as error:\n        {decision}\n"))


def test_the_check_accepts_messages_that_are_passed_on() -> None:
    code = (
        "def f():\n    try: g()\n    except E as error:\n        raise F(f'{str(error).rstrip()}; more.') from None\n"
    )
    assert not list(text_decisions(code))


def test_no_decision_depends_on_the_text_of_an_error() -> None:
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        name = file.relative_to(SOURCE).as_posix()
        if lines := sorted(set(text_decisions(file.read_text("utf-8")))):
            found[name] = lines
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}
    assert found.keys() == ALLOWED.keys(), "remove files from ALLOWED that no longer need it"

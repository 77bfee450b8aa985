"""The source files that a kernel is compiled from: the file it is defined in, and those of all modules it imports.

A compiled kernel contains the code of the functions it calls and the values of the constants it reads, and it gets
both from its own module or from one that this module imports. Imports are read from the source, so nothing is loaded.
Modules of other packages (numpy, numba) are not followed: numba checks its own version.
"""

import ast
import hashlib
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]
# An import statement at the start of a line.
_IMPORT = re.compile(rb"^[ \t]*((?:from|import)[ \t][^\n(]*(?:\([^)]*\))?)", re.MULTILINE)


@cache
def source_digest(module: str, file: Path) -> str:
    """A digest of the text of ``file``, which defines ``module``, and of the modules it imports, at any depth.

    Imports of this package and of the package of ``module`` are followed. The location of the files does not matter.
    """
    digest = hashlib.sha256()
    for name, source_file in sorted(_source_files(module, file).items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(_read(source_file)[0]).digest())
    return digest.hexdigest()


def _source_files(module: str, file: Path) -> dict[str, Path]:
    """The files by name of module."""
    packages = {_PACKAGE, module.partition(".")[0]}
    files: dict[str, Path] = {}
    pending = [(module, file)]
    while pending:
        name, path = pending.pop()
        if name not in files:
            files[name] = path
            imports = _read(path)[1]
            for imported in {_absolute(name, path, *entry) for entry in imports}:
                imported_file = _module_file(imported) if imported.partition(".")[0] in packages else None
                if imported_file is not None:
                    pending.append((imported, imported_file))
    return files


@cache
def _read(file: Path) -> tuple[bytes, tuple[tuple[str, int], ...]]:
    """The text of a file, and the name and level (number of leading dots) of everything that it imports."""
    text = file.read_bytes()
    return text, tuple(_imports(text))


def _imports(text: bytes) -> Iterator[tuple[str, int]]:
    # Parsing the import statements alone is ten times as fast as parsing the file.
    statements = b"\n".join(_IMPORT.findall(text))
    try:
        tree = ast.parse(statements)
    except SyntaxError:  # a line of prose that begins with "from", or a statement over several lines
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                # ``import a.b`` gives access to ``a`` as well.
                yield from ((".".join(parts[:end]), 0) for end in range(1, len(parts) + 1))
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", node.level
            # ``from a import b``: b may be a module.
            prefix = f"{node.module}." if node.module else ""
            yield from ((prefix + alias.name, node.level) for alias in node.names)


def _absolute(module: str, file: Path, name: str, level: int) -> str:
    """The full name of what ``module`` imports."""
    if level == 0:
        return name
    parents = module.split(".")
    package = parents[: len(parents) - level + (file.name == "__init__.py")]
    return ".".join([*package, *([name] if name else [])])


def _module_file(name: str) -> Path | None:
    """The file of a module whose package is loaded; None if the name is not that of a module."""
    package, *path = name.split(".")
    for root in getattr(sys.modules.get(package), "__path__", ()):
        base = Path(root, *path)
        for file in (base / "__init__.py", base.with_name(f"{base.name}.py")):
            if file.is_file():
                return file
    return None

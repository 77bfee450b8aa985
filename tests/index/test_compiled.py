"""A compiled kernel is reused only while the text of everything it is compiled from is the same."""

import ast
import importlib
import os
import pickle
import sys
from pathlib import Path

import pytest
from numba import config

import scdh
from scdh.index.kernels import compiled, sources
from scdh.index.kernels.sources import _imports

PACKAGE = Path(scdh.__file__).parent


def write_package(folder, factor=2, power=2):
    """A kernel, the function it calls in another folder, and the constant which that one imports from a third."""
    files = {
        "shapes/__init__.py": "",
        "shapes/kernels/__init__.py": "",
        "shapes/kernels/area.py": (
            "from scdh.index.kernels.compiled import compiled\n"
            "from shapes.formulas import square\n"
            "@compiled\ndef area(x):\n    return square.scaled(x)\n"
        ),
        "shapes/formulas/__init__.py": "",
        "shapes/formulas/square.py": (
            "from numba import njit\n"
            "from ..constants import FACTOR\n"
            f"@njit\ndef scaled(x):\n    return FACTOR * x ** {power}\n"
        ),
        "shapes/constants.py": f"FACTOR = {factor}\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


@pytest.fixture
def run_kernel(monkeypatch):
    """Runs the kernel of a folder as a new process would: nothing of it is loaded, and no file is known.

    The function returns the kernel's result, and how many times it came from the cache.
    """
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python's own cache takes files of one second for the same

    def run(folder, cache="cache"):
        with monkeypatch.context() as patch:
            for name in [name for name in sys.modules if name.partition(".")[0] == "shapes"]:
                patch.delitem(sys.modules, name)
            importlib.invalidate_caches()
            patch.syspath_prepend(str(folder))
            patch.setattr(config, "CACHE_DIR", cache and str(folder / cache))
            patch.setattr(compiled, "_has_warned", False)
            sources.source_digest.cache_clear()
            sources._read.cache_clear()
            try:
                area = importlib.import_module("shapes.kernels.area").area
                return [area(3), sum(area.stats.cache_hits.values())]
            finally:
                for name in [name for name in sys.modules if name.partition(".")[0] == "shapes"]:
                    del sys.modules[name]

    yield run
    sources.source_digest.cache_clear()
    sources._read.cache_clear()


def test_a_kernel_is_compiled_again_when_a_file_it_depends_on_changes(tmp_path, run_kernel):
    write_package(tmp_path)
    assert run_kernel(tmp_path) == [18, 0]
    assert run_kernel(tmp_path) == [18, 1]
    write_package(tmp_path, power=3)
    assert run_kernel(tmp_path) == [54, 0]
    write_package(tmp_path, power=3, factor=5)
    assert run_kernel(tmp_path) == [135, 0]
    (tmp_path / "shapes/formulas/circle.py").write_text("PI = 3\n")  # not imported by the kernel
    assert run_kernel(tmp_path) == [135, 1]


def test_no_other_folder_is_used_if_the_cache_cannot_be_written(tmp_path, run_kernel):
    write_package(tmp_path)
    (tmp_path / "file").write_text("a file where a folder should be")
    assert run_kernel(tmp_path, "file") == [18, 0]
    assert run_kernel(tmp_path, "file") == [18, 0]
    write_package(tmp_path, power=3)
    assert run_kernel(tmp_path, "file") == [54, 0]
    assert not list(tmp_path.rglob("*.nb?"))


def test_without_a_home_each_process_compiles(tmp_path, run_kernel, monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    write_package(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    assert [run_kernel(tmp_path, ""), run_kernel(tmp_path, "")] == [[18, 0], [18, 0]]


@pytest.mark.parametrize(("files", "kept"), [("*.nbi", 0), ("*.nbc", 100)])
def test_a_damaged_cache_costs_a_compilation(tmp_path, run_kernel, files, kept):
    write_package(tmp_path)
    assert run_kernel(tmp_path) == [18, 0]
    (file,) = (tmp_path / "cache").rglob(files)
    file.write_bytes(file.read_bytes()[:kept])
    assert [run_kernel(tmp_path), run_kernel(tmp_path)] == [[18, 0], [18, 1]]


class Planted:
    """What numba would unpickle, and by that call."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def shared_by_mode(base, _leaf):
    base.chmod(0o777)


def shared_inside(_base, leaf):
    leaf.chmod(0o1777)


def linked(base, leaf):
    leaf.rename(base / "moved")
    leaf.symlink_to(base / "moved")


def of_another_user(_base, leaf):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(leaf, 65534, -1)


@pytest.mark.parametrize("share", [shared_by_mode, shared_inside, linked, of_another_user])
def test_a_file_planted_in_a_shared_cache_is_not_run(tmp_path, run_kernel, share):
    write_package(tmp_path)
    assert run_kernel(tmp_path) == [18, 0]
    (leaf,) = (tmp_path / "cache" / "scdh").iterdir()
    (index,) = leaf.rglob("*.nbi")
    index.write_bytes(pickle.dumps(Planted(tmp_path / "trace")))
    share(tmp_path / "cache", leaf)
    with pytest.warns(UserWarning, match="Compiled search loops are not kept: ") as warned:
        assert run_kernel(tmp_path) == [18, 0]
    assert len(warned) == 1
    assert not (tmp_path / "trace").exists()


def test_a_folder_below_a_sticky_one_is_used(tmp_path, run_kernel):
    write_package(tmp_path)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o1777)
    assert [run_kernel(tmp_path), run_kernel(tmp_path)] == [[18, 0], [18, 1]]
    assert (tmp_path / "cache" / "scdh").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_imports_are_read_as_the_parser_reads_them():
    for file in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
        modules = {(node.module or "", node.level) for node in nodes if isinstance(node, ast.ImportFrom)}
        modules |= {(alias.name, 0) for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        assert modules <= set(_imports(file.read_bytes())), file

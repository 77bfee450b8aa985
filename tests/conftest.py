"""Exports of the tests, and how tests share the processes of pytest-xdist that `make test` and `make check` start."""

import atexit
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

# Read by torch when it is imported, here and in the processes that tests start: one thread for each of them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
if "SCDH_EXPORT_DIR" not in os.environ:
    os.environ["SCDH_EXPORT_DIR"] = tempfile.mkdtemp(prefix="scdh-exports-")
    atexit.register(shutil.rmtree, os.environ["SCDH_EXPORT_DIR"], ignore_errors=True)
TESTS = Path(__file__).parent
FORKING = ("test_loaders.py", "test_sampling.py")


def group_of(file: Path) -> str:
    """One process runs the tests of a file, or of a folder with fixtures of its own: what they share is made once."""
    has_fixtures = (file.parent / "conftest.py").exists() and file.parent != TESTS
    return str(file.parent if has_fixtures else file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders and groups with many slow tests come first, so that no process is left with a long one at the end."""
    slow = Counter(group_of(item.path) for item in items if item.get_closest_marker("slow"))
    # torch forks worker processes in some tests; they come before all others, while no other library has threads.
    items.sort(
        key=lambda item: (
            item.path.name not in FORKING,
            group_of(item.path).endswith(".py"),
            -slow[group_of(item.path)],
        )
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out whole groups, in the order above. (``--dist loadgroup`` has no effect with pytest 9.2.)"""
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(config.rootpath / nodeid.partition("::")[0])

    config.option.loadscopereorder = False  # else by the number of tests, whatever they take
    return GroupScheduling(config, log)

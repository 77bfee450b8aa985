"""Which files of src/scdh a command passes between two functions: ``python -m tests.walks`` prints the three walks.

A walk starts where a function is called (the files of the calls above it count too) and ends where another one is
called. What runs when a module is loaded does not count. The walks are those of docs/architecture.md.
"""

import contextlib
import importlib
import pkgutil
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import scdh
from scdh.cli.app import main
from tests.data.data_files import write_pictures

PACKAGE = str(Path(scdh.__file__).parent) + "/"
OPTIMISED = 1  # flag of a code object that is a function's, not a module's or a class body's


def trace(command: list[str], start: str, end: str) -> list[str]:
    """Files in the order in which they are first passed; ``start`` and ``end`` are "file.py:function"."""
    files: dict[str, None] = {}
    state = {"started": False, "ended": False}

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or state["ended"] or (name := _function(frame)) is None:
            return
        if not state["started"] and name == start:
            state["started"] = True
            callers, caller = [], frame.f_back
            while caller is not None:
                callers.append(_function(caller))
                caller = caller.f_back
            files.update({name.split(":")[0]: None for name in reversed(callers) if name is not None})
        if state["started"]:
            files[name.split(":")[0]] = None
            state["ended"] = name == end

    for module in pkgutil.walk_packages(scdh.__path__, "scdh."):  # what an import calls is not part of a walk
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    _profile(profile)
    try:
        main(command)
    except SystemExit as end_of_command:
        _profile(None)
        if end_of_command.code:
            raise RuntimeError(f"{' '.join(command)} ended with {end_of_command.code}.") from None
    if not state["ended"]:
        raise RuntimeError(f"{' '.join(command)} did not pass {start} and {end}.")
    return list(files)


def _profile(function: Any) -> None:
    sys.setprofile(function)
    threading.setprofile(function)


def _function(frame: FrameType) -> str | None:
    code = frame.f_code
    if not code.co_filename.startswith(PACKAGE) or not code.co_flags & OPTIMISED:
        return None
    return f"{code.co_filename.removeprefix(PACKAGE)}:{code.co_name}"


def image_to_update(folder: Path) -> list[str]:
    """From the request for a batch to the first change of the weights, on photos and a network that is tuned."""
    photos = folder / "photos"
    write_pictures(photos, [f"{label}/{i}.png" for label in ("cat", "dog") for i in range(8)])
    settings = ["net.backbone=resnet18", "net.pretrained=false", "net.image_size=32", "net.freeze=false"]
    options = [part for setting in [*settings, "train.workers=0"] for part in ("--set", setting)]
    command = ["train", "--data", str(photos), "--bits", "8", "--epochs", "1", *options, "--out", str(folder / "run")]
    return trace(command, "training/data.py:batches", "methods/scdh.py:after_step")


def query_to_hits(folder: Path) -> list[str]:
    """From ``HammingIndex.search`` to its hits."""
    generator = np.random.default_rng(0)
    scdh.HammingIndex(scdh.Codes.from_signs(generator.normal(size=(100, 32)))).save(folder / "some.index")
    return trace(
        ["search", str(folder / "some.index"), "--row", "0"], "index/hamming.py:search", "index/hits.py:__iter__"
    )


def cell_of_a_comparison(folder: Path) -> list[str]:
    """From ``scdh compare`` to the results of a cell: the files above the model, as training is the first walk."""
    common = ["compare", "lsh", "--preset", "demo-digits", "--bits", "8", "--seeds", "0", "--out"]
    files = trace([*common, str(folder / "compared")], "cli/compare.py:compare", "experiments/compare/cell.py:results")
    return [file for file in files if file.split("/")[0] in ("cli", "experiments", "runs", "training")]


WALKS = {
    "An image to a weight update": image_to_update,
    "A query to hits": query_to_hits,
    "A cell of a comparison": cell_of_a_comparison,
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(sys.stderr):
        walks = {title: walk(Path(scratch)) for title, walk in WALKS.items()}
    for title, files in walks.items():
        print(f"{title}: {len(files)} files")
        print("\n".join(f"  {file}" for file in files))

"""``make bench``: run the benchmarks, store their rows in results.json, and write RESULTS.md and the figures from it.

Sections that are not run keep their older rows. ``--quick`` stores nothing unless --out names a folder. Search as on a
processor that is not at hand, here one with AVX2 and no AVX-512, is a section of its own:
``NUMBA_CPU_NAME=znver3 NUMBA_CPU_FEATURES= FAISS_SIMD_LEVEL=AVX2 python -m benchmarks.run --only search``.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from benchmarks import curves, report
from benchmarks.timing import Table
from scdh.index import thread_count

_HERE = Path(__file__).parent
MODULES = {"first": "first_search", "encode": "encoding"}  # of sections with a name of their own
WITH_TORCH = ("cost", "encode")  # take their threads from torch


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(report.SECTIONS), help="sections to run (default: all)")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer turns, in about a minute")
    parser.add_argument("--threads", type=int, help="for scdh, faiss and BLAS (default: all cores)")
    parser.add_argument("--out", type=Path, help="folder for results, report and figures (default: the project's)")
    parser.add_argument("--imagenet", type=int, help="queries of the ImageNet protocol (0: leave it out)")
    options = parser.parse_args(arguments)
    if "NUMBA_CPU_NAME" in os.environ and "NUMBA_CPU_FEATURES" not in os.environ:
        # numba would compile for that processor with the instructions of this one.
        parser.error("NUMBA_CPU_NAME needs NUMBA_CPU_FEATURES too; empty: what a processor of that name has.")
    threads = options.threads or thread_count()

    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or (Path(scratch) if options.quick else _HERE)
        figures = folder if options.out or options.quick else _HERE.parent / "docs" / "images"
        results = {}
        for section in options.only or report.SECTIONS:
            start = time.perf_counter()
            tables = measure(section, options, threads)
            # Stored after each section, so that a failure in a later one does not lose the earlier ones.
            results = report.keep(folder, section, tables, threads, options.quick)
            print(f"[{section}] done in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        curves.draw(results, figures)
        print(report.write(folder, results, figures))


def measure(section: str, options: argparse.Namespace, threads: int) -> list[Table]:
    """Each section imports what it needs: searching needs no torch, encoding no faiss."""
    module = import_module(f"benchmarks.{MODULES.get(section, section)}")
    plan = module.QUICK if options.quick else module.Plan()
    if section == "evaluation" and options.imagenet is not None:
        plan = replace(plan, large=(replace(module.IMAGENET, queries=options.imagenet),))
    if section not in WITH_TORCH:
        return module.measure(plan, threads)
    import torch

    torch.set_num_threads(threads)
    return module.measure(plan)


if __name__ == "__main__":
    main()

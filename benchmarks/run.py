"""``make bench``: run every benchmark and write benchmarks/RESULTS.md, with what the machine is."""

import argparse
import os
import platform
from pathlib import Path

import torch

from benchmarks import throughput


def machine() -> str:
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass  # other systems keep it elsewhere; the short name is good enough
    return f"{model}, {os.cpu_count()} cores, torch {torch.__version__} with {torch.get_num_threads()} threads"


def table(rows: list[dict[str, float | str]]) -> str:
    columns = list(rows[0])
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(v if isinstance(v, str) else f"{v:,.3g}" for v in row.values()) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a source of images (default: made-up 32×32 JPEGs)")
    parser.add_argument("--root", help="folder of a named benchmark")
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--images", type=int, default=640)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    rows = throughput.measure(options.data, options.root, options.size, options.images, options.repeats)
    text = (
        "# Benchmarks\n\nMade by `make bench`. Speed is a ratio to a named rival in the same run; absolute figures "
        f"only say what machine it was.\n\nMachine: {machine()}.\n\n"
        "## Data path against the bare network\n\nefficientnet_lite0, 32×32 JPEGs "
        f"({options.data or 'made up'}); the rival is the same network fed with ready tensors (encoding "
        "folds batch-norm into the convolutions, one rival does not, the other does); "
        f"median of {options.repeats} turns of {options.images} images.\n\n{table(rows)}\n"
    )
    Path(__file__).with_name("RESULTS.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()

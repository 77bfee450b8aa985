"""The demo's scores, mean and deviation over seeds: ``python -m research.seeds --data groceries --seeds 3``."""

import argparse
import tempfile
from pathlib import Path

from scdh.experiments.compare.results import ComparisonResults
from scdh.experiments.compare.summary import average
from scdh.experiments.compare.tables import format_score
from scdh.experiments.demo import PRESETS, compare_demo
from scdh.experiments.pages.markdown import markdown_table
from scdh.storage.json_files import read_table

COLUMNS = ("map", "map_best", "map_worst", "precision_at_radius", "precision_at_10", "l_q")


def to_markdown(results: ComparisonResults, out: Path) -> str:
    """Mean ± standard deviation (of the sample, n − 1) as a table to paste; ``out`` is the folder of the comparison."""
    rows = [
        [f"{row.title} {row.bits} bits", *(format_score(row, column) for column in COLUMNS)] for row in results.rows
    ]
    if results.floats is not None:
        files = (out / "floats" / f"{seed}.json" for seed in results.seeds)
        floats = [read_table(file, "the scores of the floats", "delete it")["floats"] for file in files]
        first_10, _ = average(scores["precision_at_k"]["10"] for scores in floats)
        rows.append([results.floats.title, f"{results.floats.map:.3f}", *["–"] * 3, f"{first_10:.3f}", "–"])
    return markdown_table(["method", *COLUMNS], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=list(PRESETS), default="groceries")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 32])
    parser.add_argument("--out", type=Path, help="folder for the runs (default: they are deleted at the end)")
    parser.add_argument("--cache", type=Path, help="folder that keeps the trunk's features")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = options.out or Path(scratch)
        results = compare_demo(options.data, out, options.bits, range(options.seeds), cache=options.cache)
        table = to_markdown(results, out)
    print(f"{options.data}, mean ± standard deviation over {options.seeds} seeds\n\n{table}")


if __name__ == "__main__":
    main()

"""MAP of the same codes ranked by bits and by the queries' real outputs: ``python -m research.both_rankings digits``.

SCDH with the settings of a preset at several lengths and seeds. Nothing is chosen here: each model is trained once, and
its queries are scored once by both rankings. Runs can be stopped and started again; a finished one is not repeated.
"""

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scdh.cli.options import read_settings
from scdh.config import load_config
from scdh.data.source import Source
from scdh.experiments.pages.markdown import markdown_table
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.scoring import score_run
from scdh.storage.files import replacing
from scdh.training.plan import settled_plan
from scdh.training.run import run_plan

BITS = (8, 12, 16, 32, 64)
# The preset of each data set, and further settings: 200 labelled digits with the steps of ``few_labels``.
DATA: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("demo-digits", {"data.labelled_per_class": 20, "train.epoch_steps": 100}),
    "groceries": ("demo-groceries", {}),
    "cifar10": ("cifar10-frozen", {}),
}

Row = dict[str, Any]


def run(
    data: str,
    out: Path,
    bits: Sequence[int] = BITS,
    seeds: Sequence[int] = (0, 1, 2),
    settings: Mapping[str, Any] | None = None,
    cache: Path | None = None,
) -> list[Row]:
    """One row a length and seed, with MAP of both rankings.

    Args:
        data: one of ``DATA``.
        out: folder of the runs.
        bits: lengths of the codes.
        seeds: each decides split, first weights and order.
        settings: further settings of all runs, by dotted key.
        cache: folder that keeps a frozen trunk's features (default: one below ``out``).
    """
    preset, own = DATA[data]
    given = {**own, **(settings or {})}
    source = None
    rows = []
    for length in bits:
        for seed in seeds:
            config = load_config(preset, overrides={**given, "method.bits": length, "seed": seed})
            source = source_of(config) if source is None else source
            place = RunFolder(out / data / f"{length}-bits-seed-{seed}")
            scores = _both(place, config, source, cache or out / data / "features")
            rows.append({"data": data, "bits": length, "seed": seed, **scores})
            print(json.dumps(rows[-1]), flush=True)
    return rows


def _both(place: RunFolder, config: Any, source: Source, cache: Path) -> Row:
    """MAP by bits and by outputs of one run."""
    if not place.is_finished:
        plan = settled_plan(config, source)
        run_plan(plan, place.path, resume=place.config_file.exists(), feature_cache=cache)
    scored = score_run(place, source=source, outputs=True)
    assert scored.outputs is not None  # SCDH is ranked by bits, so there is another ranking
    return {"by bits": scored.scores.map, "by outputs": scored.outputs.map, "protocol": scored.protocol.fingerprint}


def table(rows: Sequence[Row]) -> str:
    """Mean ± standard deviation over the seeds, a line for each data set and length."""
    lines = []
    for data, bits in dict.fromkeys((row["data"], row["bits"]) for row in rows):
        found = [row for row in rows if (row["data"], row["bits"]) == (data, bits)]
        gains = [row["by outputs"] - row["by bits"] for row in found]
        cells = [_cell([row[name] for row in found]) for name in ("by bits", "by outputs")]
        lines.append([data, str(bits), *cells, f"{statistics.mean(gains):+.3f}", f"{min(gains):+.3f}", str(len(found))])
    return markdown_table(["data", "bits", "MAP by bits", "MAP by outputs", "gain", "smallest gain", "seeds"], lines)


def _cell(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{spread}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("data", nargs="+", help=f"{', '.join(DATA)}; NAME=PATH gives the root of a named one")
    parser.add_argument("--bits", type=int, nargs="+", default=list(BITS))
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--out", type=Path, default=Path("runs/both-rankings"))
    parser.add_argument("--features", type=Path, help="folder of a frozen trunk's features, which runs share")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of all runs")
    options = parser.parse_args(arguments)
    rows = []
    for item in options.data:
        data, _, root = item.partition("=")
        if data not in DATA:
            parser.error(f"there is no {data!r}; known are {', '.join(DATA)}")
        settings = {**read_settings(options.set), **({"data.root": root} if root else {})}
        rows += run(data, options.out, options.bits, range(options.seeds), settings, options.features)
        with replacing(options.out / "both_rankings.json") as path:
            path.write_text(json.dumps(rows, indent=1))
        with replacing(options.out / "both_rankings.md") as path:
            path.write_text(table(rows) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()

"""Where outputs lie beside their centres, and what signs lose: ``python -m benchmarks.centre_distances RUN …``.

Each RUN is a finished run. Rows of its database that it did not learn from, validation rows among them, are divided:
a quarter are looked up among the others, by codes and by the cosine of outputs; no query takes part. Of a method with
centres: the mean norm of u and of c, |u − c| for the own class, and the share of rows whose nearest centre is their
class's. l_q is that of :func:`scdh.losses.quantization_loss`.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.data.source import Source
from scdh.errors import DataError
from scdh.evaluation import evaluate, evaluate_distances
from scdh.experiments.pages.markdown import markdown_table
from scdh.losses import quantization_loss
from scdh.metrics.cosine import cosine_distances
from scdh.runs.encoding import hash_outputs_of_rows
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of

ROWS = 6000  # of unseen ones, at most
COLUMNS = ("run", "MAP of codes", "MAP of u, cosine", "l_q", "norm of u", "norm of c", "distance to own c", "nearest c")


def measure(run: RunFolder, source: Source, most: int = ROWS) -> list[str]:
    """A line of the table.

    Args:
        run: a finished run on data with one label a row.
        source: its data.
        most: rows that are encoded.

    Raises:
        DataError: rows have several labels, or the run learned from all rows of its database.
    """
    protocol, model = run.protocol(source), run.load_model()
    unseen = np.setdiff1d(protocol.database, np.concatenate([protocol.train, protocol.query]))
    if source.multi_label or len(unseen) < 8:
        why = "has several labels a row" if source.multi_label else "learned from nearly all rows of its database"
        raise DataError(f"The run {run} {why}.")
    rows = np.random.default_rng(0).permutation(unseen)[:most]
    pieces = hash_outputs_of_rows(model, source, rows, workers=0, progress=f"outputs of {run.path.name}")
    labels, u = source.labels[rows], np.concatenate([values for _, values in pieces])
    queries = len(rows) // 4
    codes = Codes.from_signs(u)
    found = evaluate(codes[:queries], labels[:queries], codes[queries:], labels[queries:]).map
    by_cosine = evaluate_distances(cosine_distances(u[:queries], u[queries:]), labels[:queries], labels[queries:]).map
    loss = float(quantization_loss(torch.from_numpy(u)))
    line = [run.path.name, f"{found:.3f}", f"{by_cosine:.3f}", f"{loss:.3f}", f"{np.linalg.norm(u, axis=1).mean():.1f}"]
    if model.centres is None:
        return [*line, "–", "–", "–"]
    return [*line, *beside_centres(u, labels, model.centres)]


def beside_centres(u: NDArray[np.floating], labels: NDArray[np.integer], centres: NDArray[np.floating]) -> list[str]:
    """Mean norm of the centres, mean distance to the own one, and the share of rows to which that is the nearest."""
    distances = np.linalg.norm(u[:, None] - centres[None], axis=-1)
    own = distances[np.arange(len(u)), labels]
    norm = np.linalg.norm(centres, axis=1).mean()
    return [f"{norm:.1f}", f"{own.mean():.1f}", f"{(distances.argmin(1) == labels).mean():.3f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a finished run")
    options = parser.parse_args()
    lines = []
    for folder in options.runs:
        run = RunFolder(folder)
        if not run.is_finished:
            parser.error(f"{folder} is no folder of a finished run.")
        lines.append(measure(run, source_of(run.config())))
    print(markdown_table(list(COLUMNS), lines))


if __name__ == "__main__":
    main()

"""INT8 against float32 on the queries and the database of a run: ``python -m research.int8 RUN [DRAWS]``.

Made the table of docs/encode.md, with ``scdh train --data groceries --bits 48``. Images per CPU second are of OpenVINO,
without decoding.
"""

import sys
import time

from scdh.codes import Codes
from scdh.data.batches.batch import Batch
from scdh.data.batches.loaders import evaluation_batches
from scdh.evaluation import evaluate
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from scdh.runs.protocol import source_of
from scdh.runs.quantising import choose_rows

Parts = dict[str, list[Batch]]


def encode(hasher: Hasher, parts: Parts) -> tuple[dict[str, Codes], float]:
    """Codes of each part, and images per CPU second."""
    for _ in hasher.run(parts["query"][:1], engine="openvino"):
        pass  # exports
    started = time.process_time()
    outputs = {part: list(hasher.run(batches, engine="openvino")) for part, batches in parts.items()}
    seconds = time.process_time() - started
    codes = {part: hasher.encode_outputs(found) for part, found in outputs.items()}
    return codes, sum(map(len, codes.values())) / seconds


def main(folder: str, draws: int = 3) -> None:
    run = RunFolder(folder)
    hasher, source = run.load_model(), source_of(run.config())
    parts: Parts = {
        part: list(evaluation_batches(source, run.part_rows(source, part), preprocess=hasher.preprocess, batch_size=64))
        for part in ("query", "database")
    }

    def described(codes: dict[str, Codes], rate: float) -> str:
        query, database = codes["query"], codes["database"]
        scores = evaluate(query, source.labels[query.ids], database, source.labels[database.ids])
        return f"{rate:.0f} images per CPU second, MAP {scores.map:.4f}"

    exact, rate = encode(hasher, parts)
    print(f"float32: {described(exact, rate)}", flush=True)
    for seed in range(draws):
        rows = choose_rows(run, source, seed=seed).calibration
        int8 = hasher.quantised_on(evaluation_batches(source, rows, preprocess=hasher.preprocess, batch_size=32))
        codes, rate = encode(int8, parts)
        shares = {part: (codes[part].unpack() != exact[part].unpack()).mean() for part in parts}
        differing = ", ".join(f"{share:.3%} of the {part} bits differ" for part, share in shares.items())
        print(f"INT8, draw {seed}: {described(codes, rate)}; {differing}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))

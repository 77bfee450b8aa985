"""Ways to rank items by the same codes: ``python -m research.ranking cifar10.npz shop.npz --bits 12 32 --seeds 3``.

A file has embeddings ``x`` [n, d] and labels ``y``, int [n] or multi-hot [n, C]; a mask ``query`` [n] if the queries
are not drawn at random. SCDH is trained on up to 5,000 rows (``SCDHTransformer``; 10 epochs, or more if there are fewer
rows). At most 1,000 rows are validation rows, as many are queries; the training rows belong to the database.
``--part validation`` scores validation rows among the training rows and the rest: choices are made by them.

"ties by outputs" is Hamming distance, then Σ |u| of the query over the bits that differ; "outputs" is that sum alone.
For the precision of the first ones, 10·factor items are ranked again by vectors; for MAP of the whole ranking
100·factor. ``--vectors`` adds more kinds of vectors. ``--rows`` keeps the scores in a file, and skips those it has.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scdh.codes import Codes
from scdh.codes.vectors import rounded
from scdh.estimator import SCDHTransformer
from scdh.evaluation import evaluate
from scdh.experiments.pages.markdown import markdown_table

Floats = NDArray[np.floating]
Row = dict[str, Any]
TRAINED, EPOCHS, QUERIES, FACTORS = 5000, 10, 1000, (4, 10)
SCORES = ("MAP", "first 1", "first 10")


def measure(data: dict[str, NDArray[Any]], bits: int, seed: int, parts: tuple[str, ...], vectors: bool) -> list[Row]:
    """A row for each part and way to rank, with the bytes that it keeps per item."""
    x, y = data["x"], data["y"]
    rows = split(len(x), data.get("query"), seed)
    epochs = max(EPOCHS, EPOCHS * TRAINED // len(rows["trained"]))
    model = SCDHTransformer(bits=bits, epochs=epochs, random_state=seed).fit(x[rows["trained"]], y[rows["trained"]])
    found = []
    for part in parts:
        others = ("trained", "rest", "validation") if part == "query" else ("trained", "rest")
        queries, database = rows[part], np.concatenate([rows[name] for name in others])
        relevant = shares_a_label(y[queries], y[database])
        has_relevant = relevant.any(axis=1)
        queries, relevant = queries[has_relevant], relevant[has_relevant]
        u, v = model.outputs(x[queries]), model.outputs(x[database])
        codes = evaluate(Codes.from_signs(u), y[queries], Codes.from_signs(v), y[database])
        scores = [("codes", -(-bits // 8), (codes.map, *codes.precision_at_k([1, 10])))]
        for name, size, first, whole in _rankings(u, v, x[queries], x[database], vectors):
            scores.append((name, size, (score(whole, relevant)[0], *score(first, relevant)[1:])))
        for name, size, values in scores:
            numbers = dict(zip(SCORES, map(float, values), strict=True))
            found.append({"part": part, "ranking": name, "bytes": size, **numbers})
    return found


def split(count: int, is_query: NDArray[np.bool_] | None, seed: int) -> dict[str, NDArray[np.int64]]:
    """Row numbers of ``query``, ``validation``, ``trained`` and ``rest``."""
    order = np.random.default_rng(seed).permutation(count)
    few = min(QUERIES, count // 4)
    query, others = order[:few], order[few:]
    if is_query is not None:
        query, others = order[is_query[order]][:QUERIES], order[~is_query[order]]
        few = min(few, len(others) // 4)
    validation, trained, rest = np.split(others, [few, few + TRAINED])
    return {"query": query, "validation": validation, "trained": trained, "rest": rest}


def shares_a_label(one: NDArray[np.integer], many: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which items [q, n] have a label of the query."""
    return one[:, None] == many[None] if one.ndim == 1 else one.astype(np.float32) @ many.T > 0


def _rankings(
    u: Floats, v: Floats, query_x: Floats, database_x: Floats, vectors: bool
) -> Iterator[tuple[str, int, Floats, Floats]]:
    """Name, bytes per item, and the distances [q, n] for the first 10 and for MAP."""
    bits = u.shape[1]
    code = -(-bits // 8)
    signs = np.where(v >= 0, 1, -1).astype(np.float32)
    hamming = (bits - np.where(u >= 0, 1, -1).astype(np.float32) @ signs.T) / 2
    sums = (np.abs(u).sum(axis=1, keepdims=True) - u @ signs.T) / 2

    def alike(name: str, size: int, distances: Floats) -> tuple[str, int, Floats, Floats]:
        return name, size, distances, distances

    def again(name: str, size: int, away: Floats, factor: int) -> tuple[str, int, Floats, Floats]:
        first, whole = (ranked_again(by_ties, away, k * factor) for k in (10, 100))
        return f"codes, then {factor}·k by {name}", size, first, whole

    by_ties = hamming + sums / (np.abs(u).sum(axis=1, keepdims=True) + 1)
    yield alike("ties by outputs", code, by_ties)
    yield alike("outputs", code, sums)
    away = cosine(u, rounded(v, "int8"))
    yield again("int8 outputs", code + rounded(v[:1], "int8").nbytes, away, FACTORS[0])
    if vectors:
        yield again("int8 outputs", code + rounded(v[:1], "int8").nbytes, away, FACTORS[1])
        yield again("float16 outputs", code + 2 * bits, cosine(u, rounded(v, "float16")), FACTORS[0])
        yield alike("all by float32 outputs", 4 * bits, cosine(u, v))
        away = cosine(query_x, rounded(database_x, "int8"))
        yield again("int8 embeddings", code + rounded(database_x[:1], "int8").nbytes, away, FACTORS[0])
        yield alike("all by float32 embeddings", 4 * database_x.shape[1], cosine(query_x, database_x))


def cosine(queries: Floats, items: NDArray[np.generic]) -> Floats:
    """Minus the cosine of each query and item."""
    both = (queries, items.astype(np.float32))
    one, many = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in both)
    return -(one @ many.T)


def ranked_again(distances: Floats, away: Floats, count: int) -> Floats:
    """Distances by which the ``count`` nearest come first, ordered by ``away`` (at most 1)."""
    count = min(count, distances.shape[1])
    top = np.argpartition(distances, count - 1, axis=1)[:, :count]
    new = distances + 3
    np.put_along_axis(new, top, np.take_along_axis(away, top, axis=1), axis=1)
    return new


def score(distances: Floats, relevant: NDArray[np.bool_]) -> tuple[float, float, float]:
    """MAP and precision of the first 1 and 10, where no distances are equal."""
    ranked = np.take_along_axis(relevant, np.argsort(distances, axis=1), axis=1)
    precision = np.cumsum(ranked, axis=1) / np.arange(1, ranked.shape[1] + 1)
    average = float(((precision * ranked).sum(axis=1) / ranked.sum(axis=1)).mean())
    return average, float(ranked[:, :1].mean()), float(ranked[:, :10].mean())


def tables(rows: list[Row]) -> Iterator[str]:
    """For each data set and part, a line per length and ranking: means over seeds, and the gain over codes ± its
    standard deviation."""
    groups: dict[tuple[str, str], dict[tuple[int, str], dict[int, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        groups[row["data"], row["part"]][row["bits"], row["ranking"]][row["seed"]] = row
    for (data, part), cells in sorted(groups.items()):
        lines = []
        for (bits, ranking), seeds in cells.items():
            line = [str(bits), ranking, str(next(iter(seeds.values()))["bytes"])]
            for name in SCORES:
                gains = [row[name] - cells[bits, "codes"][seed][name] for seed, row in seeds.items()]
                mean = np.mean([row[name] for row in seeds.values()])
                line.append(f"{mean:.4f} ({np.mean(gains):+.4f} ± {np.std(gains):.4f})")
            lines.append([*line, str(len(seeds))])
        yield f"{data}, {part}\n\n{markdown_table(['bits', 'ranking', 'bytes', *SCORES, 'seeds'], lines)}\n"


def main(options: argparse.Namespace) -> None:
    kept = options.rows.read_text("utf-8").splitlines() if options.rows and options.rows.exists() else []
    rows: list[Row] = [json.loads(line) for line in kept]
    done = {(row["data"], row["bits"], row["seed"], row["part"]) for row in rows}
    for seed in range(options.seeds):
        for file in options.embeddings:
            with np.load(file, allow_pickle=False) as opened:
                data = dict(opened)
            for bits in options.bits:
                parts = tuple(part for part in options.part if (file.stem, bits, seed, part) not in done)
                if parts:
                    found = measure(data, bits, seed, parts, options.vectors)
                    new = [{"data": file.stem, "bits": bits, "seed": seed, **row} for row in found]
                    rows += new
                    if options.rows:
                        with options.rows.open("a", encoding="utf-8") as out:
                            out.writelines(json.dumps(row) + "\n" for row in new)
    print("\n".join(tables(rows)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("embeddings", type=Path, nargs="+")
    parser.add_argument("--bits", type=int, nargs="+", default=[48])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--part", nargs="+", choices=("query", "validation"), default=["query"])
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--rows", type=Path)
    main(parser.parse_args())

"""Recall@10 of pgvector's HNSW on codes that repeat: ``python -m research.pgvector_hnsw postgresql://host/database/table``.

A hit counts if its distance is at most that of the exact tenth neighbour, so ties are never held against HNSW.
"""

import sys

import numpy as np
from psycopg.sql import SQL, Identifier

from research.search_engines import near_centres
from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.postgres import PostgresIndex
from scdh.index.postgres.address import parse_address
from scdh.index.postgres.server import PostgresServer, to_bits

ROWS, BITS, QUERIES, K = 20_000, 48, 200, 10
CASES = {
    "uniform codes": lambda rows, seed: Codes.from_signs(np.random.default_rng(seed).random((rows, BITS)) < 0.5),
    "100 centres, 1 % flips": lambda rows, seed: near_centres(rows, BITS, 100, 0.01, seed),
    "10 centres, 0.5 % flips": lambda rows, seed: near_centres(rows, BITS, 10, 0.005, seed),
    "10 centres, 0.1 % flips": lambda rows, seed: near_centres(rows, BITS, 10, 0.001, seed),
}


def main(address: str) -> None:
    parsed = parse_address(address)
    server, table = PostgresServer(parsed), Identifier(*parsed.table)
    for name, make in CASES.items():
        codes, queries = make(ROWS, 0), make(QUERIES, 1)
        limits = HammingIndex(codes).search(queries, K).distances[:, -1]
        with PostgresIndex.create(address, BITS) as index:
            index.load(codes)
            exact = (index.search(queries, K).distances[:, -1] == limits).all()
        with server.writing() as connection:
            connection.execute(SQL("CREATE INDEX ON {} USING hnsw (code bit_hamming_ops)").format(table))
            connection.execute("SET LOCAL enable_seqscan = off")
            recalls = []
            for ef in (40, 200, 1000):
                connection.execute(SQL("SET LOCAL hnsw.ef_search = {}").format(ef))
                query = SQL("SELECT code <~> %(q)s FROM {} ORDER BY code <~> %(q)s LIMIT %(k)s").format(table)
                hits = 0
                for row, limit in zip(queries.packed, limits.tolist(), strict=True):
                    found = connection.execute(query, {"q": to_bits(row.tobytes(), BITS), "k": K}).fetchall()
                    hits += sum(distance <= limit for (distance,) in found)
                recalls.append(f"ef {ef} {hits / (QUERIES * K):.3f}")
            connection.execute(SQL("DROP TABLE {}").format(table))
        distinct = len(np.unique(codes.packed, axis=0))
        print(
            f"{name} ({distinct:,} distinct of {ROWS:,}): {', '.join(recalls)}; without HNSW exact: {exact}", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1])

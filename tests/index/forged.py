"""Index files that are right in all their checksums, but not in what they hold: made with the writer's own pieces."""

import argparse

import numpy as np

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.search import scan
from scdh.index.segments import Segment, make_segment
from scdh.index.store.format import BODY_AT, SLOTS_AT, Entry, Manifest, Pen, write_at


def some_codes(rows, bits, seed=0):
    return Codes.from_signs(np.random.default_rng(seed).random((rows, bits)) < 0.5)


def all_set(rows, bits):
    """Words of so many codes with every bit set, also those that no code has."""
    words = make_segment(some_codes(1, bits), np.arange(1)).words
    return np.full((len(words), rows), np.iinfo(words.dtype).max, words.dtype)


def forge(path, bits, segments, removed=None):
    """A file of pairs (words, ids), where ids are the first id or an array."""
    with open(path, "w+b", buffering=0) as handle:
        pen = Pen(handle, BODY_AT)
        entries = []
        for words, ids in segments:
            ids_at = ids if isinstance(ids, int) else pen.put(np.asarray(ids, np.int64))
            entries.append(Entry(words.shape[1], pen.put(words), ids_at, None if removed is None else pen.put(removed)))
        slot = pen.finish(Manifest(bits, {}, tuple(entries)), 1)
        for at in SLOTS_AT:
            write_at(handle, at, slot.pack())


def forged_index(words, bits, ids=0):
    """An index of such words that was never checked, as a large file after opening."""
    index = HammingIndex(some_codes(1, bits))
    words.flags.writeable = False
    index._segments = (Segment(words, ids),)
    return index


def search_in_all_ways(rows, bits, methods=("scan", "tables", "auto")):
    """The number of searches; each must give every row at most once, and all rows there are."""
    words = all_set(rows, bits)
    words[:, ::3] = make_segment(some_codes(rows, bits), np.arange(rows)).words[:, ::3]
    index = forged_index(words, bits)
    searches = 0
    for count in (1, 3, 300):
        queries = Codes(np.zeros((count, -(-bits // 8)), np.uint8), bits)
        for only in (None, np.arange(rows) % 2 == 0, np.arange(0, rows, 50), [5, 7]):
            allowed = np.arange(rows)[only] if only is not None else np.arange(rows)
            for by in methods:
                for k in (1, 7, rows):
                    if count * k > 10**6:
                        continue
                    hits = index.search(queries, k, only=only, by=by)
                    assert hits.ids.shape == (count, min(k, len(allowed)))
                    for one in hits:
                        assert len(set(one.ids.tolist())) == len(one)
                        assert np.isin(one.ids, allowed).all()
                        assert (one.distances >= 0).all()
                        assert (np.diff(one.distances) >= 0).all()
                    searches += 1
                for radius in (0, bits):
                    near = index.within(queries[:3], radius, only=only, by=by)
                    for one in near:
                        assert len(set(one.ids.tolist())) == len(one)
                        assert np.isin(one.ids, allowed).all()
                        assert (one.distances <= radius).all()
                    searches += 1
    return searches


def main():
    """``NUMBA_BOUNDSCHECK=1`` makes kernels reject what would be out of bounds; give an empty cache folder then."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bits", type=int, nargs="+", default=[1, 7, 12, 13, 48, 65, 250])
    parser.add_argument("--rows", type=int, default=700)
    parser.add_argument("--numpy", action="store_true")
    options = parser.parse_args()
    scan.WORTH_LOADING = 1 << 62 if options.numpy else 0
    print(sum(search_in_all_ways(options.rows, bits) for bits in options.bits))


if __name__ == "__main__":
    main()

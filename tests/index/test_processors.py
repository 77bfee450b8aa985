"""Kernels compiled for other processors than this one give the same hits, by the instructions they were made for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import scdh
from scdh.index.kernels import processor

SOURCE = Path(scdh.__file__).parents[1]
ALL_LENGTHS = (1, 7, 8, 12, 13, 48, 63, 64, 65, 128, 255, 256, 257, 1000)  # words of 8, 16 and 64 bits
SOME_LENGTHS = (7, 8, 48, 63, 64, 65, 257, 1000)  # each width of words takes seconds to compile
PROGRAM = """
import json, sys
import numpy as np
from scdh.index.kernels import processor
forced, lengths, with_weights = sys.argv[1], *map(json.loads, sys.argv[2:])
if forced == str(processor.SLICED):
    processor.way_for_many = lambda context: processor.SLICED
elif forced != "as it is":
    processor.way_to_count = lambda context: int(forced)
from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.kernels import scanning, slice_scanning
from scdh.index.search import scan
slice_scanning._ROWS_BEFORE, slice_scanning._ROWS_BEFORE_A_HIT, slice_scanning._FEWEST_ROWS = 70, 0, 1
rng = np.random.default_rng(0)
for bits in lengths:
    centre = rng.random(bits) < 0.5
    base, u = centre ^ (rng.random((700, bits)) < 0.1), rng.normal(size=(25, bits))
    near = Codes.from_bits((centre ^ (rng.random((25, bits)) < 0.1)).astype(np.uint8))
    index, queries = HammingIndex(Codes.from_bits(base.astype(np.uint8))), Codes.from_signs(u)
    results = []
    for worth in (10**15, 0):
        scan.WORTH_LOADING = worth
        for asked in (queries, near):
            hits, one = index.search(asked, 20), index.search(asked[:1], 300)
            ball = index.within(asked, bits // 4)
            results.append([*hits.arrays, *one.arrays, *ball.arrays])
        if with_weights:
            results[-1] += index.search(queries, 20, weights=abs(u)).arrays
    for numpy_array, kernel_array in zip(results[0] + results[1], results[2] + results[3]):
        assert np.array_equal(numpy_array, kernel_array), bits
(code, *_) = scanning.nearest.inspect_asm().values()
assert bool(slice_scanning.nearest_of_more.signatures) == slice_scanning.is_fastest()
print("vpshufb" in code and "ymm" in code, "vpopcntq" in code)
"""


def run(folder, name, forced, lengths, with_weights):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(SOURCE)}
    environment |= {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-c", PROGRAM, forced, json.dumps(lengths), json.dumps(with_weights)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def has(feature):
    return llvm.get_host_cpu_features().get(feature, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "forced", "needed"),
    [
        ("haswell", "as it is", "avx2"),
        ("x86-64", "as it is", "sse2"),
        ("haswell", str(processor.BYTES), "avx2"),  # the way of ARM, with other instructions
        ("haswell", str(processor.SLICED), "avx2"),  # the way of AVX-512
        ("skylake-avx512", "as it is", "avx512bw"),
    ],
)
def test_kernels_for_other_processors_give_the_same_hits(tmp_path, name, forced, needed):
    if not has(needed):
        pytest.skip(f"this processor has no {needed}")
    # Weighted searches count bits in the same way, whichever way is forced.
    is_whole = forced == "as it is" and name != "skylake-avx512"
    instructions = run(tmp_path, name, forced, ALL_LENGTHS if is_whole else SOME_LENGTHS, is_whole)
    assert instructions == [str(name != "x86-64"), "False"]


class Context:
    """As much of numba's context as the choice looks at."""

    def __init__(self, *target):
        self.target = target

    def codegen(self):
        return self

    def magic_tuple(self):
        return self.target


@pytest.mark.parametrize(
    ("target", "count", "many", "look_up"),
    [
        (("x86_64-unknown-linux-gnu", "haswell", ""), processor.SHUFFLES, processor.SHUFFLES, processor.AVX2),
        (("x86_64-unknown-linux-gnu", "znver3", ""), processor.SHUFFLES, processor.SHUFFLES, processor.AVX2),
        (("x86_64-unknown-linux-gnu", "skylake-avx512", ""), processor.SHUFFLES, processor.SLICED, processor.AVX2),
        (("x86_64-unknown-linux-gnu", "icelake-server", ""), processor.BYTES, processor.SLICED, processor.AVX2),
        (("x86_64-unknown-linux-gnu", "znver4", ""), processor.BYTES, processor.SLICED, processor.AVX2),
        (("x86_64-unknown-linux-gnu", "knm", ""), processor.WORDS, processor.SLICED, processor.AVX2),
        (("x86_64-unknown-linux-gnu", "x86-64", ""), processor.WORDS, processor.WORDS, processor.PLAIN),
        (("x86_64-unknown-linux-gnu", "nehalem", ""), processor.WORDS, processor.WORDS, processor.PLAIN),
        (("aarch64-unknown-linux-gnu", "neoverse-n1", ""), processor.BYTES, processor.BYTES, processor.NEON),
        (("arm64-apple-darwin", "apple-m1", ""), processor.BYTES, processor.BYTES, processor.NEON),
    ],
)
def test_the_way_is_chosen_by_the_instructions_there_are(target, count, many, look_up):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    assert processor.way_to_count(Context(*target)) == count
    assert processor.way_for_many(Context(*target)) == many
    assert processor.way_to_look_up(Context(*target)) == look_up

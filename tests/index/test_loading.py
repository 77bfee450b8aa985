"""Kernels are loaded while numpy works, and no search waits longer than numpy would have taken."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import scdh
from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.index.search import hash_tables, loading, scan, warming
from scdh.index.search.hash_tables import FEWEST_ROWS
from tests.index.test_hamming import random_bits

KEY = ("nearest", "L")


def run_program(program):
    environment = {**os.environ, "PYTHONPATH": str(Path(scdh.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(autouse=True)
def nothing_loaded(monkeypatch):
    """As in a new process; loads of other tests stay as they are."""
    monkeypatch.setattr(loading, "_loads", {})
    monkeypatch.setattr(scan, "_counted_pairs", {})


@pytest.fixture
def compiler():
    """A kernel that is loaded when the test says so."""

    class Compiler:
        calls = 0
        go_on = threading.Event()

        def __call__(self):
            self.calls += 1
            assert self.go_on.wait(30)

    made = Compiler()
    made.go_on.clear()
    yield made
    made.go_on.set()
    loading.wait_for_loads()


def test_a_kernel_is_loaded_once_and_only_then_ready(compiler):
    assert not loading.is_loaded(KEY)
    assert not loading.load(KEY, compiler, 0.0)
    assert not loading.load(KEY, compiler, 0.01)
    assert not loading.is_loaded(KEY)
    compiler.go_on.set()
    assert loading.load(KEY, compiler, None)
    assert loading.is_loaded(KEY)
    assert compiler.calls == 1


def test_what_loading_raised_is_raised_in_every_call():
    def fail():
        raise MemoryError("no room for a compiler")

    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            loading.load(KEY, fail, None)
    assert not loading.is_loaded(KEY)


def test_kernels_are_loaded_one_after_another(monkeypatch):
    """Two threads that import numba at once may end in an ImportError."""
    monkeypatch.setattr(loading, "_loads", {})
    running, most = [], []

    def rehearse():
        running.append(1)
        most.append(len(running))
        time.sleep(0.05)
        running.pop()

    for name in ("nearest", "slices", "within"):
        loading.load((name, "L"), rehearse, 0.0)
    loading.wait_for_loads()
    assert most == [1, 1, 1]


def test_numpy_answers_while_the_kernel_is_compiled(monkeypatch, compiler):
    base = random_bits(300, 64, 1)
    index, queries = HammingIndex(Codes.from_signs(base)), Codes.from_signs(random_bits(4, 64, 2))
    expected = index.search(queries, 20, by="scan")
    monkeypatch.setattr(scan, "WORTH_LOADING", 16)  # 300 pairs are enough to load, even before numba is loaded
    monkeypatch.setattr(scan, "_PATIENT", 10**9)
    monkeypatch.setattr(scan, "_rehearse_nearest", lambda words: compiler())
    monkeypatch.setattr(scan, "_nearest_task", None)  # to call the kernel would fail
    for hits in (index.search(queries, 20), index.search(queries[:1], 20), index.search(queries, 20)):
        assert np.array_equal(hits.ids, expected.ids[: len(hits)])
        assert np.array_equal(hits.distances, expected.distances[: len(hits)])
    assert compiler.calls == 1
    assert not scan.is_loaded("nearest", index._segments[0].words)


def test_no_search_waits_for_the_loops_of_tables(monkeypatch, compiler):
    """The search after which tables pay compiled them: a stall of seconds, also in a service that was warm."""
    monkeypatch.setattr(hash_tables, "FEWEST_ROWS", 1000)
    monkeypatch.setattr(scan, "WORTH_LOADING", 1 << 20)
    monkeypatch.setattr(hash_tables, "_rehearse", lambda words: compiler())
    monkeypatch.setattr(scan, "choose_kernel", lambda *_: False)
    codes = Codes.from_signs(np.repeat(random_bits(50, 32, 1), 2000, axis=0))
    index = HammingIndex(codes)
    planner, (segment,) = index._planner, index._segments
    for _ in range(20):
        index.search(codes[:100], 3)
        index.within(codes[:100], 0)
    assert compiler.calls == 1
    assert not planner.has_tables(segment.words)
    compiler.go_on.set()
    loading.wait_for_loads()
    index.search(codes[:1], 3)
    assert planner.has_tables(segment.words)


def test_warming_up_loads_every_loop_without_a_search(monkeypatch):
    """Searches for it took two gigabytes and three times the processor time of the compiler."""
    loaded = []
    monkeypatch.setattr(loading, "load", lambda kernel, rehearse, patience: bool(loaded.append((*kernel, patience))))
    monkeypatch.setattr(scan, "choose_kernel", None)  # to search would fail
    warming.load_loops(24, by_tables=False, rows=FEWEST_ROWS)
    assert loaded == [(name, "I", None) for name in ("nearest", "slices", "within", "weighted", "tables")]
    assert all(scan._counted_pairs[name, "I"] >= scan.WORTH_LOADING for name, _, _ in loaded[:-1])


def test_the_kernel_takes_over_in_the_middle_of_a_search(monkeypatch):
    base, asked = random_bits(20_000, 64, 1), random_bits(100, 64, 2)
    index, queries = HammingIndex(Codes.from_signs(base), ids=np.arange(20_000)[::-1].copy()), Codes.from_signs(asked)
    expected = index.search(queries, 20, by="scan")
    monkeypatch.setattr(scan, "BLOCK_PAIRS", 1 << 16)  # few queries at once
    by_numpy, loaded = [], scan.is_loaded

    def choose(kernel, array, pairs, rehearse=None):
        if rehearse is not None and by_numpy:
            rehearse()
        return bool(by_numpy)

    monkeypatch.setattr(scan, "choose_kernel", choose)
    monkeypatch.setattr(scan, "is_loaded", lambda *key: by_numpy.append(loaded(*key)) or len(by_numpy) >= 2)
    for only in (None, np.arange(20_000) % 3 == 0):
        by_numpy.clear()
        hits = index.search(queries, 20, by="scan", only=only)
        assert len(by_numpy) == 2
        if only is None:
            assert np.array_equal(hits.ids, expected.ids)
            assert np.array_equal(hits.distances, expected.distances)
        else:
            alone = HammingIndex(index.codes_of(index.ids[only])).search(queries, 20, by="scan")
            assert np.array_equal(hits.ids, alone.ids)


def test_kernels_load_without_scipy_and_leave_blas_to_others():
    program = (
        "import sys\nimport numpy as np\nfrom scdh.index.kernels import scanning\n"
        "from scdh.index.search import scan\nscan._rehearse_nearest(scan.few_rows(np.zeros((1, 1), np.uint64)))\n"
        "assert 'scipy.linalg' not in sys.modules\nimport numba\n"
        "assert numba.njit(lambda a: np.dot(a, a))(np.eye(3)).sum() == 3\n"
    )
    done = run_program(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("bits", [5, 12, 24, 64, 130])
def test_a_rehearsal_compiles_for_the_types_of_a_search(monkeypatch, bits):
    """Otherwise a search would compile once more, and wait for that."""
    from scdh.index.kernels import probing, scanning, weighing

    monkeypatch.setattr(scan, "WORTH_LOADING", 0)
    codes = Codes.from_signs(random_bits(300, bits, 1))
    index, half = HammingIndex(codes), np.arange(300) % 2 == 0

    def search(**options):
        index.search(codes[:5], 3, by="scan", **options)
        index.search(codes[:1], 3, **options)
        index.search(codes[:5], 3, weights=np.ones((5, bits)), **options)
        index.within(codes[:5], 1, by="scan", **options)
        index.search(codes[:5], 3, by="tables", **options)
        index.within(codes[:1], 1, by="tables", **options)

    words = scan.few_rows(index._segments[0].words)
    scan._rehearse_nearest(words)
    scan._rehearse_within(words)
    hash_tables._rehearse(words)
    kernels = (scanning.nearest, scanning.within, probing.nearest_by_tables, probing.within_by_tables)
    compiled = [len(kernel.signatures) for kernel in kernels]
    for options in ({}, {"only": half}, {"only": [3, 5, 8]}):
        search(**options)
    assert [len(kernel.signatures) for kernel in kernels] == compiled
    assert len({kernel[0].dtype for kernel in weighing.nearest_by_weight.signatures}) == len(
        weighing.nearest_by_weight.signatures
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_waits_for_the_compiler():
    program = (
        "import os, time\nfrom scdh.index.search import loading\n"
        "loading.load(('nearest', 'L'), lambda: time.sleep(1), 0)\n"
        "assert not loading.is_loaded(('nearest', 'L'))\n"
        "child = os.fork()\n"
        "assert loading.is_loaded(('nearest', 'L'))\n"
        "if child: assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0\n"
    )
    done = run_program(program)
    assert done.returncode == 0, done.stderr


def test_the_end_of_a_process_waits_for_the_compiler():
    program = (
        "import time\nfrom scdh.index.search import loading\n"
        "def compile():\n    time.sleep(0.5)\n    print('compiled')\n"
        "loading.load(('nearest', 'L'), compile, 0)\nprint('answered')\n"
    )
    begun = time.perf_counter()
    done = run_program(program)
    assert done.stdout.split() == ["answered", "compiled"], done.stderr
    assert time.perf_counter() - begun >= 0.5


def test_without_a_thread_to_load_on_numpy_answers(monkeypatch, compiler):
    """Where the system has no room for another thread, no search may wait for a kernel that is not being loaded."""

    class NoThread:
        def __init__(self, **_):
            pass

        def start(self):
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(loading, "Thread", NoThread)
        for _ in range(2):
            assert not loading.load(KEY, compiler, 0.0)
        assert KEY not in loading._loads
    compiler.go_on.set()
    assert loading.load(KEY, compiler, None)

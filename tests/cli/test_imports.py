"""What is imported: commands that only print answer at once, and nothing but an image waits for torch."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Runs statements in one new process, as each start takes long, and prints what each has imported of what it must not.
PROGRAM = """
import json, os, sys

def command(words):
    from scdh.cli import main
    try:
        main(words.split())
    except SystemExit as ending:
        assert not ending.code, words

def complete(words):
    os.environ.update(COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1), _SCDH_COMPLETE="complete_bash")
    command("")
    del os.environ["_SCDH_COMPLETE"]

for statement, unwanted in json.loads(sys.argv[1]):
    exec(statement)
    imported = [name for name in unwanted if any(f"{module}.".startswith(f"{name}.") for module in sys.modules)]
    assert not imported, (statement, imported)
"""
SLOW = ("torch", "numba", "pyarrow", "sklearn", "numpy", "PIL", "matplotlib", "timm", "accelerate")
PRINTED = ("", "--help", "--version", "train --help", "compare --help", "datasets")
COMPLETED = ("scdh train --method s", "scdh train --preset ", "scdh datasets dig")
ENGINES = ("psycopg", "lancedb", "pymilvus", "grpc", "torch", "rich")
NAMES = "scdh.Codes, scdh.HammingIndex, scdh.evaluate, scdh.IndexWriter, scdh.ScdhError"
SEARCH = (
    "c = scdh.Codes.from_signs([[1.0, 1]] * 2); scdh.HammingIndex(c).search(c); scdh.evaluate(c, [0, 1], c, [0, 1])"
)
EXPERIMENTS = ("scdh.experiments", "scdh.runs.scoring", "scdh.evaluation")


def run(steps: list[tuple[str, tuple[str, ...]]]) -> None:
    command = [sys.executable, "-c", PROGRAM, json.dumps(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_commands_that_print_and_completion_import_nothing_slow() -> None:
    parts = "sorted(name for name in sys.modules if name.startswith('scdh'))"
    steps = [(f"import scdh; assert {parts} == ['scdh', 'scdh._version'], {parts}", SLOW)]
    steps += [(f"command({words!r})", SLOW) for words in PRINTED]
    run(steps + [(f"complete({words!r})", SLOW) for words in COMPLETED])


@pytest.mark.slow
def test_searching_scoring_and_describing_never_wait_for_torch(work: Path) -> None:
    things = [str(work / name) for name in ("runs/digits", "runs/digits/model", "digits.codes", "digits.index")]
    run(
        [
            ("import scdh.index.postgres, scdh.index.lance, scdh.index.milvus", ENGINES),
            (f"import scdh; {NAMES}", ("torch", "timm", "sklearn", "pydantic", "rich", "numba")),
            (SEARCH, ("torch", "rich", "numba")),
            ("import scdh.data as d; d.DATASETS, d.open_source, d.Protocol", ("torch",)),
            (f"command('index {work}/digits.codes --out {work}/light.index')", ("torch",)),
            (f"command('search {work}/digits.index --row 0')", ("torch", *EXPERIMENTS[:2])),
            (f"command('search {work}/digits.index --codes {work}/queries.codes --json')", ("torch", *EXPERIMENTS[:2])),
            (f"command('evaluate --queries {work}/queries.codes --database {work}/database.codes')", ("torch",)),
            *((f"command('info {thing}')", ("torch", "matplotlib")) for thing in [*things, "digits"]),
        ]
    )


@pytest.mark.slow
def test_encoding_loads_no_experiments_and_no_scores(work: Path) -> None:
    run(
        [
            ("import scdh.runs.source_features", EXPERIMENTS),
            (f"command('encode {work}/runs/digits digits --out {work}/light.codes')", EXPERIMENTS[:2]),
        ]
    )

"""``scdh demo``: train, encode, index, search and score on small data, with pages about the results."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scdh.cli.options import Json
from scdh.cli.output import print_json, print_line, print_note, print_table
from scdh.errors import ConfigError

if TYPE_CHECKING:
    from scdh.experiments.compare.results import ComparisonResults

EXAMPLES = ("scdh demo", "scdh demo --data digits --out digits-demo", "scdh demo --bits 16 --bits 64 --seed 1")

SHOWN = {"method", "bits", "map", "map_best", "map_worst", "precision_at_radius", "precision_at_10"}


def demo(
    data: Annotated[
        Literal["groceries", "digits"], typer.Option(help="Shop photos (a minute or two), or digits (seconds).")
    ] = "groceries",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the report (default: runs/demo-<data>).", show_default=False)
    ] = None,
    bits: Annotated[list[int] | None, typer.Option(help="Length of the codes; repeatable (16 and 32).")] = None,
    seed: Annotated[int, typer.Option(help="Sets the initial weights and the order.")] = 0,
    as_json: Json = False,
) -> None:
    """Train, encode, index, search and score on small data, and write two HTML pages about it.

    Compares learned codes with LSH, ITQ and the full float features. Needs no download, but some
    packages: pip install 'scdh[demo]'.
    """
    from scdh.cli.inputs import check_folder_writable
    from scdh.experiments.demo import run_demo

    folder = out or Path("runs") / f"demo-{data}"
    lengths = tuple(bits or (16, 32))
    if min(lengths) < 1:
        raise ConfigError(f"--bits must be at least 1, not {min(lengths)}.")
    check_folder_writable(folder)
    done = run_demo(data, folder, lengths, seed, notify=print_note)
    if as_json:
        rows = [row.model_dump(include=SHOWN) for row in done.results.rows]
        print_json({"report": str(done.report), "data": data, "bits": list(lengths), "seed": seed, "scores": rows})
        return
    _print_scores(done.results)
    print_line(f"{done.report} shows the hits of SCDH, {done.comparison} compares the methods; open them in a browser.")
    *others, last = (_with_program(command) for command in done.next)
    print_line("Try next:")
    for command in others if data == "groceries" else [*others, last]:
        print_line(f"  {command}")
    if data == "groceries":
        print_line(f"Search these photos on a web page:\n  {last}")


def _print_scores(results: "ComparisonResults") -> None:
    from scdh.experiments.compare.tables import format_floats

    rows = [(row.title, f"{row.bits} bits", f"{row.map:.3f}", f"{row.precision_at_10:.3f}") for row in results.rows]
    if results.floats is not None:
        rows.append((results.floats.title, "", format_floats(results), format_floats(results, "precision_at_10")))
    print_table(("method", "codes", "MAP", "first 10"), rows, right=("MAP", "first 10"))


def _with_program(command: str) -> str:
    """The command ready to paste: `make demo` runs a program that is not on the shell's path."""
    program = Path(sys.argv[0])
    is_hidden = shutil.which("scdh") is None and program.name == "scdh" and program.is_file()
    return f"{shlex.quote(str(program))}{command.removeprefix('scdh')}" if is_hidden else command

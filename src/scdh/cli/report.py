"""``scdh report``: write a page about one run."""

from pathlib import Path
from typing import Annotated

import typer

from scdh.cli.options import Device, Json, MovedData, MovedRoot, NoFloats, Remaining, use_device
from scdh.cli.output import print_json, print_line
from scdh.errors import ConfigError
from scdh.printable import readable_size

EXAMPLES = (
    "scdh report runs/digits",
    "scdh report runs/shop --out shop.html",
    "scdh report compared/cells/itq-32-0/ --no-floats --json",
)


def report(
    run: Annotated[Path, typer.Argument(help="Run folder that `scdh train` wrote, or a cell of a comparison.")],
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write (report.html in the run's folder).", show_default=False)
    ] = None,
    data: MovedData = None,
    root: MovedRoot = None,
    remaining: Remaining = False,
    no_floats: NoFloats = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Write one HTML page about a run: scores, curves, bits, hits as pictures (failures first), confused labels.

    The file contains everything, including pictures, so it can be shared. Stored codes and features are read, not
    computed again; scores are written as by `scdh evaluate`. A run without queries shows its validation rows, or only
    its codes.
    """
    use_device(device)
    from scdh.extras import check_installed

    check_installed("The page", "jinja2", "matplotlib")
    from scdh.cli.inputs import check_file_writable
    from scdh.experiments.report.page import PAGE, write_report

    if run.is_file():
        raise ConfigError(f"{run} is a file, but a run is a folder; `scdh info {run}` describes the file.")
    check_file_writable(run / PAGE if out is None else out)
    path, contents = write_report(run, out, floats=not no_floats, data=data, root=root, remaining=remaining)
    ranked = contents.ranked
    floats = None if ranked is None else ranked.scores.floats
    if as_json:
        print_json(
            {
                "report": str(path),
                "run": str(contents.run),
                "bits": contents.database.bits,
                "part": None if ranked is None else ranked.scores.part,
                "map": None if ranked is None else ranked.scores.scores.map,
                "floats_map": None if floats is None else floats.scores.map,
            }
        )
        return
    print_line(f"The report is {path} ({readable_size(path.stat().st_size)}); open it in a browser.")

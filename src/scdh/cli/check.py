"""``scdh check``: verify the checksums of anything that scdh wrote."""

from typing import Annotated

import typer

from scdh.cli.options import Json
from scdh.cli.output import print_json, print_line

EXAMPLES = (
    "scdh check runs/digits",
    "scdh check digits.index",
    "scdh check compared/ --json",
)


def check(
    thing: Annotated[str, typer.Argument(help="Run, model, codes, index, comparison, or folder of kept features.")],
    as_json: Json = False,
) -> None:
    """Read all of a run, model, codes file, index, comparison or cache, and compare it with its checksums.

    Prints a line for every part, with a remedy if it is damaged. The exit code is 1 if anything is damaged.
    """
    from scdh.experiments.check import check_anything

    findings = check_anything(thing)
    damaged = [finding for finding in findings if finding.problem]
    if as_json:
        print_json({"ok": not damaged, "parts": [finding.to_dict() for finding in findings]})
    else:
        for finding in findings:
            print_line(finding.line())
        if len(findings) > 1:
            print_line(f"{len(findings)} parts, {len(damaged)} damaged.")
    if damaged:
        raise typer.Exit(1)

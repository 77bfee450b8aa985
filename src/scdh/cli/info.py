"""``scdh info``: describe anything that scdh reads or writes, and suggest commands."""

from typing import Annotated

import typer

from scdh.cli.options import Json
from scdh.cli.output import print_json, print_line, print_table

EXAMPLES = (
    "scdh info runs/digits",
    "scdh info digits.index",
    "scdh info photos/",
    "scdh info compared/ --json",
    "scdh info hf:owner/model-on-the-hub",
)


def info(
    thing: Annotated[str, typer.Argument(help="Folder, file, name of a data set, or hf:owner/name on the hub.")],
    as_json: Json = False,
) -> None:
    """Describe a run, model, codes file, index, comparison, split or data: sizes, labels, scores, and commands to run
    next.

    For codes and indexes it also shows which model made them, and the nearby run that has it.
    """
    from scdh.experiments.info.find import describe

    described = describe(thing)
    if as_json:
        print_json(described.to_dict())
        return
    print_line(f"{described.title}.")
    print_table((described.kind, ""), described.rows)
    if described.commands:
        print_line("Next:")
        for command in described.commands:
            print_line(f"  {command}")

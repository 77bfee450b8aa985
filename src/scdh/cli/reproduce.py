"""``scdh reproduce``: compute the paper's tables, figures and claims again."""

from pathlib import Path
from typing import Annotated, Any

import typer

from scdh.cli.options import Device, Json, Root, read_numbers, use_device
from scdh.cli.output import Stopped, print_json, print_line, print_note, print_table
from scdh.errors import ConfigError

EXAMPLES = (
    "scdh reproduce toy gradient-field",
    "scdh reproduce --plan",
    "scdh reproduce all --scale quick",
    "scdh reproduce all --scale cpu --root CIFAR_FOLDER --data multi=photos.parquet --data many=tiny.parquet",
)


def reproduce(
    items: Annotated[
        list[str] | None, typer.Argument(metavar="[ITEM...]", help="Names listed by --list, or `all`.")
    ] = None,
    scale: Annotated[str, typer.Option(help="quick, cpu or full; or a TOML file.")] = "quick",
    root: Root = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=PATH", help="Data for single, multi, many or synthetic; repeatable."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N,N...", help="Seeds to use instead of those of the scale.")
    ] = None,
    list_items: Annotated[bool, typer.Option("--list", metavar="", help="List the items and exit.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", metavar="", help="Show what would run and how long it takes, and exit.")
    ] = False,
    finished: Annotated[
        bool, typer.Option("--finished", metavar="", help="Run nothing; report the studies that are finished.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Folder for runs and report (runs/reproduce-SCALE).")] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Compute the tables, figures and claims of the paper again, at a scale that fits the machine.

    quick takes minutes, on data that come with the package; cpu takes hours on two cores, with the original CIFAR-10;
    full is the paper's setting. Finished runs are kept: after a stop, the same command continues. Writes report.html,
    results.md and the data of all figures as CSV.
    """
    from scdh.cli.inputs import check_folder_writable
    from scdh.experiments.reproduce.claims import decide_all
    from scdh.experiments.reproduce.items import ITEMS, chosen_items
    from scdh.experiments.reproduce.report import write_report
    from scdh.experiments.reproduce.run import plan_lines, plan_work, run_work
    from scdh.experiments.reproduce.scale import all_studies, load_scale, write_clusters
    from scdh.extras import check_installed, missing_packages

    use_device(device)
    if list_items:
        print_table(["item", "what it shows"], [(item.name, item.about) for item in ITEMS])
        return
    chosen, setting = chosen_items(items or []), load_scale(scale)
    folder = out or Path("runs") / f"reproduce-{setting.name}"
    check_installed("The report", "matplotlib", "jinja2")
    check_folder_writable(folder)
    places = _places(root, data or [])
    for name, role in setting.roles.items():
        if role.needs == "clusters" and name not in places:
            places[name] = str(write_clusters(folder / "data", role.classes))
        elif role.needs and name not in places:
            option = "--root FOLDER" if role.needs == "root" and name == "single" else f"--data {name}=PATH"
            print_note(f"No data in place of {role.stands_for} ({role.title}); give {option}.")
        if missing := missing_packages(*role.needs_packages):
            print_note(f"{role.title} needs {' and '.join(missing)} (pip install 'scdh[demo]') and is left out.")
            setting = setting.model_copy(update={"roles": {k: r for k, r in setting.roles.items() if k != name}})
    needed = {group for item in chosen for group in item.needs}
    studies = all_studies(setting, places, None if seeds is None else read_numbers(seeds, "--seeds", least=0))
    wanted = [study for study in studies if study.group in needed]
    reproduced = plan_work(setting, wanted, folder, any_seeds=finished)
    left = plan_lines(reproduced)
    if plan:
        _print_plan(left, as_json)
        return
    print_note(f"{sum(line['runs'] for line in left):,} runs are left, about {_duration(left)}.")
    try:
        if not finished:
            run_work(reproduced, print_note)
        blocks = [block for item in chosen for block in item.build(reproduced) if block is not None]
    except KeyboardInterrupt:
        raise Stopped("Stopped; the same command continues") from None
    verdicts = decide_all(reproduced)
    written = write_report(reproduced, blocks, verdicts, folder)
    if as_json:
        print_json({"report": str(written[0]), "claims": {verdict.id: verdict.outcome for verdict in verdicts}})
        return
    lines = [(verdict.claim, verdict.outcome, verdict.evidence) for verdict in verdicts]
    print_table(["claim", "outcome", "evidence"], lines, title=f"Claims of the paper at scale {setting.name}")
    print_line(f"Written: {', '.join(str(path) for path in written)}.")


def _places(root: Path | str | None, texts: list[str]) -> dict[str, str]:
    from scdh.experiments.reproduce.scale import ROLES

    places = {} if root is None else {"single": str(root)}
    for text in texts:
        role, sign, path = text.partition("=")
        if not sign or role not in ROLES:
            raise ConfigError(f"--data must be ROLE=PATH with a role of {', '.join(ROLES)}, not {text!r}.")
        places[role] = path
    return places


def _duration(lines: Any) -> str:
    seconds = sum(line["seconds"] for line in lines)
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )


def _print_plan(lines: Any, as_json: bool) -> None:
    if as_json:
        print_json({"studies": lines})
        return
    texts = [(line["study"], line["data"], f"{line['runs']:,}", f"{line['seconds']:,.0f} s") for line in lines]
    print_table(["study", "data", "runs left", "about"], texts, right=["runs left", "about"])
    print_line(f"{sum(line['runs'] for line in lines):,} runs are left, about {_duration(lines)}.")

"""What was chosen for a run without being given: printed before and after the trials, and by ``--show-config``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from scdh.cli.output import print_json, print_line
from scdh.cli.settings_text import to_toml, toml_value

if TYPE_CHECKING:
    from scdh.config import RunConfig
    from scdh.hasher import Hasher
    from scdh.runs.choices import Choices
    from scdh.training.plan import Plan


def choices_of(plan: "Plan | None", folder: Path | None) -> "Choices | None":
    """What was chosen for a run: by its plan, or earlier."""
    from scdh.runs.choices import Choices
    from scdh.runs.folder import RunFolder

    if plan is not None or folder is None:
        return None if plan is None else plan.choices
    return Choices.load(RunFolder(folder).choices_file)


def print_settings(run: "RunConfig", choices: "Choices | None", as_json: bool) -> None:
    from scdh.runs.choices import flat_settings

    made = [] if choices is None else choices.made
    to_try = [] if choices is None else choices.to_try
    if as_json:
        document = run.model_dump(mode="json")
        print_json({**document, "choices": [asdict(choice) for choice in made], "to_try": to_try})
        return
    values = flat_settings(run.model_dump(mode="json"))
    # A run that was made longer has another value than was chosen, and not for that reason.
    reasons = {choice.setting: choice.reason for choice in made if values.get(choice.setting) == choice.value}
    reasons |= dict.fromkeys(to_try, "where trials begin; they find the value when the run starts")
    print_line(to_toml(run, reasons))


def print_plan(plan: "Plan | None") -> None:
    if plan is None:
        return
    chosen = [choice for choice in plan.choices.made if choice.setting not in plan.choices.to_try]
    if chosen:
        values = ", ".join(f"{choice.setting}={toml_value(choice.value)}" for choice in chosen)
        print_line(f"Chosen for these data (--show-config has the reasons, --set changes any): {values}.")
    if plan.choices.to_try:
        print_line(
            f"To be found by trials on the {len(plan.protocol.validation):,} validation rows: "
            f"{', '.join(plan.choices.to_try)}."
        )
    elif plan.why_not_tried:
        print_line(f"No settings are tried: {plan.why_not_tried}.")


def print_found(plan: "Plan", as_json: bool) -> None:
    if as_json:
        return
    from scdh.runs.choices import counted_trials

    trials, validation = plan.choices.trials, plan.protocol.validation
    if trials:
        tried = sorted({key for trial in trials for key in trial.values})
        found = {choice.setting: choice for choice in plan.choices.made if choice.setting in tried}
        values = ", ".join(f"{key}={toml_value(choice.value)}" for key, choice in found.items())
        seconds = sum(trial.seconds for trial in trials)
        print_line(f"Found by {counted_trials(len(trials))} in {seconds:.1f} s: {values}.")
    if plan.choices.refit:
        effect = f"the {len(validation):,} validation rows train too" if len(validation) else "no rows validate"
        print_line(f"--refit: {effect}.")


def print_alpha_advice(model: "Hasher", choices: "Choices | None") -> None:
    """Where the signs of the outputs lose much, as a higher α would prevent; trials of α have looked at that before."""
    from scdh.training.search import ALPHA, L_Q_BAND

    alpha, l_q = getattr(model.method.settings, "alpha", None), model.info.get("history", {}).get("l_q", 0.0)
    was_tried = choices is not None and any(ALPHA in trial.values for trial in choices.trials)
    if alpha is not None and l_q > L_Q_BAND[1] and not was_tried:
        print_line(
            f"l_q ended at {l_q:.2f}, so the signs of the outputs lose much; the paper found {L_Q_BAND[0]:g} to "
            f"{L_Q_BAND[1]:g} good. More epochs, or a higher {ALPHA} than {alpha:g}, may give better codes."
        )

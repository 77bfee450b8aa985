"""The settings of a run, and what was chosen for it: printed before and after the trials, and by ``--show-config``."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scdh.cli.output import print_json, print_line
from scdh.printable import counted, json_text

if TYPE_CHECKING:
    from scdh.config import RunConfig
    from scdh.model.hasher import Hasher
    from scdh.runs.choices import Choices
    from scdh.training.plan import Plan


def print_settings(plan: "Plan", as_json: bool) -> None:
    """Print all settings as TOML, with a reason for each that was chosen."""
    from scdh.runs.choices import flat_settings

    choices = plan.choices
    run = plan.config if choices is None or plan.is_settled else choices.final()
    made = [] if choices is None else choices.made
    to_try = plan.to_try
    if as_json:
        document = run.model_dump(mode="json")
        print_json({**document, "choices": [asdict(choice) for choice in made], "to_try": to_try})
        return
    values = flat_settings(run.model_dump(mode="json"))
    # If a run was made longer, its value is not the chosen one, and the reason does not apply.
    reasons = {choice.setting: choice.reason for choice in made if values.get(choice.setting) == choice.value}
    reasons |= dict.fromkeys(to_try, "trials start from this value, and find the final one when the run starts")
    print_line(to_toml(run, reasons))


def print_plan(plan: "Plan", folder: Path) -> None:
    """Print what a run is going to do."""
    run = plan.config
    print_line(
        f"Training {run.method.name} with {run.method.bits} bits on {run.data.source} "
        f"({run.net.backbone}, {_duration(plan)}seed {run.seed}) in {folder}."
    )
    print_line(f"Split: {plan.protocol.describe()}.")
    if plan.choices is None or plan.is_settled:
        return
    chosen = [choice for choice in plan.choices.made if choice.setting not in plan.to_try]
    if chosen:
        values = ", ".join(f"{choice.setting}={json_text(choice.value)}" for choice in chosen)
        print_line(f"Chosen for these data (--show-config has the reasons, --set changes any): {values}.")
    if plan.to_try:
        print_line(
            f"To be found by trials on the {len(plan.protocol.validation):,} validation rows: {', '.join(plan.to_try)}."
        )
    elif plan.why_not_tried:
        print_line(f"No settings are tried: {plan.why_not_tried}.")
    if plan.choices.refit:
        count = len(plan.protocol.validation)
        print_line(f"--refit: {f'the {count:,} validation rows train too' if count else 'no rows validate'}.")


def _duration(plan: "Plan") -> str:
    from scdh.methods.registry import method_class

    if "train.epochs" in plan.to_try or not method_class(plan.config.method.name).learns_by_gradient:
        return ""
    return f"{counted(plan.config.train.epochs, 'epoch')}, "


def print_found(plan: "Plan") -> None:
    """Print what the trials found."""
    if plan.choices is None:
        return
    trials = plan.choices.trials
    if trials:
        tried = sorted({key for trial in trials for key in trial.values})
        found = {choice.setting: choice for choice in plan.choices.made if choice.setting in tried}
        values = ", ".join(f"{key}={json_text(choice.value)}" for key, choice in found.items())
        seconds = sum(trial.seconds for trial in trials)
        print_line(f"Found by {counted(len(trials), 'trial')} in {seconds:.1f} s: {values}.")


def print_alpha_advice(model: "Hasher", choices: "Choices | None") -> None:
    """Advise a higher α if the signs of the outputs lose much and α was not found by trials, which check this."""
    from scdh.training.search import ALPHA, L_Q_BAND

    alpha, l_q = getattr(model.method.settings, "alpha", None), model.info.get("history", {}).get("l_q", 0.0)
    was_tried = choices is not None and any(ALPHA in trial.values for trial in choices.trials)
    if alpha is not None and l_q > L_Q_BAND[1] and not was_tried:
        print_line(
            f"l_q ended at {l_q:.2f}, so the signs of the outputs lose much; the paper found {L_Q_BAND[0]:g} to "
            f"{L_Q_BAND[1]:g} good. More epochs, or a higher {ALPHA} than {alpha:g}, may give better codes."
        )


def to_toml(run: "RunConfig", reasons: Mapping[str, str] | None = None) -> str:
    """All settings, readable by ``--config`` again; "none" has no form in TOML and becomes a comment."""
    values, reasons = run.model_dump(mode="json"), reasons or {}
    lines = [_toml_line(key, value, reasons.get(key)) for key, value in values.items() if not isinstance(value, dict)]
    for group, inner in values.items():
        if isinstance(inner, dict):
            settings = (_toml_line(key, value, reasons.get(f"{group}.{key}")) for key, value in inner.items())
            lines += ["", f"[{group}]", *settings]
    return "\n".join(lines)


def _toml_line(key: str, value: Any, reason: str | None) -> str:
    line = f"# {key} is not set" if value is None else f"{key} = {json_text(value)}"
    return line if reason is None else f"{line}  # {' '.join(reason.split())}"

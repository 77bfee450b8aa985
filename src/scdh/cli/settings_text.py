"""The settings of a run as TOML text, with the reasons for what was chosen."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scdh.printable import json_text

if TYPE_CHECKING:
    from scdh.config import RunConfig


def to_toml(run: "RunConfig", reasons: Mapping[str, str] | None = None) -> str:
    """All settings, readable by ``--config`` again; "none" has no form in TOML and becomes a comment.

    Args:
        run: the settings.
        reasons: by dotted key, why a setting has its value; they are added as comments.
    """
    values, reasons = run.model_dump(mode="json"), reasons or {}
    lines = [_toml_line(key, value, reasons.get(key)) for key, value in values.items() if not isinstance(value, dict)]
    for group, inner in values.items():
        if isinstance(inner, dict):
            settings = (_toml_line(key, value, reasons.get(f"{group}.{key}")) for key, value in inner.items())
            lines += ["", f"[{group}]", *settings]
    return "\n".join(lines)


def _toml_line(key: str, value: Any, reason: str | None) -> str:
    line = f"# {key} is not set" if value is None else f"{key} = {toml_value(value)}"
    return line if reason is None else f"{line}  # {' '.join(reason.split())}"


def toml_value(value: Any) -> str:
    """Strings, numbers, truth values and lists of them are written as in JSON."""
    return json_text(value)

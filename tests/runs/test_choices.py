"""Choices of a run: kept, read again, and turned into settings."""

import pytest

from scdh.config import load_config
from scdh.errors import DataError
from scdh.runs.choices import Choice, Choices, Trial, flat_settings, with_values

CONFIG = load_config(overrides={"data.source": "digits", "method.bits": 16, "method.alpha": 0.5})


def test_what_is_saved_is_read_again(tmp_path):
    choices = Choices(
        CONFIG,
        ["train.epochs"],
        [Choice("train.lr_head", 0.003, "MAP 0.9, ω")],
        [Trial({"train.lr_head": 0.003}, None, None, 0.1), Trial({"train.lr_head": 0.01}, 0.5, 0.2, 0.1)],
    )
    choices.save(tmp_path / "run" / "choices.json")
    assert Choices.load(tmp_path / "run" / "choices.json") == choices
    assert choices.find_trial({"train.lr_head": 0.01}) == choices.trials[1]
    assert choices.find_trial({"train.lr_head": 0.1}) is None


def test_resolved_settings_hold_every_choice_and_nothing_else_changes():
    choices = Choices(CONFIG, made=[Choice("train.lr_head", 0.003, ""), Choice("net.hidden", [8], "")])
    resolved = choices.resolved()
    assert (resolved.train.lr_head, resolved.net.hidden, resolved.method.own) == (0.003, [8], {"alpha": 0.5})
    assert with_values(resolved, {"train.lr_head": CONFIG.train.lr_head, "net.hidden": []}) == CONFIG
    assert flat_settings({"seed": 1, "net": {"views": 2}}) == {"seed": 1, "net.views": 2}


def test_no_file_is_no_choices_and_a_broken_one_is_named(tmp_path):
    assert Choices.load(tmp_path / "choices.json") is None
    for content in ("{", '{"format": "other"}', '{"format": "scdh choices 1"}', "[]"):
        (tmp_path / "choices.json").write_text(content)
        with pytest.raises(DataError, match=r"choices\.json"):
            Choices.load(tmp_path / "choices.json")

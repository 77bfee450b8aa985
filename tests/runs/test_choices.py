"""Choices of a run: kept, read again, and turned into settings."""

import json

import pytest

from scdh.config import load_config
from scdh.errors import DataError
from scdh.printable import counted
from scdh.runs.choices import Choice, Choices, Trial, flat_settings

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
    assert resolved.with_values({"train.lr_head": CONFIG.train.lr_head, "net.hidden": []}) == CONFIG
    assert flat_settings({"seed": 1, "net": {"views": 2}}) == {"seed": 1, "net.views": 2}


def test_no_file_is_no_choices_and_a_broken_one_is_named(tmp_path):
    assert Choices.load(tmp_path / "choices.json") is None
    for content in ("{", '{"format": "other"}', '{"format": "scdh choices 1"}', "[]"):
        (tmp_path / "choices.json").write_text(content)
        with pytest.raises(DataError, match=r"choices\.json"):
            Choices.load(tmp_path / "choices.json")


@pytest.mark.parametrize(
    "entry",
    [
        {"choices": [{"setting": 3, "value": 1, "reason": ""}]},
        {"choices": [{"setting": {}, "value": 1, "reason": ""}]},
        {"to_try": [3]},
        {"trials": [{"values": 3, "validation_map": 0.5, "l_q": None, "seconds": 1}]},
        {"trials": [{"values": {}, "validation_map": "high", "l_q": None, "seconds": 1}]},
    ],
)
def test_choices_of_the_wrong_kinds_are_one_sentence(entry, tmp_path):
    file = tmp_path / "choices.json"
    Choices(CONFIG).save(file)
    content = {key: value for key, value in json.loads(file.read_text()).items() if key != "checksum"}
    file.write_text(json.dumps(content))
    assert Choices.load(file) == Choices(CONFIG)
    file.write_text(json.dumps(content | entry))
    with pytest.raises(DataError, match="a setting has no name, or a trial no numbers"):
        Choices.load(file)


def test_one_trial_is_not_called_trials():
    assert [counted(count, "trial") for count in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]

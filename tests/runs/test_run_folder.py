"""A run folder belongs to one run: its choices, data that were moved or changed, and parts of other runs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from scdh.config import load_config
from scdh.errors import ChangedDataError, DataError, ScdhError, TrainingError
from scdh.model.hasher import Hasher
from scdh.runs.choices import Choice, Choices, Trial, flat_settings
from scdh.runs.folder import RunFolder
from scdh.runs.run_data import open_run_data
from scdh.runs.scoring import score_run
from tests.cli.commands import fails, must, run
from tests.training.settled import as_settings, train


@pytest.fixture(scope="module")
def lsh_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "lsh"
    train(_config(), folder, quiet=True)
    return RunFolder(folder)


def _config(**settings):
    return load_config("demo-digits", overrides={"method.name": "lsh", "method.bits": 8, **settings})


def test_a_model_folder_is_not_taken_for_a_run(lsh_run):
    with pytest.raises(TrainingError, match="holds a model, not a run"):
        train(_config(), lsh_run.model, quiet=True)
    assert Hasher.load(lsh_run.path).bits == 8


def test_leftovers_of_a_stopped_run_do_not_pass_for_the_new_one(lsh_run, tmp_path):
    stopped = RunFolder(tmp_path / "stopped")
    stopped.claim(_config(), resume=False)
    for folder in (stopped.student, stopped.best):  # as a run leaves them that is killed before its first checkpoint
        Hasher.load(lsh_run.path).save(folder)
    train(_config(), stopped.path, quiet=True)
    assert stopped.is_finished
    assert not stopped.has_student
    assert not stopped.best.exists()


@pytest.mark.parametrize("text", ["[]", "{}", '{"config": 3}', "not JSON"])
def test_settings_that_cannot_be_read_are_one_sentence(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(DataError, match="does not hold the settings of a run: "):
        RunFolder(tmp_path).config()


def write_photos(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    for shade, name in enumerate(("cat", "dog")):
        (folder / name).mkdir(parents=True)
        for i in range(12):
            pixels = rng.integers(120 * shade, 120 * shade + 100, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i:02}.png")
    return folder


SETTINGS = as_settings(
    "data.query_per_class=4 data.validation_per_class=0 net.backbone=small_conv net.image_size=16 "
    "net.pretrained=false net.freeze=true train.epochs=1 train.batch_size=8 train.workers=0 method.bits=8"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``photos`` and ``run``; the run knows the photos by a relative path."""
    folder = tmp_path_factory.mktemp("trained")
    write_photos(folder / "photos")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        train(load_config(overrides={**SETTINGS, "data.source": "photos"}), Path("run"), quiet=True)
        must("evaluate run")
    return folder


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "copy")


def gone_from(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a copied run the absolute path still leads to the data it was trained on; here they are moved away."""
    config = json.loads((place / "run/config.json").read_text())
    del config["checksum"]
    config["data_paths"]["source"]["absolute"] = "/nowhere/photos"
    (place / "run/config.json").write_text(json.dumps(config))


def test_a_relative_path_is_found_from_any_folder(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(open_run_data(RunFolder(trained / "run")).source) == 24


def test_run_and_data_may_move_together(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone_from(copy, monkeypatch)
    opened = open_run_data(RunFolder(copy / "run"))
    assert opened.source.item_name(0) == str(copy / "photos/cat/00.png")


def test_data_that_moved_alone_are_named(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone_from(copy, monkeypatch)
    shutil.move(copy / "photos", tmp_path / "elsewhere")
    err = fails(f"evaluate {copy}/run")
    assert "are not at /nowhere/photos or" in err
    assert "name them with --data PATH" in err
    for command in ("evaluate {run}", "report {run}"):
        must(f"{command.format(run=copy / 'run')} --data {tmp_path}/elsewhere --no-floats")


def test_changed_files_are_named(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone_from(copy, monkeypatch)
    photos, folder = copy / "photos", RunFolder(copy / "run")
    protocol = folder.saved_protocol()
    query = int(protocol.query[0])
    names = [Path(open_run_data(folder).source.item_name(row)) for row in range(24)]
    names[query].rename(names[query].with_name("renamed.png"))
    relabelled = names[int(protocol.train[-1])]  # a dog
    assert relabelled.parent.name == "dog"
    shutil.copy(relabelled, photos / "cat/added.png")
    with pytest.raises(ChangedDataError) as caught:
        open_run_data(folder)
    text = str(caught.value)
    gone = names[query].relative_to(photos)
    assert f"1 file is gone ({gone}), 2 files are new (cat/added.png, {gone.parent}/renamed.png)" in text
    assert "--remaining" in text
    opened = open_run_data(folder, remaining=True)
    assert len(opened.protocol.query) == len(protocol.query) - 1
    kept = [Path(opened.source.item_name(row)) for row in opened.protocol.query.tolist()]
    assert kept == [names[row] for row in protocol.query.tolist()[1:]]
    assert "1 of 8 query rows are gone; 2 new files are left out" in opened.protocol.about
    scores = json.loads(must(f"evaluate {copy}/run --remaining --json --no-floats --no-outputs"))
    assert scores["definition"]["queries"] == 7
    assert "the data have changed since training" in scores["split_about"]
    assert json.loads((copy / "run/scores.json").read_text())["split_about"] == scores["split_about"]
    assert run(f"report {copy}/run")[0] == 2
    must(f"report {copy}/run --remaining --no-floats")


def test_labels_that_changed_are_named(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos")
    rows = [f"photos/{name}/{i:02}.png,{name}" for name in ("cat", "dog") for i in range(12)]
    table = tmp_path / "photos.csv"
    table.write_text("\n".join(["path,label", *rows]))
    train(load_config(overrides={**SETTINGS, "data.source": str(table)}), tmp_path / "run", quiet=True)
    rows[3] = rows[3].replace(",cat", ",dog")
    table.write_text("\n".join(["path,label", *rows]))
    with pytest.raises(ChangedDataError, match=r"1 file has other labels \(photos/cat/03\.png\)"):
        open_run_data(RunFolder(tmp_path / "run"))
    table.write_text("\n".join(["path,label", *rows[::-1]]).replace("cat/03.png,dog", "cat/03.png,cat"))
    with pytest.raises(ChangedDataError, match="the files are in another order"):
        open_run_data(RunFolder(tmp_path / "run"))
    assert (
        score_run(
            RunFolder(tmp_path / "run"),
            source=(opened := open_run_data(RunFolder(tmp_path / "run"), remaining=True)).source,
            protocol=opened.protocol,
        ).scores.definition["queries"]
        == 8
    )


@pytest.fixture(scope="module")
def other(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another run on the same photos, with the same settings but the seed."""
    folder = tmp_path_factory.mktemp("other") / "run"
    train(load_config(overrides={**SETTINGS, "data.source": str(trained / "photos"), "seed": 1}), folder, quiet=True)
    must(f"evaluate {folder}")
    return folder


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ("protocol.json", "split"),
        ("config.json", "split"),
        ("model", "model"),
        ("last.safetensors", "checkpoint"),
        ("codes/query.codes", "codes"),
        ("scores.json", "scores"),
    ],
)
def test_a_part_of_another_run_is_noticed(copy, other, part, kind, monkeypatch):
    monkeypatch.chdir(copy)  # the settings name the photos by a relative path
    target = copy / "run" / part
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    shutil.copytree(other / part, target) if (other / part).is_dir() else shutil.copy(other / part, target)
    code, out, _ = run(f"check {copy}/run")
    assert code == 1
    damaged = [line for line in out.splitlines() if line.startswith("DAMAGED")]
    assert damaged[0].startswith(f"DAMAGED  {kind}: ")
    if part in ("protocol.json", "config.json", "model"):
        with pytest.raises(ScdhError, match="belongs to another run"):
            score_run(RunFolder(copy / "run"))
    if part == "config.json":
        return
    assert len(damaged) == 1
    if part == "last.safetensors":
        config = RunFolder(copy / "run").config()
        longer = config.model_copy(update={"train": config.train.model_copy(update={"epochs": 2})})
        with pytest.raises(DataError, match=r"last\.safetensors' belongs to another run"):
            train(longer, copy / "run", resume=True, quiet=True)


def test_choices_of_another_run_are_noticed(copy: Path, other: Path) -> None:
    for run_of, code in ((copy / "run", 0), (other, 1)):
        Choices(RunFolder(run_of).config()).save(RunFolder(copy / "run").choices_file)
        found, out, _ = run(f"check {copy}/run")
        assert found == code
        assert out.count("DAMAGED  choices: ") == code


def test_a_whole_run_has_one_id(trained: Path) -> None:
    folder = RunFolder(trained / "run")
    assert len(folder.id) == 16
    assert folder.saved_protocol().run_id == Hasher.load(folder.model).info["run_id"] == folder.id
    assert folder.saved_scores()["run_id"] == folder.id
    assert run(f"check {folder}")[0] == 0


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

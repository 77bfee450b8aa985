"""A run folder belongs to one run: what another run left must neither be overwritten nor pass for the new run's."""

import pytest

from scdh.config import load_config
from scdh.errors import DataError, ModelError, TrainingError
from scdh.model.hasher import Hasher
from scdh.runs.folder import RunFolder
from tests.training.settled import train


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "lsh"
    train(_config(), folder, quiet=True)
    return RunFolder(folder)


def _config(**settings):
    return load_config("demo-digits", overrides={"method.name": "lsh", "method.bits": 8, **settings})


def test_a_model_folder_is_not_taken_for_a_run(run):
    with pytest.raises(TrainingError, match="holds a model, not a run"):
        train(_config(), run.model, quiet=True)
    assert Hasher.load(run.path).bits == 8


def test_a_finished_run_is_not_overwritten(run):
    with pytest.raises(TrainingError, match="already holds a run"):
        train(_config(), run.path, quiet=True)


def test_leftovers_of_a_stopped_run_do_not_pass_for_the_new_one(run, tmp_path):
    stopped = RunFolder(tmp_path / "stopped")
    stopped.claim(_config(), resume=False)
    for folder in (stopped.student, stopped.best):  # as a run leaves them that is killed before its first checkpoint
        Hasher.load(run.path).save(folder)
    train(_config(), stopped.path, quiet=True)
    assert stopped.is_finished
    assert not stopped.has_student
    assert not stopped.best.exists()


def test_a_model_without_weights_is_one_sentence(run, tmp_path):
    Hasher.load(run.path).save(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"has no model\.safetensors\.$"):
        Hasher.load(tmp_path / "model")


def test_the_run_of_a_model_folder(run):
    assert RunFolder.of_model(run.model).path == run.path
    assert RunFolder.of_model(run.path).path == run.path


@pytest.mark.parametrize("text", ["[]", "{}", '{"config": 3}', "not JSON"])
def test_settings_that_cannot_be_read_are_one_sentence(text, tmp_path):
    run = RunFolder(tmp_path)
    run.config_file.write_text(text)
    with pytest.raises(DataError, match="does not hold the settings of a run: "):
        run.config()

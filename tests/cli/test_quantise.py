"""``scdh quantise`` from end to end: a run of small pictures, its INT8 model, and the commands that take it."""

import json
from pathlib import Path

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.data.open import open_source
from scdh.data.protocol import Protocol
from scdh.errors import ConfigError
from scdh.model.hasher import Hasher
from scdh.runs import quantising
from scdh.runs.folder import RunFolder
from scdh.runs.quantising import choose_rows
from tests.cli.commands import fails, must, run, run_json

# One epoch at the usual α leaves all rows at one code, which rounding does not change.
TRAIN = (
    "train --data digits-images --set net.backbone=small_conv --set net.image_size=16 --epochs 1 --no-trials --bits 12 "
    "--set method.alpha=0.3"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run and its INT8 model, by torch alone: OpenVINO has tests in processes of its own."""
    folder = tmp_path_factory.mktemp("quantise")
    must(f"{TRAIN} --out {folder}/run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantising, "missing_packages", lambda *names: list(names))
        patch.setattr("scdh.model.engine.missing_packages", lambda *names: list(names))
        (folder / "said").write_text(must(f"quantise {folder}/run --out {folder}/run/int8 --images 40 --workers 0"))
    return folder


@pytest.fixture(autouse=True)
def without_openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantising, "missing_packages", lambda *names: list(names))
    monkeypatch.setattr("scdh.model.engine.missing_packages", lambda *names: list(names))


def test_the_command_says_what_changed(shop: Path) -> None:
    said = (shop / "said").read_text()
    assert "an INT8 model of 12-bit codes, calibrated on 40 training rows" in said
    assert "validation rows" in said
    assert "of the bits differ from float32; MAP 0." in said
    assert f"scdh encode {shop}/run/int8 digits-images --out int8.codes" in said
    facts = run_json(f"info {shop}/run/int8 --json")
    assert (facts["precision"], facts["calibration_images"]) == ("int8", 40)
    assert 0 <= facts["differing_bits"] < 0.2
    assert facts["float32_model"] == run_json(f"info {shop}/run --json")["model_fingerprint"]
    assert f"{shop}/run/int8" in must(f"check {shop}/run")


def test_codes_of_both_are_not_mixed(shop: Path) -> None:
    for name, model in (("float", "run"), ("int8", "run/int8")):
        options = "--part database --workers 0"
        must(f"encode {shop}/{model} digits-images {options} --out {shop}/{name}.codes")
        must(f"index {shop}/{name}.codes --out {shop}/{name}.index")
    codes, exact = (Codes.load(shop / f"{name}.codes") for name in ("int8", "float"))
    assert codes.metadata["model"] == Hasher.load(shop / "run/int8").fingerprint() != exact.metadata["model"]
    assert 0 < (codes.unpack() != exact.unpack()).mean() < 0.2
    picture = shop / "one.png"
    open_source("digits-images").image(0).save(picture)
    assert must(f"search {shop}/int8.index --model {shop}/run/int8 {picture} -k 3")
    assert "model" in fails(f"search {shop}/float.index --model {shop}/run/int8 {picture} -k 3")
    assert "model" in fails(f"evaluate --queries {shop}/int8.codes --database {shop}/float.codes")


def test_kept_features_of_the_float_trunk_are_not_used(shop: Path) -> None:
    must(f"{TRAIN} --set net.freeze=true --out {shop}/frozen")  # it keeps the features of its trunk
    must(f"quantise {shop}/frozen --out {shop}/frozen/int8 --images 40 --workers 0")
    must(f"encode {shop}/frozen/int8 digits-images --part validation --workers 0 --out {shop}/frozen.codes")
    found, model, source = (
        Codes.load(shop / "frozen.codes"),
        Hasher.load(shop / "frozen/int8"),
        open_source("digits-images"),
    )
    expected = model.encode([source.image(int(row)) for row in found.ids], engine="torch", workers=0)
    assert np.array_equal(found.packed, expected.packed)


def test_queries_never_calibrate(shop: Path) -> None:
    folder, source = RunFolder(shop / "run"), open_source("digits-images")
    protocol = Protocol.load(folder.protocol_file)
    chosen = choose_rows(folder, source, 50, seed=3)
    assert len(chosen.calibration) == 50
    assert set(chosen.calibration) <= set(protocol.train)
    assert set(chosen.compared) == set(protocol.validation)
    assert not np.array_equal(chosen.calibration, choose_rows(folder, source, 50, seed=4).calibration)
    every = choose_rows(RunFolder(shop), source, 10**6)  # a model without its run
    assert (len(every.calibration), len(every.compared)) == (len(source), 0)
    other = choose_rows(RunFolder(shop), source, 100)
    assert (len(other.compared), other.compared_name) == (1000, "other images of digits-images")
    assert not set(other.calibration) & set(other.compared)
    with pytest.raises(ConfigError, match="must be 1 or more, not 0"):
        choose_rows(folder, source, 0)


def test_a_model_without_its_run_takes_data(shop: Path, tmp_path: Path) -> None:
    Hasher.load(shop / "run").save(tmp_path / "lone")
    found = run_json(f"quantise {tmp_path}/lone digits-images --out {tmp_path}/int8 --images 1797 --workers 0 --json")
    assert (found["calibration_images"], found["compared_images"], found["differing_bits"]) == (1797, 0, None)
    assert found["fingerprint"] == json.loads((tmp_path / "int8/config.json").read_text())["fingerprint"]


WRONG = {
    "no data": ("quantise {d}/lone --out {d}/x", "is not in a run folder, so its data are unknown; name images"),
    "an INT8 model": ("quantise {d}/run/int8 --out {d}/x", "is an INT8 model already"),
    "a float model at OUT": ("quantise {d}/run --out {d}/lone --replace", "holds a float32 model, which --out never"),
    "the model itself": ("quantise {d}/run --out {d}/run/model --replace", "holds a float32 model, which --out never"),
    "an INT8 model at OUT": ("quantise {d}/run --out {d}/run/int8", "holds an INT8 model already; --replace"),
    "something else at OUT": ("quantise {d}/run --out {d}", "holds other files and no model"),
    "options without DATA": ("quantise {d}/run --label-column x --out {d}/x", "--label-column is for DATA"),
    "embeddings as DATA": ("quantise {d}/run digits --out {d}/x", "encodes images, but got embeddings"),
    "no images": ("quantise {d}/run --images 0 --out {d}/x", "--images"),
    "nothing": ("quantise {d}/nowhere --out {d}/x", "no model folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_one_sentence(case: str, shop: Path) -> None:
    if not (shop / "lone").exists():
        Hasher.load(shop / "run").save(shop / "lone")
    command, message = WRONG[case]
    code, out, err = run(command.format(d=shop))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (shop / "x").exists()

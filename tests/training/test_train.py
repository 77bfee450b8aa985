"""The front door: the same from Python and from the command line, everything computed once, nothing left behind."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import scdh
from scdh.config import RunConfig, load_config
from scdh.data import ArraySource
from scdh.errors import ConfigError, DataError, TrainingError
from scdh.runs import protocol as protocol_module
from tests.cli.commands import fails, must
from tests.data.data_files import picture, write_pictures
from tests.training.settled import shorten_trials

RNG = np.random.default_rng(0)
LABELS = np.arange(90) % 3
VECTORS = (RNG.normal(size=(3, 8))[LABELS] + 0.5 * RNG.normal(size=(90, 8))).astype(np.float32)


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    shorten_trials(monkeypatch, 6)


@pytest.fixture
def vectors(tmp_path):
    np.savez(tmp_path / "vectors.npz", X=VECTORS, y=LABELS)
    return tmp_path / "vectors.npz"


def table(path):
    labels = [["red"] * (i % 2) + ["round"] * (i % 3 == 0) + ["soft"] * (i % 5 < 3) for i in range(90)]
    pq.write_table(pa.table({"embedding": VECTORS.tolist(), "tags": labels, "name": list(range(90))}), path)
    return path


def of_command(command, out):
    must(f"train {command} --out {out}")
    return scdh.Hasher.load(out).fingerprint()


def test_a_photo_folder_gives_the_same_weights_from_python_and_the_command_line(tmp_path):
    write_pictures(tmp_path / "photos", [f"{kind}/{i}.png" for kind in ("apples", "pears") for i in range(8)])
    options = "--bits 16 --epochs 2 --seed 3 --set net.backbone=small_conv --set train.batch_size=4"
    expected = of_command(f"--data {tmp_path}/photos {options}", tmp_path / "run")
    settings = {"net__backbone": "small_conv", "train__batch_size": 4}
    model = scdh.train(tmp_path / "photos", bits=16, epochs=2, seed=3, quiet=True, **settings)
    assert model.fingerprint() == expected


def test_an_embedding_file_gives_the_same_weights_from_python_and_the_command_line(vectors, tmp_path):
    expected = of_command(f"--data {vectors} --epochs 2", tmp_path / "run")  # with trials
    model = scdh.train(vectors, epochs=2, out=tmp_path / "python", quiet=True)
    assert model.fingerprint() == expected
    assert model.bits == 32
    config = scdh.load_config(overrides={"data.source": str(vectors), "train.epochs": 2})
    assert scdh.Hasher.train(config, quiet=True).fingerprint() == expected
    assert scdh.train(VECTORS, labels=LABELS, epochs=2, quiet=True).fingerprint() == expected
    files = [{p.name for p in (tmp_path / name).iterdir()} for name in ("run", "python")]
    assert files[0] == files[1]


def test_a_table_with_several_labels_gives_the_same_weights_from_python_and_the_command_line(tmp_path):
    file = table(tmp_path / "items.parquet")
    options = "--bits 12 --method dsh --epochs 2 --no-trials"
    options += " --vector-column embedding --label-column tags --id-column name"
    expected = of_command(f"--data {file} {options}", tmp_path / "run")
    columns = {"vector_column": "embedding", "label_column": "tags", "id_column": "name"}
    model = scdh.train(file, 12, "dsh", trials=False, epochs=2, quiet=True, **columns)
    assert model.multi_label
    assert model.fingerprint() == expected


@pytest.mark.parametrize("refit", [False, True])
def test_data_split_and_settings_are_computed_once(vectors, tmp_path, monkeypatch, refit):
    counts = {"settings": 0, "data": 0, "split": 0}

    def counted(what, function):
        def call(*arguments, **options):
            counts[what] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(RunConfig, "model_validate", counted("settings", RunConfig.model_validate))
    monkeypatch.setattr(protocol_module, "open_source", counted("data", protocol_module.open_source))
    monkeypatch.setattr(protocol_module, "hold_out", counted("split", protocol_module.hold_out))
    scdh.train(vectors, epochs=1, out=tmp_path / "python", refit=refit, quiet=True)
    assert counts == {"settings": 1, "data": 1, "split": 1}
    must(f"train --data {vectors} --epochs 1 {'--refit' if refit else ''} --out {tmp_path}/command")
    assert counts == {"settings": 2, "data": 2, "split": 2}
    must(f"train --preset demo-digits --epochs 1 --out {tmp_path}/preset")
    assert counts == {"settings": 3, "data": 3, "split": 3}


def test_without_a_folder_nothing_is_left_behind(tmp_path, monkeypatch):
    write_pictures(tmp_path / "photos", [f"{kind}/{i}.png" for kind in ("apples", "pears") for i in range(8)])
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    for name in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path / "work"))
    before = set(tmp_path.rglob("*"))
    scdh.train("../photos", epochs=1, quiet=True, net__pretrained=False, net__image_size=32, net__freeze=True)
    scdh.train(VECTORS, labels=LABELS, epochs=1, quiet=True)
    assert set(tmp_path.rglob("*")) == before


def test_images_in_memory(tmp_path):
    small = {"net__backbone": "small_conv", "epochs": 1, "quiet": True, "train__batch_size": 4}
    write_pictures(tmp_path, [f"{i}.png" for i in range(16)])
    paths = [tmp_path / f"{i}.png" for i in range(16)]
    names = ["apple", "pear"] * 8
    model = scdh.train(paths, labels=names, **small)
    assert model.label_names == ["apple", "pear"]
    pictures = scdh.train([picture(i) for i in range(16)], labels=names, **small)
    assert pictures.fingerprint() == model.fingerprint()
    pixels = np.stack([np.asarray(picture(i)) for i in range(16)])
    assert scdh.train(pixels, labels=names, **small).fingerprint() == model.fingerprint()


def test_labels_in_memory():
    def train(labels, **options):
        return scdh.train(VECTORS, 8, labels=labels, epochs=1, trials=False, quiet=True, **options)

    names = np.array(["a", "b", "c"])[LABELS]
    assert train(names).label_names == train(list(names)).label_names == ["a", "b", "c"]
    hot = np.eye(3, dtype=int)[LABELS] | np.eye(3, dtype=int)[(LABELS + np.arange(90) // 45) % 3]
    lists = [[name for name, has in zip("abc", row, strict=True) if has] for row in hot]
    assert train(hot).fingerprint() == train(lists).fingerprint()
    assert train(lists).label_names == ["a", "b", "c"]
    some = [None if i < 30 else int(label) for i, label in enumerate(LABELS)]
    assert train(some).fingerprint() == train(np.where(np.arange(90) < 30, -1, LABELS)).fingerprint()
    assert scdh.train(VECTORS, 8, "itq", quiet=True).bits == 8
    assert scdh.train(ArraySource(VECTORS, LABELS), 8, epochs=1, trials=False, quiet=True).bits == 8


@pytest.mark.parametrize(
    ("data", "labels", "words"),
    [
        (VECTORS, LABELS[:5], "90 items but 5 labels"),
        (VECTORS, None, "has no labels, and scdh learns from them"),
        (scipy.sparse.csr_matrix(VECTORS), LABELS, "TruncatedSVD"),
        (ArraySource(VECTORS, LABELS), LABELS, "has its own labels"),
        (3.5, None, "not float"),
        ([], [], "no items"),
        ("digits", LABELS, r"the path of an \.npy file"),
        ("digitz", None, "Unknown data 'digitz'"),
    ],
)
def test_mistakes_are_one_sentence(data, labels, words):
    with pytest.raises((DataError, ConfigError), match=words) as caught:
        scdh.train(data, labels=labels)
    assert "\n" not in str(caught.value)


def test_unknown_settings_are_rejected_by_name(vectors):
    with pytest.raises(ConfigError, match=r"did you mean 'train\.epochs'"):
        scdh.train(vectors, train__epoch=3)
    with pytest.raises(ConfigError, match=r"scdh\.train has no argument 'label'; did you mean 'labels'"):
        scdh.train(VECTORS, label=LABELS)
    with pytest.raises(ConfigError, match="resume=True needs the folder"):
        scdh.train(vectors, resume=True)


def test_the_same_call_resumes(vectors, tmp_path):
    scdh.train(vectors, 8, out=tmp_path / "run", epochs=1, trials=False, quiet=True)
    with pytest.raises(TrainingError, match="already holds a run"):
        scdh.train(vectors, 8, out=tmp_path / "run", epochs=1, trials=False, quiet=True)
    with pytest.raises(TrainingError, match=r"another method\.bits \(8, not 32\)"):
        scdh.train(vectors, out=tmp_path / "run", epochs=1, quiet=True, resume=True)
    longer = scdh.train(vectors, 8, out=tmp_path / "run", epochs=2, quiet=True, resume=True)
    assert longer.info["epochs"] == 2


def test_a_run_on_data_in_memory_says_that_it_cannot_open_them_again(tmp_path):

    scdh.train(VECTORS, 8, labels=LABELS, out=tmp_path / "run", epochs=1, trials=False, quiet=True)
    assert "were given in memory" in fails(f"evaluate {tmp_path}/run")


def test_a_preset_leaves_nothing_to_choose():
    assert load_config("demo-digits").is_complete
    assert not load_config(overrides={"data.source": "digits"}).is_complete
    assert load_config(overrides={"data.source": "digits", "method.lam": 0.1}).given() == {
        "data.source": "digits",
        "method.lam": 0.1,
    }


def test_values_are_replaced_with_the_checks_of_the_whole():
    config = load_config("demo-digits")
    assert config.with_values({"train.epochs": 3, "seed": 2}) == load_config(
        "demo-digits", overrides={"train.epochs": 3, "seed": 2}
    )
    with pytest.raises(ConfigError, match=r"'train\.epochs' cannot be 0"):
        config.with_values({"train.epochs": 0})
    with pytest.raises(ConfigError, match="Unknown scdh setting 'alfa'"):
        config.with_values({"method.alfa": 1})
    with pytest.raises(ConfigError, match="recalibrate"):
        load_config(overrides={"net.freeze": True}).with_values({"train.recalibrate": True})


def test_small_layers_train_with_one_thread_on_every_machine(monkeypatch):
    import torch

    from scdh.training import loop

    seen, build = set(), loop.build_schedule
    monkeypatch.setattr(loop, "build_schedule", lambda *given: seen.add(torch.get_num_threads()) or build(*given))
    before, weights = torch.get_num_threads(), set()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            model = scdh.train(VECTORS, 8, labels=LABELS, epochs=1, trials=False, quiet=True)
            weights.add(model.fingerprint())
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    assert seen == {1}
    assert len(weights) == 1

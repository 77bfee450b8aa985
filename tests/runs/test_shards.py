"""Encoding in shards: the merged codes are those of one process, also if processes are killed."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.config import load_config
from scdh.data.name_files import save_named_codes
from scdh.data.row_names import RowNames
from scdh.errors import ConfigError
from scdh.model.hasher import Hasher
from scdh.runs.shards import Shards
from tests.cli.commands import fails, must, run, run_json
from tests.data.data_files import write_pictures

COUNT = 43
OPTIONS = "--workers 0 --batch-size 2"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with photos, a model, and the codes of one process."""
    folder = tmp_path_factory.mktemp("shards")
    write_pictures(folder / "photos", [f"{kind}/{n:02}.png" for kind in "ab" for n in range(22)][:COUNT])
    settings = {"net.backbone": "small_conv", "net.pretrained": False, "net.image_size": 16, "method.bits": 24}
    Hasher.build(load_config(overrides=settings), ["a", "b"], False, None).save(folder / "model")
    must(f"encode {folder}/model {folder}/photos {OPTIONS} --out {folder}/whole.codes")
    return folder


def encode(place: Path, out: Path, *more: str) -> str:
    return f"encode {place}/model {place}/photos {OPTIONS} --out {out} {' '.join(more)}"


def test_merged_shards_are_the_codes_of_one_process(place: Path, tmp_path: Path) -> None:
    for shard in (2, 0):
        must(encode(place, tmp_path / "s", "--shards 5", f"--shard {shard}"))
    assert "lacks 3 of 5 shards: 1, 3, 4" in fails(f"encode --merge {tmp_path}/s --out {tmp_path}/all.codes")
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "s").iterdir()}
    result = run_json(encode(place, tmp_path / "s", "--shards 5", "--json"))
    assert (result["encoded"], result["skipped"]) == (3, 2)
    assert all(file.stat().st_mtime_ns == written for file, written in before.items())
    must(f"encode --merge {tmp_path}/s --out {tmp_path}/all.codes")
    assert (tmp_path / "all.codes").read_bytes() == (place / "whole.codes").read_bytes()


def test_unreadable_images_are_left_out_as_by_one_process(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "photos", tmp_path / "photos")
    (tmp_path / "photos/a/03.png").write_bytes(b"broken")
    command = f"encode {place}/model {tmp_path}/photos {OPTIONS} --on-bad-image skip --out {tmp_path}"
    must(f"{command}/whole.codes")
    must(f"{command}/s --shards 4")
    merged = run_json(f"encode --merge {tmp_path}/s --out {tmp_path}/all.codes --json")
    assert (merged["items"], merged["left_out"]) == (COUNT - 1, 1)
    assert (tmp_path / "all.codes").read_bytes() == (tmp_path / "whole.codes").read_bytes()


def test_a_damaged_shard_is_encoded_again(place: Path, tmp_path: Path) -> None:
    must(encode(place, tmp_path / "s", "--shards 3"))
    file = sorted((tmp_path / "s").iterdir())[1]
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert run(f"encode --merge {tmp_path}/s --out {tmp_path}/all.codes")[0] == 2
    assert run_json(encode(place, tmp_path / "s", "--shards 3", "--json"))["encoded"] == 1
    must(f"encode --merge {tmp_path}/s --out {tmp_path}/all.codes")
    assert (tmp_path / "all.codes").read_bytes() == (place / "whole.codes").read_bytes()


def test_shards_of_other_data_models_or_divisions_are_rejected(place: Path, tmp_path: Path) -> None:
    must(encode(place, tmp_path / "s", "--shards 2"))
    shutil.copytree(place / "photos", tmp_path / "photos")
    (tmp_path / "photos/a/00.png").unlink()
    other = f"encode {place}/model {tmp_path}/photos {OPTIONS}"
    assert "has codes of other data" in fails(f"{other} --out {tmp_path}/s --shards 2")
    must(f"{other} --out {tmp_path}/other --shards 2 --shard 1")
    name = next((tmp_path / "other").iterdir()).name
    original = (tmp_path / "s" / name).read_bytes()
    shutil.copy(tmp_path / "other" / name, tmp_path / "s" / name)
    assert "has codes of other data than" in run(f"encode --merge {tmp_path}/s --out {tmp_path}/a.codes")[2]
    (tmp_path / "s" / name).write_bytes((tmp_path / "s" / name.replace("00001", "00000")).read_bytes())
    assert "is not the shard that its name says" in run(f"encode --merge {tmp_path}/s --out {tmp_path}/a.codes")[2]
    (tmp_path / "s" / name).write_bytes(original)
    must(encode(place, tmp_path / "s", "--shards 3", "--shard 0"))
    assert "shards of different divisions" in run(f"encode --merge {tmp_path}/s --out {tmp_path}/a.codes")[2]
    assert "contains no shards" in run(f"encode --merge {tmp_path}/photos --out {tmp_path}/a.codes")[2]


def forged(folder: Path, shard: int, **metadata: str) -> Path:
    """A file that is called a shard of two, with one code."""
    own = {"shard": str(shard), "shards": "2", "shard_rows": "1", "shard_data": "x", "model": "ab", **metadata}
    codes = Codes.from_signs(np.ones((1, int(own.pop("bits", "8"))), bool), ids=[shard], metadata=own)
    file = folder / f"shard-{shard:05}-of-00002.ab.codes"
    save_named_codes(file, codes, RowNames(np.array([shard]), ["a"], np.array([-1]), []))
    return file


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"shard_rows": "many"}, "is not the shard that its name says"),
        ({"shard_rows": "-1"}, "is not the shard that its name says"),
        ({"shard_rows": "9" * 5000}, "is not the shard that its name says"),
        ({"bits": "16"}, "different lengths"),
        ({"bits": "7"}, "different lengths"),
        ({"ranking": "words"}, "ranked by"),
    ],
)
def test_forged_shards_are_one_sentence(tmp_path: Path, second: dict[str, str], message: str) -> None:
    forged(tmp_path, 0)
    forged(tmp_path, 1, **second)
    code, _, err = run(f"encode --merge {tmp_path} --out {tmp_path}/all.codes")
    assert (code, err.count("\n")) == (2, 1)
    assert message in err


def test_a_huge_number_of_shards_is_not_listed(tmp_path: Path) -> None:
    file = forged(tmp_path, 0)
    file.rename(file.with_name(f"shard-00000-of-{10**30}.ab.codes"))
    err = fails(f"encode --merge {tmp_path} --out {tmp_path}/all.codes")
    assert "of 1,000,000,000,000,000,000,000,000,000,000 shards: 1, 2, 3" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--shards 99", "--shards must be from 1 to 22"),
        ("--shards 4 --shard 4", "--shard must be from 0"),
        ("--shard 0", "--shard must be from 0"),
        ("--merge x", "leave out MODEL"),
    ],
)
def test_wrong_options_are_one_sentence(place: Path, tmp_path: Path, options: str, message: str) -> None:
    assert message in fails(encode(place, tmp_path / "s", options))
    assert not (tmp_path / "s").exists()


def test_shards_cover_all_rows_once_in_whole_batches(tmp_path: Path) -> None:
    class Data:
        def fingerprint(self) -> str:
            return "x"

    for n, batch, count in ((1, 1, 1), (10, 3, 4), (1000, 128, 7), (129, 128, 2), (50, 7, 3)):
        shards = Shards.of(tmp_path, count, "0", Data(), np.arange(n), batch)  # type: ignore[arg-type]
        parts = [shards.rows_of(shard) for shard in range(count)]
        assert np.concatenate(parts).tolist() == list(range(n))
        assert all(len(part) and part[0] % batch == 0 for part in parts)
    with pytest.raises(ConfigError, match="from 1 to 2"):
        Shards.of(tmp_path, 3, "0", Data(), np.arange(10), 5)  # type: ignore[arg-type]


@pytest.mark.slow
def test_processes_that_are_killed_lose_one_shard_at_most(place: Path, tmp_path: Path) -> None:
    folder, seed = tmp_path / "s", random.randrange(1 << 30)
    rng = random.Random(seed)
    command = [sys.executable, "-m", "scdh", *encode(place, folder, "--shards 22").split()]
    kills = 0
    while kills < 2:
        done = len(list(folder.glob("shard-*"))) if folder.exists() else 0
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        while process.poll() is None and len(list(folder.glob("shard-*"))) < done + 1:
            time.sleep(0.001)
        time.sleep(rng.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        for file in folder.glob("shard-*.codes"):
            Codes.load(file)  # whole, or it would raise
    must(encode(place, folder, "--shards 22"))
    must(f"encode --merge {folder} --out {tmp_path}/all.codes")
    assert (tmp_path / "all.codes").read_bytes() == (place / "whole.codes").read_bytes(), seed

"""`scdh check`: whole things pass, damage is named with what to do, and the exit code tells."""

import os
import shutil

import pytest

from tests.cli.commands import must, run, run_json


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    d = tmp_path_factory.mktemp("check")
    must(f"train --preset demo-digits --epochs 1 --bits 16 --out {d}/run")
    must(f"evaluate {d}/run")
    must(f"encode {d}/run digits --part query --out {d}/some.codes")
    must(f"index {d}/some.codes --out {d}/some.index")
    return d


def _damage(path):
    data = bytearray(path.read_bytes())
    data[-3] ^= 4
    path.write_bytes(bytes(data))


def test_whole_things_pass(made):
    for name, kinds in (
        ("run", {"settings", "split", "model", "checkpoint", "codes", "scores"}),
        ("run/model", {"model"}),
        ("some.codes", {"codes"}),
        ("some.index", {"index"}),
    ):
        checked = run_json(f"check {made}/{name} --json")
        assert checked["ok"]
        assert {part["kind"] for part in checked["parts"]} == kinds
    assert "0 damaged" in must(f"check {made}/run")


@pytest.mark.parametrize(
    ("file", "kind", "remedy"),
    [
        ("some.codes", "codes", "scdh encode"),
        ("some.index", "index", "scdh index"),
        ("run/model/model.safetensors", "model", "scdh train --resume"),
        ("run/last.safetensors", "checkpoint", "Delete it"),
        ("run/codes/query.codes", "codes", "scdh evaluate"),
        ("run/config.json", "settings", "Train again"),
    ],
)
def test_damage_is_named_with_what_to_do(made, tmp_path, file, kind, remedy):
    shutil.copytree(made, tmp_path / "copy")
    _damage(tmp_path / "copy" / file)
    thing = tmp_path / "copy" / ("run" if file.startswith("run") else file)
    code, out, err = run(f"check {thing}")
    assert code == 1
    assert err == ""
    line = next(line for line in out.splitlines() if line.startswith("DAMAGED"))
    assert f"DAMAGED  {kind}: " in line
    assert remedy in line
    assert run(f"check {thing} --json")[0] == 1


def test_a_comparison_and_kept_features(made, tmp_path):
    must(f"compare lsh scdh --preset demo-digits --epochs 1 --bits 8 --seeds 0 --out {tmp_path}/compared --no-trials")
    checked = run_json(f"check {tmp_path}/compared --json")
    assert {part["kind"] for part in checked["parts"]} >= {"results of a comparison", "settings", "model"}
    _damage(tmp_path / "compared/compare.json")
    assert run(f"check {tmp_path}/compared")[0] == 1


@pytest.mark.parametrize(
    "command",
    [
        "check p.codes",
        "index p.codes --out x.index",
        "check model",
        "encode model digits",
        "evaluate run",
        "train --config p.toml",
        "search p.index --row 0",
    ],
)
def test_pipes_are_rejected_not_waited_for(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for name in ("p.codes", "p.index", "p.toml", "model/model.safetensors", "model/config.json", "run/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        os.mkfifo(tmp_path / name)
    code, _, err = run(f"{command}{' --out x.codes' if command.startswith('encode') else ''}")
    assert code == 2
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("thing", ["nowhere", "."])
def test_what_has_no_checksums_is_rejected(tmp_path, monkeypatch, thing):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(f"check {thing}")
    assert (code, out) == (2, "")
    assert "to check" in err or "is not a run" in err


def test_an_index_whose_names_file_is_gone_is_noticed(made, tmp_path):
    for file in made.glob("some.index*"):
        shutil.copy(file, tmp_path)
    for names in tmp_path.glob("some.index.items-*"):
        names.unlink()
    code, out, _ = run(f"check {tmp_path}/some.index")
    assert code == 1
    assert "was written with names, but their file some.index.items-" in out

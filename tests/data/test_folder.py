"""Folders of images, and pictures that cannot be read."""

from pathlib import Path

import numpy as np
import pytest

from scdh.config import load_config
from scdh.data import open_source
from scdh.data.images.decode import decode
from scdh.data.source import BadImage
from scdh.errors import DataError
from scdh.runs.protocol import protocol_of
from tests.data.data_files import encoded, picture, write_pictures


def test_class_folders(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["dog/1.png", "cat/b.JPG", "cat/deep/er/a.jpeg", "unlabelled/u.png", ".hidden/x.png"])
    (tmp_path / "cat/notes.txt").write_text("no image")
    (tmp_path / "cat/.b.JPG").write_bytes(b"")
    source = open_source(str(tmp_path))
    assert source.label_names == ["cat", "dog"]
    names = [Path(source.item_name(i)).relative_to(tmp_path).as_posix() for i in range(len(source))]
    assert names == ["cat/b.JPG", "cat/deep/er/a.jpeg", "dog/1.png", "unlabelled/u.png"]
    assert source.labels.tolist() == [0, 0, 1, -1]
    assert source.split is None
    assert np.array_equal(np.asarray(source.image(2)), np.asarray(picture(0)))


def test_divided_folder(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["train/a/1.png", "train/b/2.png", "test/b/3.png", "valid/a/4.png", "unlabeled/5.png"])
    source = open_source(str(tmp_path))
    labels_and_parts = {
        Path(source.item_name(i)).name: (int(source.labels[i]), str(source.split[i])) for i in range(len(source))
    }
    assert labels_and_parts == {
        "1.png": (0, "train"),
        "2.png": (1, "train"),
        "3.png": (1, "test"),
        "4.png": (0, "val"),
        "5.png": (-1, "unlabelled"),
    }


def parts_of(root: Path) -> dict[str, str] | None:
    """Part by file name; None where the folder is not divided."""
    source = open_source(str(root))
    if source.split is None:
        return None
    return {Path(source.item_name(i)).name: str(source.split[i]) for i in range(len(source))}


def test_parts_in_any_spelling(tmp_path: Path) -> None:
    paths = ["Train/a/1.png", "VALIDATION/a/2.png", "Queries/b/3.png", "gallery/b/4.png", "Unlabeled/5.png"]
    write_pictures(tmp_path / "all", paths)
    expected = {"1.png": "train", "2.png": "val", "3.png": "test", "4.png": "database", "5.png": "unlabelled"}
    assert parts_of(tmp_path / "all") == expected
    assert open_source(str(tmp_path / "all")).split_origin == "sub-folders of all"
    write_pictures(tmp_path / "search", ["Query/a/1.png", "Base/a/2.png"])
    assert parts_of(tmp_path / "search") == {"1.png": "test", "2.png": "database"}


@pytest.mark.parametrize("root", ["", "photos/"])
@pytest.mark.parametrize(
    ("train", "test"), [("train_images", "test_images"), ("TrainSet", "TestSet"), ("train", "test")]
)
def test_parts_with_longer_names_and_below_a_wrapping_folder(tmp_path: Path, root: str, train: str, test: str) -> None:
    files = [f"{root}{train}/cat/1.png", f"{root}{train}/dog/2.png", f"{root}{test}/cat/3.png"]
    write_pictures(tmp_path, files)
    source = open_source(str(tmp_path))
    assert source.label_names == ["cat", "dog"]
    names = [Path(source.item_name(i)).name for i in range(3)]
    assert {names[i]: str(source.split[i]) for i in range(3)} == {"1.png": "train", "2.png": "train", "3.png": "test"}


def test_one_class_whose_folders_look_like_classes_is_told(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["wrap/flowers/rose/1.png", "wrap/flowers/tulip/2.png"])
    source = open_source(str(tmp_path))
    assert source.label_names == ["wrap"]
    assert f"--data {tmp_path / 'wrap/flowers'} has 2 sub-folders as classes" in source.split_note
    write_pictures(tmp_path / "one", ["rose/1.png", "rose/2.png"])
    assert open_source(str(tmp_path / "one")).split_note == ""


def test_what_macos_leaves_in_archives_is_no_class(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["cat/1.png", "dog/2.png"])
    (tmp_path / "__MACOSX" / "cat").mkdir(parents=True)
    (tmp_path / "__MACOSX" / "cat" / "._1.png").write_bytes(b"not an image")
    assert open_source(str(tmp_path)).label_names == ["cat", "dog"]


def test_images_without_classes_are_told_how_to_get_labels(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["1.png", "2.png"])
    with pytest.raises(DataError, match="give every class a folder of its own"):  # --label-column is for tables
        protocol_of(load_config(), open_source(str(tmp_path)))


def test_one_class_that_is_divided_itself_is_a_class(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["cat/train/1.png", "cat/test/2.png"])
    source = open_source(str(tmp_path))
    assert source.label_names == ["cat"]
    assert source.labels.tolist() == [0, 0]


def test_a_part_with_an_unknown_name_keeps_it(tmp_path: Path) -> None:
    paths = [f"{part}/{label}/{part}{i}.png" for part in ("train", "holdout") for label in "ab" for i in range(5)]
    write_pictures(tmp_path / "two", paths)
    parts = parts_of(tmp_path / "two")
    assert set(parts.values()) == {"train", "holdout"}
    source = open_source(str(tmp_path / "two"))
    with pytest.raises(DataError, match=r"'holdout' has no known meaning; .*--set data.query=holdout"):
        protocol_of(load_config(), source)
    assert len(protocol_of(load_config(overrides={"data.query": "holdout"}), source).query) == 10
    write_pictures(tmp_path / "three", ["train/a/1.png", "test/a/2.png", "extra/3.png"])
    assert parts_of(tmp_path / "three") == {"1.png": "train", "2.png": "test", "3.png": "extra"}


def test_parts_below_the_classes(tmp_path: Path) -> None:
    paths = [f"{label}/{part}/{label}{part}.png" for label in "ab" for part in ("Train", "dev", "TEST")]
    write_pictures(tmp_path / "all", [*paths, "unlabelled/1.png"])
    source = open_source(str(tmp_path / "all"))
    assert source.label_names == ["a", "b"]
    assert source.split_origin == "sub-folders of the classes of all"
    protocol = protocol_of(load_config(), source)
    assert [Path(source.item_name(row)).name for row in protocol.query] == ["aTEST.png", "bTEST.png"]
    assert [Path(source.item_name(row)).name for row in protocol.train] == ["aTrain.png", "bTrain.png"]
    assert [Path(source.item_name(row)).name for row in protocol.unlabelled] == ["1.png"]
    write_pictures(tmp_path / "odd", ["a/train/1.png", "a/holdout/2.png", "b/train/3.png"])
    with pytest.raises(DataError, match=r"'holdout' has no known meaning"):
        protocol_of(load_config(), open_source(str(tmp_path / "odd")))


@pytest.mark.parametrize(
    "paths",
    [
        ["toy/train/1.png", "toy/bus/2.png", "pet/cat/3.png"],
        ["a/train/1.png", "b/train/2.png"],
        ["a/train/1.png", "a/test/2.png", "b/3.png"],
        ["a/test/1.png", "b/val/2.png"],
        ["vehicle/train/1.png", "vehicle/bus/2.png"],
    ],
)
def test_folders_below_classes_that_are_no_parts(tmp_path: Path, paths: list[str]) -> None:
    write_pictures(tmp_path, paths)
    assert open_source(str(tmp_path)).split is None


@pytest.mark.parametrize(
    ("paths", "note"),
    [
        (["test/1.png", "bus/2.png"], "test is read as a class, like bus"),
        (["index/1.png", "glossary/2.png", "Base/3.png"], "Base and index are read as classes, like glossary"),
        (["val/1.png", "test/2.png"], "test and val are read as classes, as there is no train"),
        (["train/old/1.png", "bus/new/2.png", "car/old/3.png"], "train is read as a class, like bus"),
        (["cat/1.png", "dog/2.png"], ""),
    ],
)
def test_classes_with_names_of_parts_are_classes(tmp_path: Path, paths: list[str], note: str) -> None:
    write_pictures(tmp_path, paths)
    source = open_source(str(tmp_path))
    assert source.label_names == sorted({path.split("/")[0] for path in paths})
    assert source.split is None
    assert source.split_note == note
    assert note in protocol_of(load_config(), source).about


@pytest.mark.parametrize("name", ["unlabelled", "unlabeled", "_unlabelled", "Unlabeled"])
def test_images_without_label(tmp_path: Path, name: str) -> None:
    write_pictures(tmp_path / "whole", ["dog/1.png", "cat/2.png", f"{name}/deep/3.png"])
    whole = open_source(str(tmp_path / "whole"))
    assert whole.label_names == ["cat", "dog"]
    assert sorted(whole.labels.tolist()) == [-1, 0, 1]
    paths = ["train/cat/1.png", "train/dog/2.png", f"train/{name}/3.png", "test/cat/4.png", f"{name}/5.png"]
    write_pictures(tmp_path / "parts", paths)
    parts = open_source(str(tmp_path / "parts"))
    assert parts.label_names == ["cat", "dog"]
    protocol = protocol_of(load_config(), parts)
    free = [Path(parts.item_name(row)).name for row in protocol.unlabelled]
    assert sorted(free) == ["3.png", "5.png"]
    assert (parts.labels[protocol.unlabelled] == -1).all()
    assert len(protocol.train) == 2


def test_flat_folder_is_unlabelled(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["b.png", "a.png"])
    source = open_source(str(tmp_path))
    assert source.labels.tolist() == [-1, -1]
    assert source.label_names == []


def test_folder_mistakes(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contains no images"):
        open_source(str(tmp_path))
    write_pictures(tmp_path, ["dog/1.png"])
    (tmp_path / "cat").mkdir()
    with pytest.raises(DataError, match=r"class folder .*cat contains no images"):
        open_source(str(tmp_path))
    write_pictures(tmp_path, ["cat/1.png", "stray.png"])
    with pytest.raises(DataError, match=r"1 images are in .*'stray.png'"):
        open_source(str(tmp_path))


def test_fingerprint_does_not_depend_on_the_place(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_pictures(tmp_path / folder, ["dog/1.png", "cat/2.png"])
    one, two = (open_source(str(tmp_path / folder)).fingerprint() for folder in ("one", "two"))
    assert one == two
    write_pictures(tmp_path / "two", ["dog/3.png"])
    assert open_source(str(tmp_path / "two")).fingerprint() != one


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes"),
        (b"hello world", "not in a known image format"),
        (encoded(0, (64, 64))[:600], "Truncated"),
        (encoded(0, (64, 64))[:2000], "truncated"),
        (encoded(0, (64, 64), "PNG")[:900], "truncated"),
    ],
)
def test_bad_bytes_and_files(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(BadImage, match=reason) as caught:
        decode(data, "list row 3")
    assert caught.value.where == "list row 3"
    write_pictures(tmp_path, ["dog/1.jpg"])
    (tmp_path / "dog/2.jpg").write_bytes(data)
    with pytest.raises(BadImage) as caught:
        open_source(str(tmp_path)).image(1)
    assert caught.value.where == str(tmp_path / "dog/2.jpg")


def test_file_that_vanished(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["dog/1.jpg"])
    source = open_source(str(tmp_path))
    (tmp_path / "dog/1.jpg").unlink()
    with pytest.raises(BadImage, match="no such file"):
        source.image(0)


def test_large_jpeg_is_decoded_smaller_but_never_too_small() -> None:
    data = encoded(0, (800, 640))
    assert decode(data, "x").size == (800, 640)
    assert decode(data, "x", at_least=80).size == (200, 160)
    assert decode(data, "x", at_least=81).size == (400, 320)
    assert decode(data, "x", at_least=161).size == (800, 640)


def test_a_path_object_names_data_too(tmp_path):
    write_pictures(tmp_path, ["cat/0.png", "dog/0.png"])
    assert open_source(tmp_path).fingerprint() == open_source(str(tmp_path)).fingerprint()
    with pytest.raises(DataError, match="Data are a name or a path, not None"):
        open_source(None)


def test_links_to_a_folder_above_are_no_classes(tmp_path: Path) -> None:
    write_pictures(tmp_path, ["photos/cat/1.jpg", "photos/dog/1.jpg", "more/2.jpg"])
    (tmp_path / "photos" / "again").symlink_to(".")
    (tmp_path / "photos" / "above").symlink_to(tmp_path)
    (tmp_path / "photos" / "pig").symlink_to(tmp_path / "more")  # a class that lies elsewhere
    assert open_source(tmp_path / "photos").label_names == ["cat", "dog", "pig"]
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / "me").symlink_to(".")
    with pytest.raises(DataError, match="contains no images"):
        open_source(tmp_path / "loop")

"""Formats that need a reader, and images that a folder has but that are not read."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import scdh.data.images.formats as formats
from scdh.cli.inputs import open_inputs
from scdh.data import open_source
from scdh.data.images.decode import decode
from scdh.data.images.formats import EXTENSIONS, FORMATS, describe_skipped
from scdh.data.source import BadImage
from scdh.errors import DataError
from tests.data.data_files import encoded, picture, write_pictures


def without(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As on an installation without the reader of this format."""
    left = tuple(one for one in FORMATS if one != name)
    extensions = frozenset(EXTENSIONS - set(formats._EXTENSIONS[name]))
    monkeypatch.setattr(formats, "FORMATS", left)
    monkeypatch.setattr(formats, "EXTENSIONS", extensions)
    monkeypatch.setattr("scdh.data.images.decode.FORMATS", left)


@pytest.mark.parametrize(("name", "extension"), [("AVIF", ".avif"), ("HEIF", ".HEIC")])
def test_avif_and_heic_are_read(tmp_path: Path, name: str, extension: str) -> None:
    if name not in FORMATS:
        pytest.skip(f"no reader of {name} is installed")
    smooth = np.linspace(0, 255, 64 * 48, dtype=np.uint8).reshape(48, 64)
    image = Image.fromarray(np.stack([smooth, smooth[::-1], smooth], axis=2))
    (tmp_path / "cat").mkdir()
    file = tmp_path / f"cat/1{extension}"
    image.save(file, name, quality=95)
    source = open_source(tmp_path)
    assert len(source) == 1
    read = source.image(0)
    assert (read.mode, read.size) == ("RGB", (64, 48))
    assert np.abs(np.asarray(read, np.int64) - np.asarray(image, np.int64)).mean() < 12
    assert np.array_equal(np.asarray(decode(file.read_bytes(), "bytes")), np.asarray(read))


def test_an_embedded_thumbnail_does_not_replace_the_picture() -> None:
    """It may show another picture, and then codes of a file and of its pixels would differ."""
    if "HEIF" not in FORMATS:
        pytest.skip("no reader of HEIF is installed")
    file = io.BytesIO()
    Image.new("RGB", (512, 512), "red").save(file, "HEIF", thumbnails=[128])
    with Image.open(io.BytesIO(file.getvalue())) as image:
        assert image.draft("RGB", (64, 64)) is not None  # Pillow would take it
    assert decode(file.getvalue(), "x", at_least=32).size == (512, 512)


def test_a_folder_names_images_that_it_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "HEIF")
    write_pictures(tmp_path, ["cat/1.jpg", "dog/1.jpg"])
    for n in range(3):
        (tmp_path / f"cat/{n}.HEIC").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0")
    (tmp_path / "dog/plain").write_bytes(encoded(1))
    (tmp_path / "dog/notes").write_text("no image")
    (tmp_path / "dog/notes.txt").write_text("no image")
    (tmp_path / "dog/2.jpg_large").write_bytes(encoded(1, kind="PNG"))
    (tmp_path / "dog/raw.NEF").write_bytes(b"x")
    with pytest.warns(UserWarning, match="2 images are read") as caught:
        assert len(open_source(tmp_path)) == 2
    text = str(caught[0].message)
    assert "2 images are read, but not these files: 3 .heic (install the reader (pip install 'scdh[heif]'))" in text
    assert "1 without an extension (1 JPEG inside; add the extension to their names)" in text
    assert "1 .jpg_large that contain PNG (rename them to .png)" in text
    assert "1 .nef (convert them to JPEG or PNG)" in text
    assert "txt" not in text


def test_folders_of_unreadable_images_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "HEIF")
    (tmp_path / "a/cat").mkdir(parents=True)
    (tmp_path / "a/cat/1.heic").write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0")
    with pytest.raises(DataError, match=r"class folder .*cat contains no images; .* 1 \.heic \(install the reader"):
        open_source(tmp_path / "a")
    with pytest.raises(DataError, match=r"1\.heic cannot be read yet: install the reader"):
        open_source(tmp_path / "a/cat/1.heic")
    with pytest.raises(DataError, match=r"'1\.heic' is not one that can be read: install the reader"):
        open_inputs(["x.jpg", "1.heic"])
    with pytest.raises(BadImage, match="it is in the format HEIF; install the reader"):
        decode((tmp_path / "a/cat/1.heic").read_bytes(), "x")


def test_one_image_is_not_training_data(tmp_path: Path) -> None:
    picture(0).save(tmp_path / "1.png")
    with pytest.raises(DataError, match=r"1\.png is a single image; give the folder"):
        open_source(tmp_path / "1.png")


def test_skipped_files_of_unknown_content_are_not_mentioned(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.dat").write_bytes(encoded(n) if n else b"something else")
    assert describe_skipped(tmp_path, [f"{n}.dat" for n in range(3)]) == ""
    assert describe_skipped(tmp_path, ["gone", ".DS_Store", "gone.dat"]) == ""

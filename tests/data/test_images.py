"""Pictures: formats that need a reader, and the same pixels and code from a path, bytes, a PIL image or an array."""

import io
import os
import socket
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import scdh.data.images.decode as decode_module
import scdh.data.images.formats as formats
from scdh import Hasher
from scdh.cli.inputs import open_inputs
from scdh.config import load_config
from scdh.data import open_source
from scdh.data.arrays.loose import ItemsSource
from scdh.data.arrays.memory import ArraySource
from scdh.data.images.decode import decode
from scdh.data.images.formats import EXTENSIONS, FORMATS
from scdh.data.source import BadImage
from scdh.errors import DataError
from scdh.experiments.pages.pictures import picture_of_file
from tests.data.data_files import encoded, picture, write_parquet, write_pictures


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


MODES = ("1", "L", "LA", "P", "P+", "RGB", "RGBA", "CMYK", "I;16", "I", "F", "F1")
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"


def image_of_mode(mode: str, seed: int, size: tuple[int, int] = (19, 23)) -> Image.Image:
    rng, shape = np.random.default_rng(seed), size[::-1]
    if mode == "I;16":
        return Image.fromarray(rng.integers(0, 65536, shape).astype(np.uint16))
    if mode == "I":
        return Image.fromarray(rng.integers(0, 65536, shape).astype(np.int32))
    if mode in ("F", "F1"):
        return Image.fromarray((rng.random(shape) * (1 if mode == "F1" else 255)).astype(np.float32))
    if mode == "P+":
        image = picture(seed, size).quantize(16)
        image.info["transparency"] = bytes(range(0, 160, 10))
        return image
    if mode in ("RGBA", "LA"):
        image = picture(seed, size).convert(mode)
        image.putalpha(Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)))
        return image
    return picture(seed, size).convert(mode)


def rgb(item: object, at: int = 0) -> np.ndarray:
    return np.asarray(ItemsSource([item]).image(at))


def model() -> Hasher:
    config = load_config(overrides={"net.backbone": "small_conv", "net.image_size": 16, "method.bits": 13})
    hasher = Hasher.build(config, ["cat", "dog"], False, None)
    hasher.network.eval()
    return hasher


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODES), st.integers(0, 99), st.integers(1, 40), st.integers(1, 40))
def test_every_form_of_a_picture_has_the_same_pixels(tmp_path_factory, mode, seed, width, height):
    image = image_of_mode(mode, seed, (width, height))
    out = io.BytesIO()
    image.save(out, "TIFF" if mode in ("CMYK", "I", "F", "F1") else "PNG")
    path = tmp_path_factory.mktemp("forms") / "picture.jpg"  # the name does not matter
    path.write_bytes(out.getvalue())
    forms: dict[str, object] = {
        "text": str(path),
        "path": path,
        "bytes": out.getvalue(),
        "memoryview": memoryview(out.getvalue()),
        "image": image,
        "opened": Image.open(path),
        "copy": Image.open(path).copy(),
    }
    if not mode.startswith("P") and mode != "CMYK":  # arrays of these do not say what their numbers mean
        forms["array"] = np.asarray(image)
    expected = rgb(path)
    assert expected.shape == (height, width, 3)
    for form, item in forms.items():
        np.testing.assert_array_equal(rgb(item), expected, err_msg=f"{mode} as {form}")


def test_every_form_has_the_same_code(tmp_path: Path) -> None:
    hasher = model()
    for mode in MODES:
        image = image_of_mode(mode, 5, (40, 30))
        image.save(tmp_path / "x.tif")
        forms: list[object] = [tmp_path / "x.tif", (tmp_path / "x.tif").read_bytes(), image]
        forms += [] if mode.startswith("P") or mode == "CMYK" else [[np.asarray(image)]]
        outputs = [hasher.hash_outputs(form) for form in forms]
        for other in outputs[1:]:
            np.testing.assert_array_equal(other, outputs[0], err_msg=mode)


def test_deep_images_keep_their_shades() -> None:
    ramp = np.linspace(0, 1, 256, dtype=np.float32).reshape(16, 16)
    grey = np.arange(256).reshape(16, 16)
    for values in (ramp, ramp.astype(np.float64), grey.astype(np.uint8), (grey * 257).astype(np.uint16), grey * 256):
        np.testing.assert_array_equal(rgb(values)[..., 0], grey)
    np.testing.assert_array_equal(rgb(Image.fromarray((grey * 257).astype(np.uint16)))[..., 1], grey)
    np.testing.assert_array_equal(rgb(Image.fromarray(ramp))[..., 2], grey)
    np.testing.assert_array_equal(rgb(np.stack([ramp] * 3, 2))[..., 2], grey)
    np.testing.assert_array_equal(rgb(grey > 127)[..., 0], np.where(grey > 127, 255, 0))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_images_in_every_form(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    for name in ("x.jpg", "x.png", "x.webp", "x.tif"):
        picture(0, (20, 16)).save(tmp_path / name, exif=exif)
        expected = rgb(tmp_path / name)
        assert expected.shape[:2] == ((20, 16) if orientation > 4 else (16, 20))
        np.testing.assert_array_equal(rgb(Image.open(tmp_path / name)), expected)
        loaded = Image.open(tmp_path / name)
        loaded.load()
        np.testing.assert_array_equal(rgb(loaded), expected)
        assert loaded.size == Image.open(tmp_path / name).size or name == "x.tif"  # the user's image stays as it is


def test_one_array_is_one_image() -> None:
    hasher, colours = model(), np.asarray(picture(3, (40, 40)))
    expected = hasher.hash_outputs([colours])
    alpha = np.dstack([colours, np.full((40, 40), 7, np.uint8)])
    for form in (colours, colours[None], alpha, alpha[None], [alpha], [colours.astype(np.uint16) * 257]):
        np.testing.assert_array_equal(hasher.hash_outputs(form), expected)
    grey = colours[..., 0]
    for form in (grey, grey[..., None], grey[None], grey[None, :, :, None], np.dstack([grey, grey])):
        np.testing.assert_array_equal(hasher.hash_outputs(form), hasher.hash_outputs([grey]))
    assert len(hasher.encode(np.stack([grey] * 5))) == 5


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (np.zeros((3, 40, 40), np.uint8), "may be one image with its channels first or 3 grey images"),
        (np.zeros((4, 40, 40), np.uint8), "or 4 grey images; give one as"),
        (np.zeros((2, 3, 40, 40), np.uint8), r"shape \[3, 40, 40\], and images are .*np.moveaxis\(array, 0, 2\)"),
        ([np.zeros((3, 40, 40), np.uint8)], r"shape \[3, 40, 40\]"),
        ([np.zeros((40, 40, 5), np.uint8)], r"shape \[40, 40, 5\]"),
        ([np.zeros((0, 40, 3), np.uint8)], "holds no pixels"),
        ([np.zeros((1, 2, 2, 3, 3), np.uint8)], r"images are \[H, W\]"),
        ([np.full((8, 8), np.nan)], "go from nan to nan"),
        ([np.full((8, 8, 3), -1.5)], "go from -1.5 to -1.5, and pixels go from 0 to 1, 255 or 65535"),
        ([np.full((8, 8), 70_000)], "to 70000"),
        ([np.full((8, 8), "a")], "pixels are numbers"),
        ([{"path": "x"}], "Item 0 is a dict; give paths"),
    ],
)
def test_unclear_arrays_are_rejected(items: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        model().encode(items)


def test_a_wrong_shape_is_no_bad_image_to_be_skipped() -> None:
    good = np.zeros((8, 8, 3), np.uint8)
    with pytest.raises(DataError, match="moveaxis"):
        model().encode([good, np.zeros((3, 8, 8), np.uint8)], on_bad_image="skip")
    assert len(model().encode([good, np.full((8, 8), np.nan)], on_bad_image="skip")) == 1


def test_array_sources_take_the_same_road() -> None:
    alpha = np.stack([np.asarray(picture(i).convert("RGBA")) for i in range(3)])
    np.testing.assert_array_equal(np.asarray(ArraySource(alpha).image(1)), alpha[1, ..., :3])
    for shape in ((3, 20, 3), (5, 3, 20, 20)):
        with pytest.raises(DataError, match="images must be uint8"):
            ArraySource(np.zeros(shape, np.uint8))


def test_postscript_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file, a cell of parquet, bytes, a page: Pillow's decoder of PostScript, which starts gs, is never asked."""
    started = tmp_path / "started"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gs").write_text(f"#!/bin/sh\ntouch {started}\n")
    (tmp_path / "bin/gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)  # Pillow looks for the program once
    (tmp_path / "x.jpg").write_bytes(POSTSCRIPT)
    cells = write_parquet(tmp_path / "x.parquet", {"image": [POSTSCRIPT, encoded(0)], "label": ["a", "b"]})
    for read in (lambda: rgb(tmp_path / "x.jpg"), lambda: rgb(POSTSCRIPT), lambda: open_source(cells).image(0)):
        with pytest.raises(BadImage, match="not in a known image format"):
            read()
    assert picture_of_file(str(tmp_path / "x.jpg")) is None
    assert not started.exists()


@pytest.mark.parametrize("kind", ["EPS", "PCX", "TGA", "ICO", "SGI", "IM", "DIB", "JPEG2000", "PDF", "MSP"])
def test_other_formats_are_rejected(kind: str) -> None:
    out = io.BytesIO()
    try:
        picture(0).convert("1" if kind == "MSP" else "RGB").save(out, kind)
    except (KeyError, OSError):
        pytest.skip(f"Pillow cannot write {kind} here")
    with pytest.raises(BadImage, match="not in a known image format"):
        decode(out.getvalue(), "x")


def test_named_formats_are_read_without_pillow_looking_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "init", lambda: pytest.fail("all decoders were loaded"))
    for kind in FORMATS:
        assert decode(encoded(0, kind=kind), "x").size == (20, 16)
    with pytest.raises(BadImage):
        decode(POSTSCRIPT, "x")


def test_every_reader_of_images_goes_through_decode() -> None:
    source_folder = Path(decode_module.__file__).parents[2]
    opening = [file.name for file in source_folder.rglob("*.py") if "Image.open(" in file.read_text("utf-8")]
    assert opening == ["decode.py"]


def test_a_bomb_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(BadImage, match="cannot be read: it would have more than 200 pixels"):
        decode(encoded(0, (40, 40)), "x")


def test_what_is_not_a_file_is_rejected_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "folder.jpg").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s.jpg"))
        for name, reason in (("pipe", "a pipe"), ("folder", "a folder"), ("s", "a socket"), ("/dev/zero", "a device")):
            path = Path(name) if name.startswith("/") else tmp_path / f"{name}.jpg"
            with pytest.raises(BadImage, match=f"it is {reason}, not a file"):
                rgb(path)
    for name in ("pipe.csv", "pipe.parquet", "pipe.npy", "pipe.npz"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(DataError, match="pipe, not a file"):
            open_source(tmp_path / name)
    np.save(tmp_path / "e.npy", np.zeros((4, 2), np.float32))
    with pytest.raises(DataError, match="pipe, not a file"):
        open_source(tmp_path / "e.npy", labels=tmp_path / "pipe.npy")


def test_paths_that_no_file_can_have_are_bad_images(tmp_path: Path) -> None:
    picture(0).save(tmp_path / "good.png")
    for path in ("x" * 5000 + ".png", "a\0b.png", "good.png/inside.png"):
        with pytest.raises(BadImage, match=r"file name too long|there is no such file"):
            rgb(tmp_path / path)
    table = write_parquet(tmp_path / "t.parquet", {"image": ["x" * 5000, "a\0b", "good.png"], "label": ["a", "b", "a"]})
    source = open_source(table)
    assert source.image(2).size == (20, 16)
    assert len(source.content_fingerprint()) == 16
    with pytest.raises(BadImage, match="file name too long"):
        source.image(0)

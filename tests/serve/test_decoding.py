"""Images that take very long, much memory, or crash their decoder; each costs one process, which is replaced."""

import io
import os
import signal
import time
from functools import partial
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image

from scdh.data.images.decode import MOST_SCANS, decode
from scdh.data.images.formats import FORMATS
from scdh.data.images.transforms import Preprocess
from scdh.data.source import BadImage
from scdh.serve.decoding import Decoders
from scdh.serve.pictures import Pictures
from scdh.serve.settings import Limits
from tests.serve.conftest import picture
from tests.serve.hosted import wait_until
from tests.serve.malformed import BOMBS, many_scans, with_second_picture

PREPROCESS = Preprocess(16)


@pytest.fixture(scope="module")
def decoders():
    """Two processes with little time."""
    made = Decoders(PREPROCESS, 50_000_000, 2, seconds=0.5)
    yield made
    made.close()


def fails(decoders, content: bytes, match: str) -> None:
    with pytest.raises(BadImage, match=match):
        decoders.decode(content, "x")


def test_pixels_are_those_of_this_process(decoders):
    for seed, kind in enumerate(FORMATS):
        content = picture(seed, kind)
        expected = PREPROCESS.evaluation_image(decode(content, "x", PREPROCESS.needed_side()))
        assert np.array_equal(decoders.decode(content, "x"), expected)


def test_a_mistake_is_the_sentence_of_this_process(decoders):
    with pytest.raises(BadImage, match="The image x cannot be read: it has 0 bytes"):
        decoders.decode(b"", "x")
    with pytest.raises(BadImage, match="known image format"):
        decoders.decode(b"%PDF-1.4", "x")


def test_scans_are_counted_before_they_are_decoded(decoders):
    """7000 × 7000 pixels and 2,600 scans in 322 KB took 140 s."""
    content = many_scans(7000, 2600)
    for scans in (content, with_second_picture(content)):
        fails(decoders, scans, r"2,6\d\d scans, but the limit is 100")
    assert decode(many_scans(64, MOST_SCANS // 2), "x", most_pixels=10_000).size == (64, 64)
    # Files of one's own are not limited.
    assert decode(many_scans(64, 2 * MOST_SCANS), "x").size == (64, 64)


def test_an_image_that_is_a_line_is_rejected(decoders):
    """1,174 bytes of a BMP of 50,000,000 × 1 took 8.8 s."""
    fails(decoders, BOMBS["bmp of one row"], "limit of a side")


def test_a_slow_image_ends_its_process_and_the_next_one_is_decoded(decoders):
    text = b"P3 2500 2500 255\n" + b"1 " * (3 * 2500 * 2500)
    for _ in range(3):  # more often than there are processes
        fails(decoders, text, "more than 0.5 s to decode")
    assert decoders.decode(picture(1), "x").shape == (3, 16, 16)


def test_memory_of_a_process_is_limited():
    small = Decoders(PREPROCESS, 1_000_000, 1)
    buffer = io.BytesIO()
    Image.new("RGB", (1000, 1000)).save(buffer, "TIFF")
    # Tags of a TIFF may promise strips of any size.
    content = buffer.getvalue()
    try:
        assert small.decode(content, "x").shape == (3, 16, 16)
        limits = Path(f"/proc/{small._processes[0]._process.pid}/limits").read_text()
        assert int(limits.partition("Max address space")[2].split()[0]) < 2 << 30
    finally:
        small.close()


def test_a_process_that_was_killed_is_replaced(decoders):
    decoders.decode(picture(1), "x")
    for process in decoders._processes:
        if process._process is not None:
            os.kill(process._process.pid, signal.SIGKILL)
            process._process.wait()
    for _ in range(3):
        assert decoders.decode(picture(1), "x").shape == (3, 16, 16)


def test_thumbnails_of_indexed_photos_have_the_limits_of_uploads(tmp_path, monkeypatch):
    """A JPEG of 322 KB with 2,600 scans held up all thumbnails for two minutes."""
    hostile = {
        "slow": b"P3 1700 1700 255\n" + b"1 " * (3 * 1700 * 1700),
        "large": picture(1) + bytes(Limits.upload),
        **{name: BOMBS[name] for name in ("jpeg of many scans", "mpo of many scans", "bmp of one row", "png", "tiff")},
    }
    for name, content in {**hostile, "good": picture(1, size=(400, 300))}.items():
        (tmp_path / f"{name}.png").write_bytes(content)
    monkeypatch.setattr("scdh.serve.pictures.Decoders", partial(Decoders, seconds=0.3))
    pictures = Pictures(str(tmp_path), Limits())
    asked = []
    monkeypatch.setattr(pictures._decoders, "thumbnail", lambda *given: asked.append(given) or thumbnail(*given))
    thumbnail = partial(Decoders.thumbnail, pictures._decoders)
    try:
        for _ in range(2):  # what could not be read is not tried again
            for name in hostile:
                assert pictures.thumbnail(pictures.row_of(f"{name}.png")) is None, name
        assert len(asked) == len(hostile) - 1
        content, _ = pictures.thumbnail(pictures.row_of("good.png"))
        assert Image.open(io.BytesIO(content)).size == (320, 240)
    finally:
        pictures.close()


def test_closing_ends_what_is_being_decoded():
    slow = Decoders(PREPROCESS, 50_000_000, 1, seconds=60)
    text = b"P3 7000 7000 255\n" + b"1 " * (3 * 7000 * 1500)

    def close_when_started() -> None:
        wait_until(lambda: slow._processes[0]._process is not None)
        time.sleep(0.5)
        slow.close()

    Thread(target=close_when_started).start()
    fails(slow, text, "its decoder failed")
    with pytest.raises(BadImage, match="being stopped"):
        slow.decode(picture(1), "x")


def test_signals_to_the_group_do_not_end_a_process(decoders):
    decoders.decode(picture(1), "x")
    running = [one._process for one in decoders._processes if one._process is not None]
    for process in running:
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(process.pid, number)
    time.sleep(0.1)
    assert all(process.poll() is None for process in running)

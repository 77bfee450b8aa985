"""Images that take very long, much memory, or crash their decoder; each costs one process, which is replaced."""

import io
import os
import signal
import time
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from PIL import Image

from scdh.data.images.decode import MOST_SCANS, decode
from scdh.data.images.transforms import Preprocess
from scdh.data.source import BadImage
from scdh.serve.decoding import Decoders
from tests.serve.conftest import picture
from tests.serve.malformed import BOMBS, many_scans

PREPROCESS = Preprocess(16)


@pytest.fixture(scope="module")
def decoders():
    """Two processes with little time."""
    made = Decoders(PREPROCESS, 50_000_000, 2, seconds=0.5)
    yield made
    made.close()


def seconds_of_failure(decoders, content: bytes, match: str) -> float:
    begun = time.monotonic()
    with pytest.raises(BadImage, match=match):
        decoders.decode(content, "x")
    return time.monotonic() - begun


def test_pixels_are_those_of_this_process(decoders):
    for seed, kind in enumerate(("PNG", "JPEG", "GIF", "WEBP")):
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
    assert seconds_of_failure(decoders, many_scans(7000, 2600), r"2,6\d\d scans, but the limit is 100") < 5
    assert decode(many_scans(64, MOST_SCANS // 2), "x", most_pixels=10_000).size == (64, 64)
    # Files of one's own are not limited.
    assert decode(many_scans(64, 2 * MOST_SCANS), "x").size == (64, 64)


def test_an_image_that_is_a_line_is_rejected(decoders):
    """1,174 bytes of a BMP of 50,000,000 × 1 took 8.8 s."""
    assert seconds_of_failure(decoders, BOMBS["bmp of one row"], "limit of a side") < 5


def test_a_slow_image_ends_its_process_and_the_next_one_is_decoded(decoders):
    text = b"P3 2500 2500 255\n" + b"1 " * (3 * 2500 * 2500)
    for _ in range(3):
        seconds_of_failure(decoders, text, "more than 0.5 s to decode")
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


def test_closing_ends_what_is_being_decoded():
    slow = Decoders(PREPROCESS, 50_000_000, 1, seconds=60)
    Timer(1.0, slow.close).start()
    text = b"P3 7000 7000 255\n" + b"1 " * (3 * 7000 * 1500)
    assert seconds_of_failure(slow, text, "its decoder failed") < 5
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

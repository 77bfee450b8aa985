"""Decode image files to inputs of the network or thumbnails, in separate processes.

A file from an untrusted client may make a decoder take minutes, gigabytes, or crash. The system can bound each of these
for a process, and a process can be ended at any time; a thread cannot. ``python -m scdh.serve.decoding`` is such a
process: it reads files from standard input and writes pixels to standard output, each after its length.
"""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any

import numpy as np
from PIL import Image

from scdh.data.images.decode import decode
from scdh.data.images.formats import decode_in_one_thread
from scdh.data.images.transforms import Preprocess
from scdh.data.source import BadImage

CPU_SECONDS = 10  # of one image; the slowest of 50 megapixels took 1.5 s
WALL_FACTOR = 6  # wall-clock time may be this many times as long, on a busy machine
# A float TIFF takes 16 bytes for each pixel, other images at most 12.
BYTES_PER_PIXEL, MORE_BYTES = 17, 128 << 20
LENGTH = struct.Struct("<Q")
SIDE = struct.Struct("<I")  # before a file: the longer side of the thumbnail that is wanted; 0: the network's input
DONE, MISTAKE = b"d", b"m"  # the first byte of an answer


class Decoders:
    """A number of processes that decode; each starts when it is first needed.

    Args:
        preprocess: of the model; None: only thumbnails are made.
        most_pixels: of one image.
        count: of processes; the methods may be called by as many threads at once.
        seconds: of processor time for one image.
    """

    def __init__(
        self, preprocess: Preprocess | None, most_pixels: int, count: int, seconds: float = CPU_SECONDS
    ) -> None:
        self._preprocess, self._seconds = preprocess, seconds
        network = None if preprocess is None else preprocess.to_dict()
        settings = {"preprocess": network, "most_pixels": most_pixels, "seconds": seconds}
        self._processes = [_DecodingProcess(json.dumps(settings).encode() + b"\n") for _ in range(count)]
        self._free: SimpleQueue[_DecodingProcess] = SimpleQueue()
        for process in self._processes:
            self._free.put(process)

    def decode(self, content: bytes, where: str) -> np.ndarray:
        """The input of the network for an image file, uint8 [3, size, size]; ``where`` is its name in messages.

        Raises:
            BadImage: if it is not an image, or takes too much time or memory.
        """
        assert self._preprocess is not None
        size = self._preprocess.size
        return np.frombuffer(self._answer(0, content, where), np.uint8).reshape(size, size, 3).transpose(2, 0, 1)

    def thumbnail(self, content: bytes, where: str, side: int) -> bytes:
        """A JPEG of at most ``side`` pixels of an image file; raises as :meth:`decode`."""
        return self._answer(side, content, where)

    def _answer(self, side: int, content: bytes, where: str) -> bytes:
        process = self._free.get()
        try:
            answer = process.ask(SIDE.pack(side) + content)
        finally:
            self._free.put(process)
        if isinstance(answer, int):
            is_slow = sys.platform != "win32" and answer in (-signal.SIGPROF, -signal.SIGALRM)
            raise BadImage(
                where, f"it takes more than {self._seconds:g} s to decode" if is_slow else "its decoder failed"
            )
        if answer[:1] == MISTAKE:
            raise BadImage(where, answer[1:].decode())
        return answer[1:]

    def close(self) -> None:
        """End all processes immediately."""
        for process in self._processes:
            process.close()


class _DecodingProcess:
    """One process, which is started again when it has ended."""

    def __init__(self, settings: bytes) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def ask(self, content: bytes) -> bytes | int:
        """The answer to an image file; the exit code if the process ended instead."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            _write(process.stdin, content)
            answer = _read(process.stdout)
        except (OSError, ValueError):  # also: closed by another thread
            answer = None
        return process.wait() if answer is None else answer

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()

    def _running(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                if self._is_closed:
                    raise BadImage("that was sent", "the service is being stopped")
                if self._process is not None:
                    _close_pipes(self._process)
                # -P: no module of the working directory takes the place of one of these.
                command = [sys.executable, "-P", "-m", "scdh.serve.decoding"]
                threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, **threads},
                )
                assert self._process.stdin is not None
                with suppress(OSError):  # ended at once; the next write says so
                    self._process.stdin.write(self._settings)
                    self._process.stdin.flush()
            return self._process


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()


def serve_images(source: IO[bytes], target: IO[bytes]) -> None:
    """Answer image files until the end of ``source``; what runs in the process."""
    settings: dict[str, Any] = json.loads(source.readline())
    network, most_pixels = settings["preprocess"], settings["most_pixels"]
    preprocess = None if network is None else Preprocess.from_dict(network)
    _limit_memory(BYTES_PER_PIXEL * most_pixels + MORE_BYTES)
    warnings.simplefilter("ignore")
    decode_in_one_thread()
    while (content := _read(source)) is not None:
        _limit_time(settings["seconds"])
        (side,) = SIDE.unpack_from(content)
        content = content[SIDE.size :]
        try:
            if preprocess is None or side:
                answer = DONE + thumbnail(decode(content, "", side, most_pixels=most_pixels), side)
            else:
                image = decode(content, "", preprocess.needed_side(), most_pixels=most_pixels)
                pixels = preprocess.evaluation_image(image).transpose(1, 2, 0)
                answer = DONE + np.ascontiguousarray(pixels).tobytes()
        except BadImage as error:
            answer = MISTAKE + error.reason.encode("utf-8", "replace")
        except MemoryError:
            answer = MISTAKE + b"it takes too much memory to decode"
        _limit_time(0)
        image = pixels = content = None  # type: ignore[assignment]  # before the next one is read
        _write(target, answer)


def thumbnail(image: Image.Image, side: int) -> bytes:
    """A JPEG of at most ``side`` pixels."""
    scale = min(1.0, side / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    buffer = io.BytesIO()
    image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0).save(buffer, "JPEG", quality=82)
    return buffer.getvalue()


def _limit_time(seconds: float) -> None:
    """Let the system end the process after this processor time, even in a decoder or an endless wait; 0: no limit."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, WALL_FACTOR * seconds)


def _limit_memory(more: int) -> None:
    """Limit the process to this many bytes more than it has now."""
    if sys.platform == "linux":
        import resource

        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = now + more if hard == resource.RLIM_INFINITY else min(now + more, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _write(pipe: IO[bytes], content: bytes) -> None:
    pipe.write(LENGTH.pack(len(content)))
    pipe.write(content)
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """The next message; None at the end."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    content = pipe.read(length)
    return content if len(content) == length else None


def _main() -> None:
    # The service decides when to stop, because it may still need the current image.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    serve_images(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    _main()

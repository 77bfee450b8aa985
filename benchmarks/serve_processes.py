"""What is served, and the processes that serve it."""

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.made_up import class_labels, clustered, uniform
from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.serve.server import bind

START_SECONDS = 300


def like_trained(count: int, bits: int, seed: int) -> Codes:
    """Codes of 100 classes, as a trained model gives them."""
    return clustered(class_labels(count, 100, seed), uniform(100, bits, seed=8), 3, seed)


def build(folder: Path, items: int, bits: int, backbone: str) -> tuple[Path, Path]:
    """A model that was not trained, and an index that names it."""
    from scdh.config import load_config
    from scdh.model.hasher import Hasher

    overrides = {"net.backbone": backbone, "method.bits": bits}
    hasher = Hasher.build(load_config(overrides=overrides), ["a", "b"], False, None)
    hasher.network.eval()
    hasher.save(folder / "model")
    codes = like_trained(items, bits, seed=0)
    HammingIndex(Codes(codes.packed, bits, None, {"model": hasher.fingerprint()})).save(folder / "codes.index")
    return folder / "model", folder / "codes.index"


@contextmanager
def started(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A process that answers at ``/ready``."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([sys.executable, "-m", *command], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _is_ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"{command} does not answer: {log.read().decode()[-2000:]}")
                time.sleep(0.2)
            yield process
        finally:
            process.terminate()
            process.wait(60)


def free_port() -> int:
    with bind("127.0.0.1", 0) as probe:
        return int(probe.getsockname()[1])


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False

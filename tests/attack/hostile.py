"""Files made to hurt: models that ask for memory, pictures that start programs or swell, names that move a cursor."""

import io
import json
import os
import re
import resource
import shutil
import string
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from scdh.data.images.decode import decode
from scdh.data.source import BadImage
from scdh.storage.private_folder import NotPrivateError, make_private
from tests.attack.trials import Attack, Failed
from tests.cli.commands import must, run
from tests.serve.malformed import bmp_row, many_scans

# What Python, torch and scdh take before any model is looked at is measured, not assumed: see _memory.
_LOAD = """
import resource, sys
from scdh.errors import ScdhError
from scdh.model.hasher import Hasher
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Hasher.load(sys.argv[1], device="cpu")
    ending = "loaded"
except ScdhError:
    ending = "rejected"
print(ending, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
ALLOWED_KB = 64 << 10  # in addition to twice the file: buffers, and modules that are imported while a model is read
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def attacks(scratch: Path) -> Iterator[Attack]:
    """Those on models and runs need the runs ``run`` and ``other`` in ``scratch/samples``."""
    yield Attack("hostile: model", lambda random: _model(scratch, random))
    yield Attack("hostile: picture", _picture)
    yield Attack("hostile: slow pictures", _slow_picture)
    yield Attack("hostile: names", lambda random: _names(scratch, random))
    yield Attack("hostile: mixed runs", lambda random: _mixed_run(scratch, random))
    yield Attack("hostile: cache owners", lambda random: _cache_owner(scratch, random), times=20)


def _model(scratch: Path, random: Random) -> str:
    """A model whose description asks for a huge network."""
    folder = scratch / "hostile-model"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scratch / "samples/run/model", folder)
    file = folder / "config.json"
    content = json.loads(file.read_text("utf-8"))
    bomb = random.choice(("hidden", "many hidden", "bits", "labels", "width"))
    if bomb == "hidden":
        content["config"]["net"]["hidden"] = [random.choice((30_000, 10**6, 10**9)), 30_000]
    elif bomb == "many hidden":
        content["config"]["net"]["hidden"] = [4096] * random.choice((100, 20_000))
    elif bomb == "bits":
        content["bits"] = content["config"]["method"]["bits"] = random.choice((10**6, 10**9))
    elif bomb == "labels":
        content["label_names"] = [str(number) for number in range(10**6)]
    else:
        content["feature_width"] = random.choice((10**7, 10**12))
    content.pop("checksum", None)
    file.write_text(json.dumps(content), "utf-8")
    if random.random() < 0.5:  # without the description that the weights carry
        _strip_metadata(folder / "model.safetensors")
    size = sum(path.stat().st_size for path in folder.iterdir())
    done = subprocess.run([sys.executable, "-c", _LOAD, str(folder)], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"loading a model with a huge {bomb} ended in {done.stderr[-500:]}")
    ending, grown = done.stdout.split()
    if int(grown) * 1024 > 2 * size + ALLOWED_KB * 1024:
        raise Failed(f"a model of {size} bytes with a huge {bomb} took {grown} kB")
    return ending


def _strip_metadata(weights: Path) -> None:
    from safetensors.numpy import load_file, save_file

    save_file(load_file(weights), weights, metadata={"format": "pt"})


def _picture(random: Random) -> str:
    """Bytes in a file that is called .jpg; whatever they are, no program starts and little memory is used."""
    make = random.choice((_postscript, _svg, _bomb, _cut_photo, _noise_after_a_magic))
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    try:
        decode(make(random), "photo.jpg")
    except BadImage:
        ending = "rejected"
    else:
        ending = "decoded"
    if ending == "decoded" and make in (_postscript, _svg, _bomb):
        raise Failed(f"{make.__name__} was decoded")
    if resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > children:
        raise Failed(f"{make.__name__} started a program")
    return ending


def _slow_picture(random: Random) -> str:
    """Small files that take minutes to decode are rejected at once where files are untrusted."""
    side, scans = random.randrange(500, 7000), random.randrange(200, 3000)
    content = random.choice((lambda: many_scans(side, scans), lambda: bmp_row(random.randrange(70_000, 50_000_000))))()
    begun = time.process_time()
    try:
        decode(content, "photo.jpg", 224, most_pixels=50_000_000)
    except BadImage:
        if (seconds := time.process_time() - begun) > 1:
            raise Failed(f"{len(content):,} bytes took {seconds:.1f} s") from None
        return "rejected"
    raise Failed("a picture that takes minutes was decoded")


def _postscript(random: Random) -> bytes:
    size = random.randrange(10, 100)
    return f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 {size} {size}\n%%EndComments\nshowpage\n%%EOF\n".encode()


def _svg(random: Random) -> bytes:
    return b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"></svg>' + b" " * random.randrange(50)


def _bomb(random: Random) -> bytes:
    """Millions of equal pixels take few bytes."""
    file = io.BytesIO()
    side = random.choice((20_000, 30_000))
    Image.new("1", (side, side)).save(file, "PNG")
    return file.getvalue()


def _cut_photo(random: Random) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(random.randrange(1 << 30)).integers(0, 255, (40, 40, 3), np.uint8)
    Image.fromarray(pixels).save(file, random.choice(("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP")))
    data = file.getvalue()
    return data[: random.randrange(1, len(data))]


def _noise_after_a_magic(random: Random) -> bytes:
    magics = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF\0\0\0\0WEBP", b"II*\0", b"MM\0*", b"BM", b"P6\n")
    return random.choice(magics) + random.randbytes(random.randrange(1, 2_000))


def _names(scratch: Path, random: Random) -> str:
    """Class folders of any bytes are read, and nothing but printable text reaches the terminal."""
    folder = scratch / "hostile-names"
    shutil.rmtree(folder, ignore_errors=True)
    for number in range(2):
        place = bytes(folder) + b"/" + _name(random) + str(number).encode()
        (Path(place.decode("utf-8", "surrogateescape"))).mkdir(parents=True)
        for photo in range(2):
            path = place.decode("utf-8", "surrogateescape") + f"/{photo}.png"
            Image.new("RGB", (8, 8), (50 * number, 0, 0)).save(path)
    code, out, err = run(["datasets", str(folder)])
    if code:
        raise Failed(f"scdh datasets ended with {code}: {err!r}")
    if CONTROL.search(out + err):
        raise Failed(f"control characters reach the terminal: {out!r}")
    must(["info", str(folder)])
    return "printed"


def _name(random: Random) -> bytes:
    kinds = (
        b"\x1b[31mred",
        b"[red]",
        b"[/]",
        b"a\nb",
        b"\xff\xfe",
        "rtl\u202eabc".encode(),
        random.choice(string.punctuation.replace("/", "").replace(".", "")).encode(),
        random.randbytes(6).replace(b"/", b"_").replace(b"\0", b"_"),
    )
    return b"c" + random.choice(kinds)


def _mixed_run(scratch: Path, random: Random) -> str:
    """A part of another run in the place of a run's own is named, and never used."""
    folder, other = scratch / "mixed", scratch / "samples/other"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(scratch / "samples/run", folder)
    part = random.choice(("config.json", "protocol.json", "model", "last.safetensors"))
    if part == "model":
        shutil.rmtree(folder / part)
        shutil.copytree(other / part, folder / part)
    else:
        shutil.copy(other / part, folder / part)
    code, out, _ = run(["check", str(folder)])
    if code != 1 or "belongs to another run" not in out:
        raise Failed(f"scdh check ended with {code} where {part} is another run's: {out!r}")
    command = ["train", "--resume", "--epochs", "2", "--out"] if part == "last.safetensors" else ["evaluate"]
    code, out, err = run([*command, str(folder)])
    if code != 2:
        raise Failed(f"scdh {command[0]} ended with {code} where {part} is another run's: {out!r} {err!r}")
    return "named"


def _cache_owner(scratch: Path, random: Random) -> str:
    """A cache is not used if another user could change any part of its path."""
    here = scratch / "caches"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir(mode=0o700)
    parts = [here / "cache"]
    for _ in range(random.randrange(1, 4)):
        parts.append(parts[-1] / random.choice("abc"))
    parts[-1].mkdir(mode=0o700, parents=True)
    for part in parts:
        part.chmod(0o700)
    place, cache = random.choice(parts), parts[-1] / "kernels"
    # Only root can give a folder to another user.
    by_root = ("owner", "link", "target") if os.geteuid() == 0 else ()
    kind = random.choice(("writable", "sticky", *by_root))
    if kind == "writable":
        place.chmod(random.choice((0o777, 0o733)))
    elif kind == "sticky":
        cache.mkdir()
        cache.chmod(0o1777)
    elif kind == "owner":
        os.chown(place, random.randrange(1, 60_000), -1)
    else:
        moved = here / "elsewhere"
        place.rename(moved)
        place.symlink_to(moved)
        os.chown(place if kind == "link" else moved, random.randrange(1, 60_000), -1, follow_symlinks=False)
    try:
        make_private(cache)
    except NotPrivateError:
        return f"rejected: {kind}"
    raise Failed(f"{cache} is private, although {place} is not ({kind})")

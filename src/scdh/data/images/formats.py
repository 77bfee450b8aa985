"""The image formats that are read, and advice about files in other formats."""

import os
from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

from PIL import features

_EXTENSIONS = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "WEBP": (".webp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm"),
    "AVIF": (".avif",),
    "HEIF": (".heic", ".heif", ".hif"),
}
# What is needed to read a format that this installation may lack.
_REMEDIES = {
    "AVIF": "update Pillow (pip install 'pillow>=11.3')",
    "HEIF": "install the reader (pip install 'scdh[heif]')",
}
# Extensions of images that are never read.
_OTHER_IMAGES = frozenset(
    (
        *(".jxl", ".jp2", ".j2k", ".jpx", ".svg", ".psd", ".xcf", ".tga", ".ico", ".exr", ".hdr", ".eps"),
        *(".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"),
    )
)
_STARTS = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF8", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
)
_BRANDS = {  # of ISO media files, bytes 8 to 12
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"), "HEIF"),
}
_OPENED_PER_KIND = 3  # files of one unknown extension whose content is looked at


def _installed_formats() -> tuple[str, ...]:
    missing = set()
    if features.check("avif"):
        from PIL import AvifImagePlugin  # noqa: F401 (it registers its reader)
    else:
        missing.add("AVIF")
    if find_spec("pillow_heif") is None:
        missing.add("HEIF")
    else:
        from pillow_heif import register_heif_opener

        register_heif_opener()
    return tuple(name for name in _EXTENSIONS if name not in missing)


# Only these are tried, whatever a file is called: by default Pillow tries dozens of rarely used decoders, and starts
# another program, Ghostscript, for PostScript in a file that is called .jpg.
FORMATS = _installed_formats()
EXTENSIONS = frozenset(extension for name in FORMATS for extension in _EXTENSIONS[name])
_FORMAT_OF_EXTENSION = {extension: name for name, extensions in _EXTENSIONS.items() for extension in extensions}


def decode_in_one_thread() -> None:
    """Turn off threads, for a process that decodes one image at a time: they take memory for each core."""
    if "AVIF" in FORMATS:
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    if "HEIF" in FORMATS:
        from pillow_heif import options

        options.DECODE_THREADS = 1


def is_image_name(file: str) -> bool:
    """Whether a file of this name is read as an image."""
    return not file.startswith(".") and _extension(file) in EXTENSIONS


def missing_reader(file: str | os.PathLike[str]) -> str:
    """What to do if the file's extension is that of a format whose reader is not installed, else ""."""
    name = _FORMAT_OF_EXTENSION.get(_extension(os.fspath(file)), "")
    return _REMEDIES[name] if name and name not in FORMATS else ""


def format_of_content(file: BinaryIO) -> str | None:
    """Name of the image format that a file begins with; None if it is unknown."""
    start = file.read(16)
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WEBP"
    if start[4:8] == b"ftyp":
        return _BRANDS.get(start[8:12])
    return next((name for signature, name in _STARTS if start.startswith(signature)), None)


def advice_on_content(file: BinaryIO) -> str:
    """What to do about an image whose format was not recognised, if its reader is not installed; else ""."""
    name = format_of_content(file)
    return f"it is in the format {name}; {_REMEDIES[name]}" if name in _REMEDIES and name not in FORMATS else ""


def describe_skipped(root: Path, files: Iterable[str]) -> str:
    """Counts the images among files that are not read, by kind, with what to do about each kind.

    Returns:
        One sentence without a full stop; "" if none of the files is an image.
    """
    groups: dict[str, list[str]] = {}
    for file in files:
        if not os.path.basename(file).startswith("."):
            groups.setdefault(_extension(file), []).append(file)
    parts = []
    for extension in sorted(groups, key=lambda key: (-len(groups[key]), key)):
        paths = groups[extension]
        if (remedy := missing_reader(paths[0])) or extension in _OTHER_IMAGES:
            parts.append(f"{len(paths):,} {extension} ({remedy or 'convert them to JPEG or PNG'})")
        elif extension:
            if found := _common_format(root, paths[:_OPENED_PER_KIND]):
                parts.append(f"{len(paths):,} {extension} that contain {found} (rename them to {_usual(found)})")
        elif images := [found for path in paths if (found := _common_format(root, [path]))]:
            contents = " and ".join(f"{count:,} {name}" for name, count in Counter(images).most_common())
            parts.append(f"{len(images):,} without an extension ({contents} inside; add the extension to their names)")
    return "; ".join(parts)


def _common_format(root: Path, paths: list[str]) -> str | None:
    """The image format that all of these files have; None if one has another content."""
    found = set()
    for path in paths:
        try:
            if not (root / path).is_file():  # a pipe would make the reader wait
                return None
            with open(root / path, "rb") as file:
                found.add(format_of_content(file))
        except OSError:
            return None
    return found.pop() if len(found) == 1 else None


def _usual(name: str) -> str:
    return _EXTENSIONS[name][0]


def _extension(file: str) -> str:
    return os.path.splitext(file)[1].lower()

"""Writing a page: whole or not at all, as valid UTF-8, whatever the names in it are."""

from pathlib import Path

from scdh.printable import printable
from scdh.storage.files import replacing

_LAYOUT = "\n\t\r"  # control characters that a page may have


def save_page(path: Path, text: str) -> Path:
    """Write the text of a page; what a page cannot hold is shown as escapes. Returns ``path``."""
    with replacing(path) as temporary:
        temporary.write_text(printable(text, keep=_LAYOUT), "utf-8")
    return path

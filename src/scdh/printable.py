"""Make text from other people (names of files, folders, classes, columns) safe to show.

A name on Linux may hold any bytes. Python represents bytes that are not UTF-8 as lone surrogates, which can be neither
printed nor written. A name may also hold ESC, which controls the terminal, or characters that reverse the direction of
text.
"""

import json
import re
from typing import Any

# C0 and C1 control characters, signs that change the direction of text, separators of lines, lone surrogates, and
# U+FEFF and the two code points that are not characters.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]")
_OF_JSON = re.compile(_UNSAFE.pattern.replace("\x00-\x1f", ""))  # JSON escapes the others itself, and breaks lines


def printable(text: str, keep: str = "") -> str:
    r"""The text with all unsafe characters written as escapes.

    Args:
        text: any text.
        keep: control characters that stay, such as the line breaks of a page.

    >>> print(printable("caf\udce9 \x1b[31m"))
    caf\xe9 \x1b[31m
    """
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def json_text(content: Any, indent: int | None = None) -> str:
    r"""JSON that is valid UTF-8 and safe to print; reading it gives the same texts again, lone surrogates too.

    >>> json_text({"name": "caf\udce9"})
    '{"name": "caf\\udce9"}'
    """
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    return _OF_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(sign: str) -> str:
    code = ord(sign)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "epoch"), counted(1200, "epoch")
    ('1 epoch', '1,200 epochs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def readable_size(count: int) -> str:
    """Bytes in a readable unit.

    >>> readable_size(900), readable_size(2_340_000), readable_size(10_700_000_000)
    ('1 kB', '2.3 MB', '10.7 GB')
    """
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{-(-count // 1000):,} kB"

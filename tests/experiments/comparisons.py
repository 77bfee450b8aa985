"""What the tests of comparisons and pages share: small commands, how folders are read, a page as tests look at it."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

SMALL = "--preset demo-digits --epochs 2 --set net.hidden=[32] --set train.batch_size=128"
VALIDATION = "--set data.validation_per_class=5"
EIGHT_BITS = f"scdh mt_scdh itq lsh {SMALL} {VALIDATION} --seeds 0,1 --bits 8"
TWO_LENGTHS = f"{EIGHT_BITS},16"
METHODS, BITS, SEEDS = ("scdh", "mt_scdh", "itq", "lsh"), (8, 16), (0, 1)
CELLS = [f"{method}-{bits}-{seed}" for method in METHODS for bits in BITS for seed in SEEDS]


def read_json(path: Path) -> Any:
    """The content of a file without its checksum, which what commands print does not have."""
    content = json.loads(path.read_text("utf-8"))
    content.pop("checksum", None)
    return content


def scores_by_file(out: Path) -> dict[str, Any]:
    """Scores of all cells by their file. Rounded: processes with more threads add up queries in another order."""
    keys = ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "precision_at_k", "protocol")
    files = sorted((out / "cells").glob("*/scores*.json"))
    return {f"{file.parent.name}/{file.name}": {key: _rounded(read_json(file)[key]) for key in keys} for file in files}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(entry) for key, entry in value.items()}
    return round(value, 12) if isinstance(value, float) else value


def modification_times(folder: Path) -> dict[str, int]:
    return {str(file): file.stat().st_mtime_ns for file in sorted(folder.rglob("*")) if file.is_file()}


VOID = {"meta", "img", "br", "hr", "link", "input", "wbr"}


class Checked(HTMLParser):
    """Every tag that is opened is closed; collects ids, pictures and text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.pictures, self.words = [], set(), [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        if tag == "img":
            self.pictures.append(found["src"])
        assert tag != "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

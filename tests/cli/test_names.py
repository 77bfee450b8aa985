"""Names of any bytes: every command reads, prints and writes them, and none of them commands the terminal."""

import io
import json
import os
import re
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from scdh.cli import main
from scdh.cli.output import print_table
from scdh.printable import json_text, printable
from scdh.progress import progress_bar
from tests.cli.bad_files import SMALL
from tests.cli.commands import fails, run

HOSTILE = (
    *(b"caf\xe9 \xff", b"[red]", b"\x1b[31m\x1b]0;title\x07", b"two\nlines\r", b"%s {x}"),
    "\u202egnp.\x9b1m<b>&".encode(),
)
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def photos(root: Path, names: list[bytes], count: int = 6) -> Path:
    rng = np.random.default_rng(0)
    for shade, name in enumerate(names):
        folder = root / os.fsdecode(name)
        folder.mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(0, 100, (12, 12, 3)) + 75 * shade
            Image.fromarray(pixels.astype(np.uint8)).save(folder / os.fsdecode(b"%d" % i + name[-8:] + b".png"))
    return root


def shown(command: list[str]) -> str:
    """Standard output of a command that must succeed and show only what is safe."""
    code, out, err = run(command)
    assert code == 0, f"{command}: {err}"
    for text in (out, err):
        assert not UNSAFE.search(text), f"{command}: {text!r}"
        text.encode("utf-8")
    return out


def use_all_commands(d: Path, names: list[bytes]) -> None:
    data = str(photos(d / os.fsdecode(b"data" + names[0]), names))
    out = str(d / f"run {printable(os.fsdecode(names[0]))}")
    texts = [os.fsdecode(name) for name in names]
    assert set(json.loads(shown(["datasets", data, "--json"]))["classes"]) == set(texts)
    table = shown(["datasets", data])
    assert all(printable(text).split()[0] in table for text in texts if printable(text).split())
    shown(["train", "--data", data, *SMALL.split(), "--bits", "8", "--no-trials", "--out", out])
    shown(["evaluate", out])
    shown(["evaluate", out, "--json"])
    shown(["report", out])
    page = Path(out, "report.html").read_bytes().decode("utf-8")
    assert not UNSAFE.search(page.replace("\t", "").replace("\r", ""))
    assert "1m<b>&" not in page
    codes, index = str(d / "all.codes"), str(d / "all.index")
    shown(["encode", out, data, "--out", codes])
    shown(["index", codes, "--out", index])
    shown(["search", index, "--row", "0", "--html", str(d / "hits.html")])
    (d / "hits.html").read_bytes().decode("utf-8")
    hits = json.loads(shown(["search", index, "--row", "0", "--json"]))
    found = json.dumps(hits)
    assert any(json.dumps(text)[1:-1] in found for text in texts)
    first = next(Path(data, texts[0]).iterdir())
    shown(["search", index, "--model", out, str(first)])
    shown(["info", out])
    shown(["info", index])
    not_text = d / os.fsdecode(b"run\xff")
    for command in (["train", "--data", data, *SMALL.split(), "--no-trials"], ["encode", out, data]):
        message = fails([*command, "--out", str(not_text)])
        assert message.endswith(r"run\xff, which is not UTF-8; choose another name." + "\n")
    message = fails(["encode", out, str(d / os.fsdecode(b"missing/" + names[-1])), "--out", codes + "2"])
    assert not UNSAFE.search(message)


def test_hostile_names_from_training_to_pages(tmp_path: Path) -> None:
    use_all_commands(tmp_path, list(HOSTILE))


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_no_encoding_of_the_terminal_ends_a_command(tmp_path: Path, encoding: str) -> None:
    data = photos(tmp_path / "data", [*HOSTILE, "日本 …".encode()], 1)
    for options in ([], ["--json"]):
        terminal = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        with redirect_stdout(terminal), pytest.raises(SystemExit) as ending:
            main(["datasets", str(data), *options])
        assert not ending.value.code
        terminal.flush()
        printed = terminal.buffer.getvalue()  # type: ignore[attr-defined]
        assert b"\x1b" not in printed
        text = printed.decode(encoding)
        assert ("日本" in text) == (encoding == "utf-8")
        if options:
            assert set(json.loads(text)["classes"]) == {*map(os.fsdecode, HOSTILE), "日本 …"}


def test_fingerprints_of_usual_names_stay(tmp_path: Path) -> None:
    from scdh.data.open import open_source

    source = open_source(photos(tmp_path / "data", ["café".encode(), b"pear"], 2))
    assert source.fingerprint() == "3ad1c46c83bbabf0"
    assert open_source(photos(tmp_path / "other", [b"caf\xe9", b"pear"], 2)).fingerprint() != source.fingerprint()


def test_tables_show_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["[red]", "b"], [["[bold]x[/bold]", "\x1b[0m"]], title="[link=x]")
    shown_text = capsys.readouterr().out
    assert "[red]" in shown_text
    assert "[bold]x[/bold]" in shown_text
    assert "[link=x]" in shown_text
    assert r"\x1b[0m" in shown_text
    column = progress_bar().columns[0]
    assert not column.markup


@given(st.text())
@example("\ud800 \udcff \x1b\x9b\u202e")
def test_printable_and_json_are_safe_and_json_reads_back(text: str) -> None:
    assert not UNSAFE.search(printable(text))
    printable(text).encode("utf-8")
    assert printable(printable(text)) == printable(text)
    assert not UNSAFE.search(json_text({"a": text}))
    json_text({"a": text}).encode("utf-8")
    assert json.loads(json_text({"a": text}))["a"] == text

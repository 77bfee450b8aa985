"""The page of every method, made of a small comparison."""

from pathlib import Path

import pytest

from research import all_methods
from tests.cli.commands import must


def test_data_side_by_side_are_sorted_by_mean_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_methods, "MANY_METHODS", 3)

    def part(*scores: str) -> str:
        rows = "\n".join(f"| {name} | 0.1 | {score} | – |" for name, score in zip("ABCD", scores, strict=False))
        head = "| method | 8 bits | 16 bits | last epoch |\n|---|---:|---:|---:|"
        floats = "| 4 floats, cosine (16 bytes) | 0.9 | 0.9 | – |"
        return f"A note.\n\n### MAP\n\n{head}\n{rows}\n{floats}\n\n### Time\n"

    sections = {
        "X, frozen": part("**0.9 ± 0.1**", "0.8", "0.8"),
        "Y": part("0.1", "0.3", "0.2", "0.5"),
        "X, tuned": part("0.1", "0.2", "0.3"),  # the same data again
        "Z": part("0.7", "0.1"),  # too few methods
        "Text": "without a table",
    }
    lines = all_methods.side_by_side(sections, "By hand.").splitlines()
    assert lines[2] == "By hand."
    assert lines[6:] == [
        "| method | X, 16 bits | Y, 16 bits | mean place |",
        "|---|---:|---:|---:|",
        "| B | 0.800 (2.5) | 0.300 (1) | 1.8 |",
        "| A | 0.900 (1) | 0.100 (3) | 2.0 |",
        "| C | 0.800 (2.5) | 0.200 (2) | 2.2 |",
    ]
    assert all_methods.side_by_side({"Text": "without a table"}, None) == ""
    own_lengths = {"X": sections["X, frozen"].replace("| A |", "| A (10 bits) |"), "Y": sections["Y"]}
    assert all_methods.side_by_side(own_lengths, "By hand.").splitlines()[6:] == lines[6:]


@pytest.mark.slow
def test_the_page_has_tables_and_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, page, notes = tmp_path / "out", tmp_path / "page.md", tmp_path / "all_methods_notes.md"
    small = "--preset demo-digits --set data.train_per_class=20 --set data.validation_per_class=10 --no-trials"
    must(f"compare scdh dsh lsh {small} --bits 8,48 --seeds 0,1 --epochs 2 --out {out}")
    notes.write_text("## Digits\nA remark.\n\n### Experiments\n\nNot shown.\n\n## Others\nA newer remark.\n")
    page.write_text(
        "# Old\n\n## Digits\n\nold tables\n\n## Others\n\nAn old remark.\n\n### MAP\n\nkept tables\n", encoding="utf-8"
    )
    monkeypatch.setattr(all_methods, "PAGE", page)
    monkeypatch.setattr(all_methods, "HERE", tmp_path)
    monkeypatch.setattr("sys.argv", ["all_methods", f"Digits={out}", "--times", str(out)])
    all_methods.main()
    text = page.read_text(encoding="utf-8")
    assert "A remark." in text
    assert "Not shown." not in text
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= all_methods.WIDTH
    assert "old tables" not in text
    kept = text.partition("## Others\n")[2]  # its comparison was not given
    assert "A newer remark.\n\n### MAP\n\nkept tables" in kept
    assert "An old remark." not in text
    assert "### Time" in text
    assert "learned weights" in text
    results = all_methods.ComparisonResults.read(out)
    quiet = all_methods.quiet_seconds(results)
    assert set(quiet) == {"scdh", "dsh"}
    cells = [cell for cell in results.cells if (cell.method, cell.bits) == ("dsh", 48)]
    first, last = (score for _, score in cells[0].validation)
    assert all_methods.epochs_to(cells[0], max(first, last)) == (1 if first >= last else 2)
    assert all_methods.epochs_to(cells[0], 2.0) is None
    table = all_methods.time_table(results.model_copy(update={"target": 0.0}), {"dsh": [1.0, 3.0]})
    assert "| DSH | 3.0 | 1.0 |" in table  # both seeds are there after their first epoch

    # A part that is kept gets times of runs of its own data only.
    (part,) = [own for name, own in all_methods.read_notes(page).items() if name == "Digits"]
    before, _, rest = part.partition("### Time\n")
    assert all_methods.with_times(before, [results]) == before
    old = f"{before}### Time\n\nOld.\n\n| method | training, s | to 0.00, s |\n\n{rest[rest.index('- **Pro') :]}"
    made = all_methods.with_times(old, [results])
    assert "Old." not in made
    assert all_methods.ALONE_NOTE in made
    assert made.endswith(rest[rest.index("- **Pro") :])
    for own, another in ((results.data.fingerprint, "another"), ("optimiser steps", "other steps")):
        part = old.replace(own, another)
        assert all_methods.with_times(part, [results]) == part

"""research/README.md lists every script, with a command that exists and a page that names it."""

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "research"


def test_every_script_has_one_line_with_a_page_that_names_it():
    scripts = {file.stem for file in FOLDER.glob("*.py")} - {"__init__"}
    lines = [line for line in (FOLDER / "README.md").read_text("utf-8").splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == [f"{name}.py" for name in sorted(scripts)]
    for line in lines:
        name = line.split("`")[1].removesuffix(".py")
        (page,) = re.findall(r"\]\(\.\./([^)]+)\)", line)
        assert f"python -m research.{name}" in line
        assert f"research.{name}" in (FOLDER.parent / page).read_text("utf-8")

"""Write docs/results.md from a reproduction: ``python docs/make_results.py [FOLDER]``.

FOLDER is that of a finished ``scdh reproduce``, whose tables and figures are copied to docs/results. Without it the
page is made from what is there. A test checks that it is up to date.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

from scdh.experiments.reproduce.report import RESULTS_FILE, to_markdown
from scdh.storage.json_files import read_table

PAGE = Path(__file__).parent / "results.md"


def copy_results(folder: Path, page: Path = PAGE) -> None:
    """Copy the tables and figures of a reproduction next to the page, in place of those there."""
    data, target = folder / "data", page.with_suffix("")
    names = {block["name"] for block in _content(data)["blocks"]}
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in data.iterdir():
        if file.name == RESULTS_FILE or (file.stem in names and file.suffix in (".csv", ".svg")):
            shutil.copyfile(file, target / file.name)


def render(page: Path = PAGE) -> str:
    """The page from the files next to it."""
    return to_markdown(_content(page.with_suffix("")), page.stem)


def _content(data: Path) -> dict[str, Any]:
    return read_table(data / RESULTS_FILE, "the results of a reproduction", "copy them again")


if __name__ == "__main__":
    if sys.argv[1:]:
        copy_results(Path(sys.argv[1]))
    PAGE.write_text(render(), encoding="utf-8")
    print(f"{PAGE.name}: {len(PAGE.read_text(encoding='utf-8').splitlines())} lines")

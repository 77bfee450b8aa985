"""What a package index shows of the package: README.md with links that work there; pyproject.toml has all the rest.

README.md links to files of the repository, which an index does not have. With an address of the repository in
pyproject.toml, `[project.urls]` with `Source = "https://github.com/OWNER/NAME"`, these links lead there (GitHub and
GitLab know such addresses); without one, links become plain text and pictures are left out.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|mailto:|#)([^)\s]+)\)")


def index_page(readme: str, repository: str | None) -> str:
    """The text of README.md without links that need other files of the repository.

    Args:
        readme: Markdown text.
        repository: address of the repository; None: not known.
    """

    def replaced(link: re.Match[str]) -> str:
        is_picture, text, path = link[1] == "!", link[2], link[3]
        if repository is None:
            return "" if is_picture else text
        return f"{link[1]}[{text}]({repository.rstrip('/')}/{'raw' if is_picture else 'blob'}/HEAD/{path})"

    return re.sub(r"\n{3,}", "\n\n", LINK.sub(replaced, readme))


if __name__ == "__main__":
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    page = index_page((ROOT / "README.md").read_text("utf-8"), urls.get("Source"))
    setup(long_description=page, long_description_content_type="text/markdown")

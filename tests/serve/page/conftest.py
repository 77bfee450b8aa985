"""A browser for all tests of the page, and a tab for each that must not complain."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.serve.page.tab import Tab

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HOW = "no Chromium is found: `apt-get install chromium`, or set SCDH_CHROMIUM to one"
FAKE_CAMERA = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]


def find_chromium() -> str | None:
    """The program to use; None if there is none."""
    return os.environ.get("SCDH_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


def flags() -> list[str]:
    """Chromium's own sandbox does not work for root, as whom containers run."""
    return ["--force-color-profile=srgb", *(["--no-sandbox"] if os.geteuid() == 0 else [])]


@pytest.fixture(scope="package")
def browser():
    """Playwright keeps an event loop running until it ends, so no later test of the process could call asyncio.run."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is missing: pip install playwright")
    path = find_chromium()
    if path is None:
        pytest.skip(HOW)
    with playwright.sync_playwright() as running:
        opened = running.chromium.launch(executable_path=path, args=[*flags(), *FAKE_CAMERA])
        yield opened
        opened.close()


@pytest.fixture
def open_tab(browser) -> Iterator[Callable[..., Tab]]:
    """Opens tabs; at the end of the test none may have complained or asked another server."""
    tabs: list[Tab] = []

    def make(url: str, address: str = "/", **options) -> Tab:
        tabs.append(Tab(browser, url, **options))
        tabs[-1].go(address)
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.context.close()
    for tab in tabs:
        assert tab.complaints == []
        assert tab.foreign_requests == []


@pytest.fixture
def tab(site, open_tab) -> Tab:
    """The page of the shop, at its start."""
    return open_tab(site.url)


@pytest.fixture(scope="session")
def photo(shop: Path) -> Path:
    """A photo of the collection: the item 6 in the order of names has the same code."""
    return shop / "photos" / "pear" / "3.png"

"""Makes the pictures of `scdh serve` in docs/images: ``python docs/make_screenshots.py``.

The page shows the shop photos of ``scdh demo``, which come inside a package. Needs Chromium and the extras ``demo``,
``serve`` and ``dev``; the demo takes a few minutes unless ``--demo`` names a folder that it has written.
"""

import argparse
import io
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from scdh.codes import Codes
from scdh.data.name_files import for_new_index, save_named_index
from scdh.data.open import open_source
from scdh.data.row_names import RowNames
from scdh.index import HammingIndex

IMAGES = Path(__file__).parent / "images"
BITS = 64
SIDE = 480  # pixels of a photo
COLUMN = "finegrained_cat="
QUERY = "Kaiser"
DESKTOP, PHONE = {"width": 1200, "height": 800}, {"width": 390, "height": 844}


def build_shop(demo: Path, shop: Path) -> None:
    """A folder of photos as people have them, by kind, and an index of these; codes are those of the demo."""
    source, index = open_source("groceries"), HammingIndex.load(demo / f"database-{BITS}.index")
    kinds = [number for number, name in enumerate(source.label_names) if name.startswith(COLUMN)]
    label_names = [source.label_names[kind].removeprefix(COLUMN) for kind in kinds]
    labels = source.labels[index.ids][:, kinds].argmax(1).astype(np.int64)
    names = []
    for row, label in zip(index.ids.tolist(), labels.tolist(), strict=True):
        path = shop / "photos" / label_names[label] / f"shelf-{row:04d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        photo = source.image(row, at_least=SIDE)
        photo.thumbnail((SIDE, SIDE))
        photo.save(path, quality=88)
        names.append(str(path))
    codes = Codes(index.codes.packed, index.bits, index.ids, index.metadata)
    named = RowNames(index.ids, names, labels, label_names)
    save_named_index(shop / "photos.index", HammingIndex(for_new_index(codes)), named)


@contextmanager
def service(demo: Path, shop: Path) -> Iterator[str]:
    """``scdh serve`` on the shop; its address."""
    command = ["serve", f"{demo}/model-{BITS}", "--index", f"{shop}/photos.index", "--images", f"{shop}/photos"]
    with subprocess.Popen(
        [sys.executable, "-m", "scdh", *command, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            ready = next(line for line in process.stdout if line.startswith("Ready"))
            yield re.search(r"http://\S+?(?=/\s)", ready)[0]
        finally:
            process.terminate()


def take(browser: Any, url: str, name: str, address: str, act: Callable[[Any], None] | None, **options: Any) -> None:
    """One picture of the page, when nothing more is to come."""
    context = browser.new_context(reduced_motion="reduce", **options)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{url}{address}")
    page.locator("#facts:not(:empty)").wait_for()
    if act is not None:
        act(page)
    page.wait_for_load_state("networkidle")
    page.wait_for_timeout(600)
    with Image.open(io.BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").save(IMAGES / f"serve-{name}.png", optimize=True)
    context.close()
    print(f"docs/images/serve-{name}.png")


def main() -> None:
    from playwright.sync_api import sync_playwright

    from tests.serve.page.conftest import find_chromium, flags

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, help="folder that `scdh demo --bits 64 --out FOLDER` has written")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        shop = Path(temporary)
        demo = given.demo or shop / "demo"
        if given.demo is None:
            subprocess.run([sys.executable, "-m", "scdh", "demo", "--bits", str(BITS), "--out", str(demo)], check=True)
        build_shop(demo, shop)
        photo = demo / "queries" / f"{QUERY}.jpg"

        def search(page: Any) -> None:
            page.set_input_files("#file", photo)
            page.locator("#grid .distance").first.wait_for()

        def hover(page: Any) -> None:
            page.locator("#legend-list button").first.wait_for()
            box = page.locator("#points").bounding_box()
            for step in range(1000):  # row by row from the upper left until the pointer meets an item
                across, down = 0.01 * (step % 100), 0.05 + 0.09 * (step // 100)
                page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
                if page.locator("#tip").is_visible():
                    page.locator("#tip img:not(.pale)").wait_for()
                    return
            raise RuntimeError("the pointer met no item of the map")

        browser = playwright.chromium.launch(executable_path=find_chromium(), args=flags())
        with service(demo, shop) as url:
            take(browser, url, "start", "/", None, viewport=DESKTOP)
            take(browser, url, "desktop", "/", search, viewport=DESKTOP)
            take(browser, url, "dark", "/", search, viewport=DESKTOP, color_scheme="dark")
            phone = {"viewport": PHONE, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}
            take(browser, url, "phone", "/", search, **phone)
            take(browser, url, "map", "/?view=map", hover, viewport=DESKTOP)
        browser.close()


if __name__ == "__main__":
    main()

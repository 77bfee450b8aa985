"""A tab of the browser with the page in it."""

import base64
from pathlib import Path
from typing import Any

import numpy as np

MILLISECONDS = 120_000  # until a wait is an error; the machine may be busy
# What the browser itself writes: for an answer that is not a success, which the page says in its own words, and for
# drawing without a graphics card.
OF_BROWSER = ("Failed to load resource", "GL Driver Message")
GIVE = """([kind, name, text]) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, { type: "image/png" }));
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
    : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
  document.body.dispatchEvent(event);
}"""


class Tab:
    """A page and what it complained about.

    Args:
        browser: of playwright.
        url: of the service.
        options: of the context, such as ``viewport`` or ``color_scheme``.
    """

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **options})
        self.page = self.context.new_page()
        self.page.set_default_timeout(MILLISECONDS)
        self.complaints: list[str] = []
        self.foreign_requests: list[str] = []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._check_address)

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(own in message.text for own in OF_BROWSER):
            self.complaints.append(message.text)

    def _check_address(self, request: Any) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:")):
            self.foreign_requests.append(request.url)

    def go(self, address: str) -> None:
        self.page.goto(f"{self.url}{address}")

    def wait_for_results(self, title: str = "") -> None:
        """Until a search is done; strips come last."""
        self.page.locator("#results:not([aria-busy]) .strip").first.wait_for()
        if title:
            self.page.locator("#results-title", has_text=title).wait_for()

    def wait_for_title(self, title: str) -> None:
        self.page.locator("#results-title", has_text=title).wait_for()

    def names(self) -> list[str]:
        return self.page.locator("#grid .name").all_inner_texts()

    def labels(self) -> list[str]:
        return self.page.locator("#grid .label").all_inner_texts()

    def ids(self) -> list[int]:
        return [int(card.get_attribute("data-item")) for card in self.page.locator("#grid .card").all()]

    def distances(self) -> list[int]:
        return [int(text) for text in self.page.locator("#grid .distance b").all_inner_texts()]

    def query(self) -> str:
        """What the address says."""
        return self.page.evaluate("location.search")

    def message(self) -> str:
        return self.page.locator("#message").inner_text()

    def give(self, kind: str, file: Path) -> None:
        """Paste or drop a picture."""
        self.page.evaluate(GIVE, [kind, file.name, base64.b64encode(file.read_bytes()).decode()])

    def is_focused(self, selector: str) -> bool:
        return self.page.evaluate("(selector) => document.activeElement?.matches(selector) ?? false", selector)


class MapOfTab:
    """Where the points of the map are on the screen, from the answer of the service.

    Args:
        tab: shows the map.
        answer: of ``/v1/map``.
    """

    def __init__(self, tab: Tab, answer: dict[str, Any]) -> None:
        self.tab = tab
        read = {key: base64.b64decode(answer[key]) for key in ("ids", "x", "y", "labels")}
        self.ids = np.frombuffer(read["ids"], "<i8")
        self.labels = np.frombuffer(read["labels"], "<i4")
        self.places = np.stack([np.frombuffer(read[key], "<u2") / 65535 for key in ("x", "y")], axis=1)
        tab.page.locator("#map-message").wait_for(state="hidden")
        tab.page.locator("#legend-list button").first.wait_for()
        box = tab.page.locator("#points").bounding_box()
        self.middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
        self.side = 0.92 * min(box["width"], box["height"])

    def lonely_point(self) -> int:
        """The point that is furthest from any other, so that a click cannot mean another."""
        distances = np.hypot(*(self.places[:, None] - self.places[None]).transpose(2, 0, 1))
        np.fill_diagonal(distances, np.inf)
        return int(distances.min(1).argmax())

    def on_screen(self, point: int, zoom: float = 1.0) -> tuple[float, float]:
        offset = (self.places[point] - 0.5) * self.side * zoom * np.array([1, -1])
        x, y = self.middle + offset
        return float(x), float(y)

"""The page without a mouse, for those who hear it, and on small screens."""

import pytest

VIEWS = {
    "start": "/",
    "results": "/?item=3",
    "nothing found": "/?item=3&radius=0",
    "error": "/?item=99",
    "map": "/?view=map",
    "documents": "/docs",
}
DESKTOP, PHONE = {"width": 1200, "height": 800}, {"width": 360, "height": 740}


def settle(tab) -> None:
    """Until nothing more is to come."""
    tab.page.wait_for_load_state("networkidle")


@pytest.fixture(scope="session")
def axe() -> str:
    package = pytest.importorskip("axe_playwright_python", reason="axe is missing: pip install axe-playwright-python")
    from pathlib import Path

    return (Path(package.__file__).parent / "axe.min.js").read_text("utf-8")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_barrier(open_tab, site, axe, scheme):
    found = []
    for viewport, names in ((DESKTOP, list(VIEWS)), (PHONE, ["results", "map", "documents"])):
        tab = open_tab(site.url, color_scheme=scheme, viewport=viewport, reduced_motion="reduce")
        for name in names:
            tab.go(VIEWS[name])
            settle(tab)
            tab.page.evaluate(axe)
            answer = tab.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
            found += [
                (name, viewport["width"], rule["id"], node["html"], node["failureSummary"])
                for rule in answer["violations"]
                if rule["impact"] in ("serious", "critical", "moderate")
                for node in rule["nodes"]
            ]
    assert found == []


def test_the_whole_search_works_with_keys(tab):
    page = tab.page
    tab.wait_for_results()
    page.keyboard.press("Tab")
    assert tab.is_focused(".skip")
    reached = []
    for _ in range(16):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
    order = ["home", "to-search", "to-map", "choose", "photograph", "by-code-title"]
    assert [name for name in reached if name in order] == order
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert tab.is_focused("#grid .card")
    page.keyboard.press("Enter")
    tab.wait_for_results("11 results")
    assert tab.is_focused("#results")
    page.locator("#use-radius").focus()
    page.keyboard.press("Space")
    page.wait_for_url("**radius=*")
    page.keyboard.press("Tab")
    assert tab.is_focused("#radius")
    page.keyboard.press("End")
    page.wait_for_url("**radius=13")
    tab.wait_for_results("11 results")
    page.get_by_role("checkbox", name="pear").focus()
    page.keyboard.press("Space")
    tab.wait_for_results("5 results")
    assert tab.is_focused("input[value=pear]")


def test_a_keyboard_can_give_a_picture(tab, photo):
    tab.page.on("filechooser", lambda chooser: None)  # the browser hands choosers over only some time after this
    tab.wait_for_results()
    tab.page.locator("#choose").focus()
    with tab.page.expect_file_chooser() as chooser:
        tab.page.keyboard.press("Enter")
    chooser.value.set_files(photo)
    tab.wait_for_results("12 results")


@pytest.mark.parametrize("address", ["/?item=3", "/", "/?view=map"])
def test_nothing_is_wider_than_the_screen(open_tab, site, address):
    tab = open_tab(site.url, address, viewport={"width": 320, "height": 740})
    settle(tab)
    for width in (320, 360, 768, 1024, 1920):
        tab.page.set_viewport_size({"width": width, "height": 740})
        tab.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_shows_results_before_settings(open_tab, site):
    tab = open_tab(site.url, "/?item=3", viewport=PHONE, has_touch=True, is_mobile=True)
    tab.wait_for_results()
    assert tab.page.locator("#k").is_hidden()
    tab.page.locator("#refine-fold > summary").tap()
    tab.page.select_option("#k", "12")
    tab.page.wait_for_url("**k=12")
    with tab.page.expect_file_chooser():  # a phone has a camera of its own
        tab.page.locator("#photograph").tap()

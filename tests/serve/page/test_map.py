"""The map of the collection: what it draws, and how one gets from a point to a search."""

import io

import numpy as np
import pytest
from PIL import Image

from tests.serve.page.tab import MapOfTab

# Browsers of tests have no graphics card; WebGL works there all the same, once the page takes it for one.
PRETEND_CARD = """WebGL2RenderingContext.prototype.getParameter = () => "a card";
const real = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, options) {
  return real.call(this, kind, { ...options, failIfMajorPerformanceCaveat: false });
};"""
WITHOUT_WEBGL = """const real = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, options) {
  return kind === "webgl2" ? null : real.call(this, kind, options);
};"""


@pytest.fixture
def opened(tab, site):
    tab.wait_for_results()
    tab.page.click("#to-map")
    tab.page.wait_for_url("**/?view=map")
    return MapOfTab(tab, site.http.get("/v1/map").json())


def colours_around(tab, place):
    """The colours on the screen in a square of 9 pixels around a place."""
    clip = {"x": place[0] - 4, "y": place[1] - 4, "width": 9, "height": 9}
    with Image.open(io.BytesIO(tab.page.screenshot(clip=clip))) as image:
        return {colour for _, colour in image.convert("RGB").getcolors()}


def is_among(colour, colours):
    """Whether one of these colours is the colour, up to rounding."""
    return any(np.abs(np.subtract(colour, own)).max() <= 3 for own in colours)


def test_a_click_searches_from_a_point_and_back_returns_to_the_map(opened):
    tab, point = opened.tab, opened.lonely_point()
    tab.page.mouse.click(*opened.on_screen(point))
    tab.wait_for_results("11 results")
    assert tab.query() == f"?item={opened.ids[point]}"
    assert tab.is_focused("#results")
    tab.page.go_back()
    tab.page.locator("#map").wait_for()
    assert tab.query() == "?view=map"
    assert tab.page.locator("#search").is_hidden()


def test_a_pointer_over_a_point_shows_what_it_is(opened, site):
    tab, point = opened.tab, opened.lonely_point()
    tab.page.mouse.move(*opened.on_screen(point))
    item = site.http.get(f"/v1/items/{opened.ids[point]}").json()
    tip = tab.page.locator("#tip")
    tip.locator(".name", has_text=item["name"].rsplit("/", 1)[1]).wait_for()
    assert tip.locator(".label").inner_text() == item["labels"][0]
    tip.locator("img").wait_for()
    tab.page.mouse.move(opened.middle[0] - opened.side, opened.middle[1])
    tip.wait_for(state="hidden")


def test_zoom_by_button_and_wheel_keeps_points_where_they_belong(opened):
    tab, point = opened.tab, opened.lonely_point()
    tab.page.click("#zoom-in")
    tab.page.click("#zoom-out")
    tab.page.click("#zoom-out")
    tab.page.mouse.move(*opened.on_screen(point, 1 / 1.6))
    tab.page.locator("#tip .name").wait_for()
    tab.page.mouse.wheel(0, -400)  # around the pointer, so the point stays below it
    tab.page.locator("#tip").wait_for(state="hidden")
    tab.page.mouse.move(*(number + 1 for number in opened.on_screen(point, 1 / 1.6)))
    tab.page.locator("#tip .name").wait_for()
    assert tab.page.locator("#tip").get_attribute("href") == f"?item={opened.ids[point]}"


def test_dragging_moves_the_map_and_searches_nothing(opened):
    tab, point = opened.tab, opened.lonely_point()
    x, y = opened.on_screen(point)
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 40, y + 30, steps=4)
    tab.page.mouse.up()
    assert tab.query() == "?view=map"
    tab.page.mouse.click(x + 40, y + 30)
    tab.wait_for_results("11 results")
    assert tab.query() == f"?item={opened.ids[point]}"


@pytest.mark.parametrize("has_webgl", [True, False])
def test_points_have_the_colours_of_their_labels(open_tab, site, has_webgl):
    tab = open_tab(site.url, "/docs")
    tab.page.add_init_script(PRETEND_CARD if has_webgl else WITHOUT_WEBGL)
    tab.go("/?view=map")
    opened = MapOfTab(tab, site.http.get("/v1/map").json())
    tab.page.wait_for_timeout(200)  # a frame
    kind = tab.page.evaluate("document.getElementById('points').getContext('2d') === null")
    assert kind == has_webgl
    point = opened.lonely_point()
    place = opened.on_screen(point)
    shown = tab.page.locator("#legend-list circle").nth(int(opened.labels[point])).get_attribute("fill")
    of_label, of_page = np.array([int(part) for part in shown[4:-1].split(",")]), np.array([251, 250, 248])
    expected = (225 * of_label + 30 * of_page) / 255  # points are not quite opaque
    assert is_among(expected, colours_around(tab, place))
    tab.page.locator("#legend-list button").nth(1 - int(opened.labels[point])).click()
    tab.page.mouse.move(0, 0)
    tab.page.wait_for_timeout(200)
    assert not is_among(expected, colours_around(tab, place))


def test_labels_of_the_legend_can_be_chosen_and_only_these_are_found(opened):
    tab, point = opened.tab, opened.lonely_point()
    buttons = tab.page.locator("#legend-list button")
    assert [text.split("\n")[0] for text in buttons.all_inner_texts()] == ["apple", "pear"]
    other = buttons.nth(1 - int(opened.labels[point]))
    other.click()
    assert other.get_attribute("aria-pressed") == "true"
    tab.page.mouse.click(*opened.on_screen(point))
    assert tab.query() == "?view=map"
    other.click()
    tab.page.mouse.click(*opened.on_screen(point))
    tab.wait_for_results("11 results")


def test_the_map_works_with_keys(opened):
    tab = opened.tab
    tab.page.locator("#points").focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("+")
    tab.page.locator("#tip .name").wait_for()
    chosen = tab.page.locator("#tip").get_attribute("href")
    tab.page.locator("#status", has_text=".png").wait_for()
    tab.page.keyboard.press("Enter")
    tab.wait_for_results("11 results")
    assert tab.query() == chosen


def test_a_finger_first_sees_and_then_searches(open_tab, site):
    tab = open_tab(site.url, "/?view=map", has_touch=True, viewport={"width": 400, "height": 800})
    opened = MapOfTab(tab, site.http.get("/v1/map").json())
    point = opened.lonely_point()
    tab.page.touchscreen.tap(*opened.on_screen(point))
    tab.page.locator("#tip .name").wait_for()
    assert tab.query() == "?view=map"
    tab.page.locator("#tip").tap()
    tab.wait_for_results("11 results")
    assert tab.query() == f"?item={opened.ids[point]}"


def test_a_map_that_cannot_be_had_says_why_and_can_be_asked_for_again(tab):
    error = {"status": 503, "json": {"error": {"code": "index_unusable", "message": "No ids are known."}}}
    tab.page.route("**/v1/map", lambda route: route.fulfill(**error))
    tab.wait_for_results()
    tab.page.click("#to-map")
    tab.page.get_by_text("No ids are known.").wait_for()
    tab.page.unroute("**/v1/map")
    tab.page.get_by_role("button", name="Try again").click()
    tab.page.locator("#legend-list button").first.wait_for()


def test_a_map_that_takes_long_is_waited_for(tab):
    error = {"status": 503, "json": {"error": {"code": "timeout", "message": "This took too long."}}}
    tab.page.route("**/v1/map", lambda route: route.fulfill(**error), times=1)
    tab.wait_for_results()
    tab.page.click("#to-map")
    tab.page.locator("#legend-list button").first.wait_for()
    assert tab.page.locator("#map-message").inner_text() == ""


def test_a_map_that_was_left_while_it_was_made_is_whole_and_acts_once(tab, site):
    """Its size was that of a hidden map, and every visit meanwhile added listeners of its own."""
    held = []
    tab.page.route("**/v1/map", lambda route: held.append(route))
    tab.wait_for_results()
    for link in ("#to-map", "#to-search", "#to-map", "#to-search"):
        tab.page.click(link)
    tab.wait_for_results()
    for route in held:
        route.continue_()
    tab.page.locator("#legend-list button").first.wait_for(state="attached")
    assert len(held) == 1
    tab.page.click("#to-map")
    opened = MapOfTab(tab, site.http.get("/v1/map").json())
    entries = tab.page.evaluate("history.length")
    point = opened.lonely_point()
    tab.page.mouse.click(*opened.on_screen(point))
    tab.wait_for_results("11 results")
    assert tab.query() == f"?item={opened.ids[point]}"
    assert tab.page.evaluate("history.length") == entries + 1


def test_the_map_shows_the_query_and_the_filter(tab, site, photo):
    tab.go("/?item=3&label=pear")
    tab.wait_for_results()
    tab.page.click("#to-map")
    opened = MapOfTab(tab, site.http.get("/v1/map").json())
    mark = tab.page.locator("#query-mark")
    mark.wait_for()
    box, place = mark.bounding_box(), opened.on_screen(int(np.flatnonzero(opened.ids == 3)[0]))
    assert np.allclose((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2), place, atol=2)
    pressed = tab.page.locator("#legend-list button[aria-pressed=true]")
    assert [text.split()[0] for text in pressed.all_inner_texts()] == ["pear"]
    tab.go("/")
    tab.wait_for_results()
    tab.page.set_input_files("#file", photo)
    tab.wait_for_results()
    nearest = tab.ids()[0]
    tab.page.click("#to-map")
    tab.page.locator("#query-mark[aria-label='The item nearest to the search']").wait_for()
    box, place = mark.bounding_box(), opened.on_screen(int(np.flatnonzero(opened.ids == nearest)[0]))
    assert np.allclose((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2), place, atol=2)
    assert pressed.count() == 0

"""Searching on the page: every way to ask, the settings, the address and the history; other collections."""

import re

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.model.hasher import Hasher
from scdh.serve.settings import Settings
from tests.serve.conftest import BITS, HOSTILE, save_index, save_model, some_vectors
from tests.serve.hosted import hosted


def test_the_start_shows_items_of_the_collection(tab, site):
    tab.wait_for_results("From the collection")
    assert tab.page.locator("#facts").inner_text() == f"12 items · {BITS} bits · scdh"
    assert sorted(tab.ids()) == list(range(12))
    assert tab.page.title() == "Search by picture · scdh"
    first = tab.page.locator("#grid img").first
    first.evaluate("(image) => image.decode()")
    assert first.evaluate("(image) => image.naturalWidth") == 40


def test_a_hostile_name_is_text(tab):
    tab.wait_for_results()
    assert HOSTILE in tab.names()
    assert tab.page.locator("img[onerror], img[src=x]").count() == 0


def test_a_chosen_picture_is_searched_with_and_back_leads_to_the_start(tab, photo, site):
    tab.wait_for_results()
    tab.page.set_input_files("#file", photo)
    tab.wait_for_results("12 results")
    assert tab.distances() == sorted(tab.distances())
    assert tab.distances()[0] == 0
    assert tab.names()[0] == photo.name
    code = site.http.get(f"/v1/items/{tab.ids()[0]}").json()["code"]
    assert tab.query() == f"?code={code}"
    assert tab.page.locator(".query-name").inner_text() == photo.name
    assert tab.page.locator(".query-frame img").get_attribute("src").startswith("data:image/jpeg")
    assert tab.is_focused("#results")
    assert "12 results" in tab.page.locator("#status").inner_text()
    tab.page.go_back()
    tab.wait_for_results("From the collection")
    assert tab.page.locator("#query").is_hidden()
    tab.page.go_forward()
    tab.wait_for_results("12 results")
    assert tab.page.locator(".query-frame img").get_attribute("src").startswith("data:image/jpeg")


@pytest.mark.parametrize("kind", ["paste", "drop"])
def test_a_pasted_or_dropped_picture_is_searched_with(tab, photo, kind):
    tab.wait_for_results()
    tab.give(kind, photo)
    tab.wait_for_results("12 results")
    assert tab.distances()[0] == 0
    assert tab.names()[0] == photo.name
    assert tab.page.locator("#drop-here").is_hidden()


def test_a_photo_of_the_camera_is_searched_with(tab):
    tab.wait_for_results()
    tab.page.click("#photograph")
    tab.page.locator("#camera-shoot:enabled").click()
    tab.wait_for_results("12 results")
    assert tab.page.locator(".query-kind").inner_text() == "Your picture"
    assert tab.page.locator("#camera-dialog").is_hidden()
    assert tab.page.evaluate("document.getElementById('camera-video').srcObject") is None


def test_a_click_searches_from_a_result_and_back_returns(tab, site):
    tab.wait_for_results()
    first = tab.ids()[0]
    tab.page.locator("#grid .card").first.click()
    tab.wait_for_results("11 results")
    assert tab.query() == f"?item={first}"
    expected = site.http.get(f"/v1/items/{first}/similar?k=24").json()["results"][0]["hits"]
    assert tab.ids() == [hit["id"] for hit in expected]
    assert tab.distances() == [hit["distance"] for hit in expected]
    assert tab.is_focused("#results")
    second = tab.ids()[0]
    tab.page.locator("#grid .card").first.click()
    tab.page.wait_for_url(f"**/?item={second}")
    tab.page.go_back()
    tab.page.wait_for_url(f"**/?item={first}")
    tab.wait_for_results("11 results")
    tab.page.locator(f"[data-item='{second}']").wait_for()


def test_bits_that_differ_are_marked(tab):
    tab.go("/?item=3")
    tab.wait_for_results()
    strips = tab.page.locator("#grid .strip")
    said = [strip.get_attribute("aria-label") for strip in strips.all()]
    assert said == [f"{distance} of {BITS} bits differ" for distance in tab.distances()]
    marked = [strip.locator(".bit-differs").get_attribute("d").count("M") for strip in strips.all()]
    assert marked == tab.distances()


def test_a_radius_keeps_what_is_near_and_says_when_nothing_is(tab, site):
    tab.go("/?item=3")
    tab.wait_for_results()
    radius = tab.distances()[4]
    expected = site.http.get(f"/v1/items/3/similar?radius={radius}").json()["results"][0]["hits"]
    tab.page.check("#use-radius")
    tab.page.locator("#radius").fill(str(radius))
    tab.page.wait_for_url(f"**/?item=3&radius={radius}")
    tab.wait_for_results(f"{len(expected)} results")
    assert tab.ids() == [hit["id"] for hit in expected]
    assert 0 < len(expected) < 11
    tab.page.locator("#radius").fill("0")
    tab.wait_for_title("Nothing found")
    assert "No other item is within 0 bits" in tab.message()
    tab.page.get_by_role("button", name="Search at any distance").click()
    tab.wait_for_results("11 results")
    assert tab.query() == "?item=3"


def test_fewer_results_than_are_within_the_radius_say_so(tab):
    tab.go(f"/?item=3&k=2&radius={BITS}")
    tab.wait_for_results("Nearest 2 of 11")
    assert tab.page.locator("#k").input_value() == "2"


def test_the_number_of_results_can_be_chosen(tab):
    tab.go("/?item=3&k=5")
    tab.wait_for_results("5 results")
    tab.page.select_option("#k", "12")
    tab.wait_for_results("11 results")
    assert tab.query() == "?item=3&k=12"


def test_a_filter_by_label_applies_to_searches_and_to_the_start(tab):
    tab.wait_for_results()
    tab.page.get_by_role("checkbox", name="pear").check()
    tab.page.wait_for_url("**/?label=pear")
    tab.page.locator("#grid > li:nth-child(6):last-child > .card[href]").wait_for()
    assert set(tab.labels()) == {"pear"}
    tab.page.locator("#grid .card").first.click()
    tab.wait_for_results("5 results")
    assert set(tab.labels()) == {"pear"}
    tab.page.get_by_role("button", name="Clear the filter").click()
    tab.wait_for_results("11 results")
    assert set(tab.labels()) == {"apple", "pear"}


def test_an_address_can_be_shared(tab, open_tab, site, photo):
    tab.page.set_input_files("#file", photo)
    tab.wait_for_results("12 results")
    tab.page.check("#use-radius")
    tab.page.locator("#radius").fill("9")
    tab.page.wait_for_url("**radius=9")
    tab.page.locator("#results:not([aria-busy])").wait_for()
    other = open_tab(site.url, f"/{tab.query()}")
    other.wait_for_results()
    tab.wait_for_results()
    assert other.ids() == tab.ids()
    assert other.page.locator(".query-kind").inner_text() == "Code"


def test_a_typed_code_is_searched_with(tab):
    tab.wait_for_results()
    tab.page.click("#by-code summary")
    tab.page.fill("#code-text", "xyz")
    tab.page.press("#code-text", "Enter")
    assert tab.page.locator("#code-error").inner_text() == f"A code of {BITS} bits is 4 hexadecimal digits."
    tab.page.fill("#code-text", "F0F8")
    tab.page.press("#code-text", "Enter")
    tab.wait_for_results("12 results")
    assert tab.query() == "?code=f0f8"


def test_addresses_that_make_no_sense_are_a_start(tab):
    tab.go("/?item=../../x&k=-3&radius=z&code=q")
    tab.wait_for_results("From the collection")
    assert tab.page.locator("#k").input_value() == "24"


def test_modified_clicks_are_left_to_the_browser(tab):
    tab.wait_for_results()
    with tab.context.expect_page() as opened:
        tab.page.locator("#grid .card").first.click(modifiers=["Control"])
    opened.value.wait_for_load_state()
    assert re.search(r"\?item=\d+$", opened.value.url)
    assert tab.query() == ""


def test_an_item_is_found_by_its_name(tab):
    tab.wait_for_results("From the collection")
    tab.page.fill("#find-text", "PEAR/3")
    tab.page.click("#find-form button")
    tab.wait_for_results("Items with “PEAR/3” in their name")
    assert tab.names() == ["3.png"]
    assert tab.query() == "?name=PEAR%2F3"
    tab.page.click("#grid .card")
    tab.wait_for_results("11 results")
    assert tab.query() == f"?item={tab.page.url.rsplit('=', 1)[1]}"
    tab.page.go_back()
    tab.wait_for_results("Items with")
    tab.page.fill("#find-text", "nowhere")
    tab.page.keyboard.press("Enter")
    tab.page.locator("#message", has_text="No item has “nowhere” in its name").wait_for()
    tab.page.get_by_role("button", name="Back to the collection").click()
    tab.wait_for_results("From the collection")
    assert tab.page.input_value("#find-text") == ""


def test_a_picture_is_shown_large_and_searched_with(tab):
    tab.wait_for_results()
    item = tab.page.locator("#grid > li").nth(2)
    item_id = item.locator(".card").get_attribute("data-item")
    item.hover()
    item.locator(".enlarge").click()
    large = tab.page.locator("#large-picture")
    large.evaluate("(image) => image.decode()")
    assert large.get_attribute("src") == f"v1/items/{item_id}/thumbnail?large=true"
    tab.page.keyboard.press("Escape")
    tab.page.locator("#large-dialog").wait_for(state="hidden")
    item.locator(".enlarge").click()
    tab.page.click("#large-search")
    tab.wait_for_results("11 results")
    assert tab.query() == f"?item={item_id}"
    assert tab.page.locator("#large-dialog").is_hidden()
    tab.page.click("#query .enlarge")
    large.evaluate("(image) => image.decode()")
    assert tab.page.locator("#large-search").is_hidden()
    tab.page.click("#large-close")


def test_the_page_says_what_codes_mean(tab):
    tab.wait_for_results()
    assert "not “looks most alike”" in tab.page.locator("#meaning").inner_text()


LARGE = (1 << 62) + 1  # no number of JavaScript
WIDTH = 5


@pytest.fixture(scope="module")
def embeddings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("embeddings")
    hasher: Hasher = save_model(folder / "model", WIDTH)
    codes = hasher.encode(some_vectors(9))
    large = Codes(codes.packed, codes.bits, LARGE + np.arange(9))
    save_index(folder / "items.index", large, hasher.fingerprint(), np.full(9, -1), [])
    with hosted(Settings(f"{folder}/model", f"{folder}/items.index")) as running:
        yield running


def test_an_embedding_is_searched_with(open_tab, embeddings):
    tab = open_tab(embeddings.url)
    tab.wait_for_results("From the collection")
    assert tab.page.locator("#picker").is_hidden()
    assert tab.page.locator("#labels").is_hidden()
    tab.page.fill("#code-text", "1, 2, 3")
    tab.page.press("#code-text", "Enter")
    assert tab.page.locator("#code-error").inner_text() == "An embedding has 5 numbers, these are 3."
    tab.page.fill("#code-text", f"[{', '.join(str(number) for number in some_vectors(9)[4].tolist())}]")
    tab.page.press("#code-text", "Enter")
    tab.wait_for_results("9 results")
    assert tab.distances()[0] == 0
    assert LARGE + 4 in tab.ids()
    assert "code=" in tab.query()


def test_large_ids_and_codes_in_place_of_pictures(open_tab, embeddings):
    tab = open_tab(embeddings.url)
    tab.wait_for_results()
    assert sorted(tab.ids()) == [LARGE + number for number in range(9)]
    tab.page.locator(f"[data-item='{LARGE + 2}']").click()
    tab.page.wait_for_url(f"**/?item={LARGE + 2}")
    tab.wait_for_results("8 results")
    code = embeddings.http.get(f"/v1/items/{LARGE + 2}").json()["code"]
    assert tab.page.locator(".query-code code").inner_text() == code
    first = tab.page.locator("#grid .card").first
    own = embeddings.http.get(f"/v1/items/{tab.ids()[0]}").json()["code"]
    ones = int(own, 16).bit_count()
    assert first.locator(".tile .bit-on").get_attribute("d").count("M") == ones
    assert first.locator(".tile .bit-off").get_attribute("d").count("M") == BITS - ones

"""What the page says where there are no results: each message has a button for what helps, and the button does it."""

import io

import numpy as np
import pytest
from PIL import Image, features

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.model.hasher import Hasher
from scdh.serve.settings import Settings
from tests.serve.conftest import BITS, TOKEN, picture, save_index, save_model, some_vectors
from tests.serve.hosted import hosted
from tests.serve.page.test_states import answer_with


def buttons(tab) -> list[str]:
    return tab.page.locator("#message .button").all_inner_texts()


def press(tab, name: str) -> None:
    tab.page.locator("#message").get_by_role("button", name=name).click()


@pytest.fixture
def broken(tmp_path):
    path = tmp_path / "broken.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n but not really")
    return path


def test_a_bad_picture_leads_to_another_or_back_to_the_results(tab, broken, photo):
    tab.go("/?item=3")
    tab.wait_for_results("11 results")
    tab.page.on("filechooser", lambda chooser: None)
    tab.page.set_input_files("#file", broken)
    tab.page.locator("#message .panel").wait_for()
    assert buttons(tab) == ["Choose another picture", "Back to the results"]
    press(tab, "Back to the results")
    tab.wait_for_results("11 results")
    assert tab.query() == "?item=3"
    assert tab.page.locator(".query-kind").inner_text() == "Similar to"
    tab.page.set_input_files("#file", broken)
    with tab.page.expect_file_chooser() as chooser:
        press(tab, "Choose another picture")
    chooser.value.set_files(photo)
    tab.wait_for_results("12 results")


def test_what_is_no_picture_is_told_on_the_map_too(tab, tmp_path):
    text = tmp_path / "words.txt"
    text.write_text("words")
    tab.page.click("#to-map")
    tab.page.locator("#legend-list button").first.wait_for()
    tab.page.set_input_files("#file", text)
    tab.page.get_by_text("Only picture files can be searched with.").wait_for()
    press(tab, "Back to the map")
    tab.page.locator("#legend-list button").first.wait_for()
    assert tab.page.locator("#search").is_hidden()


@pytest.mark.parametrize(
    ("status", "code", "names"),
    [
        (413, "too_large", ["Choose another picture", "Back to the collection"]),
        (408, "slow", ["Try again", "Choose another picture"]),
        (503, "busy", ["Try again"]),
        (503, "index_unusable", ["Try again"]),
        (500, "internal", ["Try again", "Back to the collection"]),
    ],
)
def test_an_upload_that_is_rejected(tab, photo, status, code, names):
    tab.wait_for_results()
    answer_with(tab, "**/v1/search/image*", status, code, "A sentence of the service.", times=1)
    tab.page.set_input_files("#file", photo)
    tab.page.get_by_text("A sentence of the service.").wait_for()
    assert buttons(tab) == names
    press(tab, names[-1] if names[-1].startswith("Back") else "Try again")
    tab.wait_for_results("From the collection" if names[-1].startswith("Back") else "12 results")


def test_a_proxy_that_takes_no_large_bodies(tab, photo):
    tab.wait_for_results()
    tab.page.route("**/v1/search/image*", lambda route: route.fulfill(status=413, body="<html>413</html>"))
    tab.page.set_input_files("#file", photo)
    tab.page.get_by_text("The picture is larger than may be sent.").wait_for()
    assert buttons(tab)[0] == "Choose another picture"


@pytest.mark.parametrize(
    ("address", "message", "names", "leads_to"),
    [
        ("?item=99", "The index does not contain the id 99. It may have been removed.", ["Back to the collection"], ""),
        (
            "?item=3&label=plum",
            "No item has the label 'plum'.",
            ["Remove the filter", "Back to the collection"],
            "?item=3",
        ),
        ("?label=plum", "No item has the label 'plum'.", ["Remove the filter", "Back to the collection"], ""),
        ("?item=3&k=5000", "k may be at most 1000", ["Use the usual settings", "Back to the collection"], "?item=3"),
        ("?code=ffffffff", "A code of 13 bits is 4 hexadecimal digits", ["Back to the collection"], ""),
        ("?item=3&radius=0", "No other item is within 0 bits.", ["Search at any distance"], "?item=3"),
        (
            "?item=3&radius=0&label=pear",
            "No other item with these labels is within 0 bits.",
            ["Search at any distance", "Remove the filter"],
            "?item=3&label=pear",
        ),
    ],
)
def test_an_address_without_results_offers_what_helps(tab, address, message, names, leads_to):
    tab.go(f"/{address}")
    tab.page.locator("#message").get_by_text(message).wait_for()
    assert buttons(tab) == names
    press(tab, names[0])
    tab.wait_for_results()
    assert tab.query() == leads_to
    assert tab.is_focused("#results")  # the button that had the focus is gone


def test_a_collection_that_is_emptied_and_filled_again(open_tab, shop, tmp_path):
    model = Hasher.load(shop / "model").fingerprint()
    codes = Codes.from_signs(np.random.default_rng(0).random((1, BITS)) < 0.5)
    save_index(tmp_path / "a.index", codes, model, np.array([0]), ["pear"])
    auth = {"authorization": f"Bearer {TOKEN}"}
    with hosted(Settings(f"{shop}/model", f"{tmp_path}/a.index", token=TOKEN)) as running:
        tab = open_tab(running.url, "/?item=0")
        tab.page.get_by_text("This is the only item of the collection.").wait_for()
        assert buttons(tab) == ["Back to the collection"]
        running.http.delete("/v1/items/0", headers=auth)
        press(tab, "Back to the collection")
        tab.page.locator("#message").get_by_text("This collection is empty").wait_for()
        assert tab.page.locator("#facts").inner_text().startswith("0 items")
        tab.page.click("#to-map")
        tab.page.locator("#map").get_by_text("This collection is empty").wait_for()
        added = {"items": [{"code": "0000", "name": "x", "labels": ["plum"]}]}
        assert running.http.post("/v1/items", json=added, headers=auth).status_code == 201
        tab.page.locator("#map").get_by_role("button", name="Try again").click()
        tab.page.locator("#legend-list button", has_text="plum").wait_for()
        tab.page.click("#to-search")
        tab.wait_for_results("From the collection")
        assert tab.page.locator("#facts").inner_text().startswith("1 item ")
        tab.page.get_by_role("checkbox", name="plum").wait_for()
        running.http.delete("/v1/items/0", headers=auth)
        tab.page.get_by_role("checkbox", name="plum").click()
        tab.page.get_by_text("There is no item with these labels.").wait_for()
        assert buttons(tab) == ["Remove the filter"]


def test_items_that_cannot_be_listed_can_be_searched_for(open_tab, site, photo):
    tab = open_tab(site.url, "/docs")
    answer_with(tab, "**/v1/sample*", 404, "no_overview", "The ids of this collection are not known.")
    answer_with(tab, "**/v1/map", 404, "no_overview", "The ids of this collection are not known.")
    tab.go("/")
    tab.page.get_by_text("Searching works all the same.").wait_for()
    tab.page.click("#to-map")
    tab.page.locator("#map").get_by_role("button", name="Back to the search").click()
    tab.page.locator("#message").get_by_text("The items cannot be listed").wait_for()
    tab.page.set_input_files("#file", photo)
    tab.wait_for_results("12 results")


def test_a_picture_that_is_given_before_the_page_is_loaded_waits_for_it(open_tab, site, photo):
    tab = open_tab(site.url, "/docs")
    held = []
    tab.page.route("**/v1/info", lambda route: held.append(route) if not held else route.continue_())
    tab.go("/")
    tab.page.locator("#results[aria-busy=true]").wait_for()
    tab.page.set_input_files("#file", photo)
    tab.wait_for_results("12 results")


def test_a_page_that_cannot_be_loaded_is_loaded_when_the_service_answers(open_tab, site):
    tab = open_tab(site.url, "/docs")
    tab.page.route("**/v1/info", lambda route: route.abort(), times=1)
    tab.go("/?item=3")
    tab.page.get_by_text("The service does not answer. This page tries again by itself.").wait_for()
    tab.page.click("#by-code-title")
    tab.page.fill("#code-text", "0000")
    tab.page.press("#code-text", "Enter")
    tab.wait_for_results("11 results")


def test_a_map_without_a_connection_comes_when_there_is_one(tab):
    tab.wait_for_results()
    tab.context.set_offline(True)
    tab.page.click("#to-map")
    tab.page.locator("#map").get_by_text("This device is offline. This page tries again by itself.").wait_for()
    tab.context.set_offline(False)
    tab.page.locator("#legend-list button").first.wait_for()
    assert tab.page.locator("#map-message").inner_text() == ""


def test_a_model_of_embeddings_takes_no_pictures_and_says_so(open_tab, tmp_path, photo):
    hasher = save_model(tmp_path / "model", 5)
    save_index(tmp_path / "a.index", hasher.encode(some_vectors(9)), hasher.fingerprint(), np.full(9, -1), [])
    with hosted(Settings(f"{tmp_path}/model", f"{tmp_path}/a.index")) as running:
        tab = open_tab(running.url)
        tab.wait_for_results()
        tab.give("drop", photo)
        tab.page.get_by_text("This collection is searched with embeddings or codes.").wait_for()
        press(tab, "Back to the collection")
        tab.wait_for_results("From the collection")


def test_without_a_camera_a_file_can_be_chosen(open_tab, site):
    tab = open_tab(site.url, "/docs")
    tab.page.on("filechooser", lambda chooser: None)
    tab.page.add_init_script("navigator.mediaDevices.getUserMedia = () => Promise.reject(new Error('none'))")
    tab.go("/")
    tab.wait_for_results()
    tab.page.click("#photograph")
    tab.page.get_by_text("No camera can be used").wait_for()
    with tab.page.expect_file_chooser():
        tab.page.click("#camera-choose")
    assert tab.page.locator("#camera-dialog").is_hidden()


@pytest.mark.skipif(not features.check("avif"), reason="this Pillow writes no AVIF")
def test_a_picture_that_only_the_browser_can_read_is_sent_as_one_that_the_service_can(tab, tmp_path):
    with Image.open(io.BytesIO(picture(3))) as image:
        image.save(tmp_path / "photo.avif")
    tab.wait_for_results()
    tab.page.set_input_files("#file", tmp_path / "photo.avif")
    tab.wait_for_results("12 results")


def test_an_index_file_that_is_emptied_leaves_a_search_by_code_empty(open_tab, shop, tmp_path):
    metadata = {"model": Hasher.load(shop / "model").fingerprint()}
    empty = Codes(np.zeros((0, 2), np.uint8), BITS, np.zeros(0, np.int64), metadata)
    HammingIndex(empty).save(tmp_path / "empty.index")
    with hosted(Settings(f"{shop}/model", f"{tmp_path}/empty.index")) as running:
        tab = open_tab(running.url, "/?code=0000")
        tab.page.get_by_text("Items that are added to the index appear here.").wait_for()
        assert buttons(tab) == ["Try again"]

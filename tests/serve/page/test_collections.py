"""The page on other collections: of embeddings, without pictures or labels, with large ids, with nothing in it."""

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.model.hasher import Hasher
from scdh.serve.settings import Settings
from tests.serve.conftest import BITS, save_index, save_model, some_vectors
from tests.serve.hosted import hosted

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


def test_an_empty_collection(open_tab, shop, tmp_path):
    metadata = {"model": Hasher.load(shop / "model").fingerprint()}
    empty = Codes(np.zeros((0, 2), np.uint8), BITS, np.zeros(0, np.int64), metadata)
    HammingIndex(empty).save(tmp_path / "empty.index")
    with hosted(Settings(f"{shop}/model", f"{tmp_path}/empty.index")) as running:
        tab = open_tab(running.url)
        tab.page.get_by_text("This collection is empty").wait_for()
        tab.page.click("#to-map")
        tab.page.locator("#map").get_by_text("This collection is empty").wait_for()

"""Ranking by outputs on the page: offered for uploads, kept in the address, reported where it is impossible."""

import numpy as np
import pytest

from scdh.codes import Codes
from scdh.index import HammingIndex
from scdh.model.hasher import Hasher
from scdh.serve.settings import Settings
from tests.serve.conftest import BITS, picture, save_index, save_model, save_own_distance, some_vectors
from tests.serve.hosted import hosted


@pytest.fixture(scope="module")
def other_photo(tmp_path_factory):
    """A picture that is not in the collection."""
    path = tmp_path_factory.mktemp("rank") / "other.png"
    path.write_bytes(picture(77))
    return path


def expected_hits(site, path, **question):
    answer = site.http.post("/v1/search/image", params={"k": 24, **question}, files={"image": path.read_bytes()})
    return answer.json()["results"][0]["hits"]


def real_distances(tab):
    return [float(text) for text in tab.page.locator("#grid .distance b").all_inner_texts()]


def search_by_outputs(tab, file):
    tab.wait_for_results()
    tab.page.set_input_files("#file", file)
    tab.wait_for_results("12 results")
    tab.page.select_option("#rank", "outputs")
    tab.page.wait_for_url("**rank=outputs")
    tab.page.locator("#results-note", has_text="by outputs").wait_for()
    tab.wait_for_results("12 results")


def test_an_upload_can_be_ranked_by_outputs_and_back(tab, site, other_photo):
    assert tab.page.locator("#rank-control").is_hidden()
    search_by_outputs(tab, other_photo)
    expected = expected_hits(site, other_photo, rank="outputs")
    assert tab.ids() == [hit["id"] for hit in expected]
    assert real_distances(tab) == pytest.approx([hit["distance"] for hit in expected], abs=0.06)
    assert tab.ids() != [hit["id"] for hit in expected_hits(site, other_photo)]
    texts = tab.page.locator("#grid .distance").all_inner_texts()
    assert not any("bit" in text for text in texts)
    assert len({len(text.partition(".")[2]) for text in texts}) == 1  # as many digits on every card
    assert tab.page.locator("#radius-control").is_hidden()
    said = [strip.get_attribute("aria-label") for strip in tab.page.locator("#grid .strip").all()]
    assert all(text.endswith(f"of {BITS} bits differ") for text in said)
    # Other settings keep the ranking, and what was uploaded.
    tab.page.select_option("#k", "12")
    tab.page.wait_for_url("**k=12&rank=outputs")
    tab.page.get_by_role("checkbox", name="pear").check()
    tab.wait_for_results("6 results")
    assert tab.ids() == [hit["id"] for hit in expected_hits(site, other_photo, rank="outputs", label="pear")]
    assert tab.page.locator(".query-name").inner_text() == "other.png"
    tab.page.get_by_role("button", name="Clear the filter").click()
    tab.wait_for_results("12 results")
    tab.page.select_option("#rank", "bits")
    tab.page.locator("#results-note", has_text="bits away").wait_for()
    assert "rank" not in tab.query()
    assert tab.page.locator("#radius-control").is_visible()
    tab.page.go_back()
    tab.page.locator("#results-note", has_text="by outputs").wait_for()
    assert tab.page.locator("#rank").input_value() == "outputs"


def test_a_radius_and_outputs_exclude_each_other(tab, photo):
    tab.wait_for_results()
    tab.page.set_input_files("#file", photo)
    tab.wait_for_results("12 results")
    tab.page.check("#use-radius")
    tab.page.wait_for_url("**radius=*")
    assert tab.page.locator("#rank-control").is_hidden()
    tab.go(f"/{tab.query()}&rank=outputs")
    tab.page.locator("#results:not([aria-busy])").wait_for()
    assert "outputs" not in tab.page.locator("#results-note").inner_text()


def test_a_result_of_it_is_searched_from_by_bits(tab, other_photo):
    search_by_outputs(tab, other_photo)
    tab.page.locator("#grid .card").first.click()
    tab.wait_for_results("11 results")
    assert "rank" not in tab.query()
    assert tab.page.locator("#rank-control").is_hidden()
    tab.page.go_back()
    tab.page.locator("#results-note", has_text="by outputs").wait_for()


def test_the_next_upload_is_ranked_alike(tab, site, photo, other_photo):
    search_by_outputs(tab, other_photo)
    tab.page.set_input_files("#file", photo)
    tab.page.locator(".query-name", has_text=photo.name).wait_for()
    tab.page.locator("#results:not([aria-busy]) .strip").first.wait_for()
    assert "rank=outputs" in tab.query()
    assert tab.ids() == [hit["id"] for hit in expected_hits(site, photo, rank="outputs")]


def test_an_address_without_its_picture_is_ranked_by_bits_and_says_so(tab, open_tab, site, other_photo):
    search_by_outputs(tab, other_photo)
    other = open_tab(site.url, f"/{tab.query()}")
    other.wait_for_results("12 results")
    assert "by bits, as an address does not hold the picture" in other.page.locator("#results-note").inner_text()
    assert other.page.locator("#rank-control").is_hidden()
    by_bits = sorted(expected_hits(site, other_photo), key=lambda hit: (hit["distance"], hit["id"]))
    assert other.ids() == [hit["id"] for hit in by_bits]
    tab.page.reload()  # the picture of the history is shown, but its file is gone
    tab.wait_for_results("12 results")
    assert "by bits" in tab.page.locator("#results-note").inner_text()


def test_an_embedding_can_be_ranked_by_outputs(open_tab, tmp_path):
    hasher: Hasher = save_model(tmp_path / "model", 5)
    save_index(tmp_path / "own.index", hasher.encode(some_vectors(9)), hasher.fingerprint(), np.full(9, -1), [])
    vector = np.random.default_rng(3).normal(size=5).astype(np.float32)
    with hosted(Settings(f"{tmp_path}/model", f"{tmp_path}/own.index")) as running:
        tab = open_tab(running.url)
        tab.wait_for_results()
        tab.page.fill("#code-text", " ".join(map(str, vector.tolist())))
        tab.page.press("#code-text", "Enter")
        tab.wait_for_results("9 results")
        tab.page.select_option("#rank", "outputs")
        tab.page.locator("#results-note", has_text="by outputs").wait_for()
        codes, u = hasher.encode(vector[None], outputs=True)
        expected = HammingIndex.load(tmp_path / "own.index").search(Codes(codes.packed, BITS), 9, weights=np.abs(u))
        assert tab.ids() == expected.ids[0].tolist()


@pytest.mark.parametrize("name", ["dqn", "cls_onehot"])
def test_a_distance_of_the_methods_own_has_neither_radius_nor_rank(open_tab, tmp_path, name):
    hasher, codes = save_own_distance(tmp_path, name, 30)
    vector = np.random.default_rng(3).normal(size=5).astype(np.float32)
    u = hasher.hash_outputs(vector[None])
    index = HammingIndex(codes)
    with hosted(Settings(f"{tmp_path}/model", f"{tmp_path}/own.index")) as running:
        tab = open_tab(running.url)
        tab.wait_for_results()
        tab.page.fill("#code-text", " ".join(map(str, vector.tolist())))
        tab.page.press("#code-text", "Enter")
        tab.wait_for_results("24 results")
        tab.page.locator("#results-note", has_text=f"by {hasher.method.ranking}").wait_for()
        expected = index.search(codes[:1], 24, byte_tables=hasher.distance_tables(u))
        assert tab.ids() == expected.ids[0].tolist()
        assert real_distances(tab) == pytest.approx(expected.distances[0].tolist(), abs=0.006)
        for control in ("#rank-control", "#radius-control"):
            assert tab.page.locator(control).is_hidden()
        assert tab.page.locator("#grid .strip").first.get_attribute("aria-label") == f"Code of {codes.bits} bits"
        # Another setting still ranks by what was given, not by its code.
        tab.page.get_by_role("checkbox", name="odd").check()
        tab.wait_for_results("15 results")
        odd = index.search(codes[:1], 24, byte_tables=hasher.distance_tables(u), only=np.arange(1, 30, 2))
        assert tab.ids() == odd.ids[0].tolist()
        tab.page.get_by_role("button", name="Clear the filter").click()
        tab.wait_for_results("24 results")
        # An address has the code only, and says so; what counts bits is not taken from it.
        other = open_tab(running.url, f"/{tab.query()}&radius=2&rank=outputs")
        other.wait_for_results("24 results")
        assert "from the code alone" in other.page.locator("#results-note").inner_text()
        assert "from the code alone" not in tab.page.locator("#results-note").inner_text()
        # An item is looked up by what its code stands for.
        tab.page.locator("#grid .card").first.click()
        tab.page.locator(".query-kind", has_text="Similar to").wait_for()
        tab.wait_for_results("24 results")
        own = expected.ids[0, 0]
        code = index.codes_of([own])
        near = index.search(code, 25, byte_tables=hasher.distance_tables(code)).ids[0]
        assert tab.ids() == near[near != own][:24].tolist()

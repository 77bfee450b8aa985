"""Ties below a table of hits, the order of hits at one distance, and hits as a page with pictures."""

import json
from pathlib import Path

import numpy as np
import pytest

from scdh import Codes, HammingIndex
from scdh.cli import search_page
from scdh.cli.search_hits import SearchRequest
from scdh.cli.search_queries import SearchQueries
from scdh.data.row_names import RowNames
from tests.cli.commands import must, run, run_json
from tests.data.data_files import encoded, write_parquet, write_pictures
from tests.experiments.comparisons import Checked

SETTINGS = ("net.backbone=small_conv", "net.image_size=16", "train.workers=0", "data.query_per_class=2")
OPTIONS = ["--bits", "8", "--epochs", "1", *(part for setting in SETTINGS for part in ("--set", setting))]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with spaces and markup in its names: photos, a model, codes and an index."""
    folder = tmp_path_factory.mktemp("shop <b> ü")
    write_pictures(folder / "photos", [f"{kind}/{i} <i>.png" for kind in ("apple", "pear & co") for i in range(8)])
    must(["train", "--data", f"{folder}/photos", *OPTIONS, "--out", f"{folder}/run"])
    must(["encode", f"{folder}/run", f"{folder}/photos", "--workers", "0", "--out", f"{folder}/all.codes"])
    must(["index", f"{folder}/all.codes", "--out", f"{folder}/all.index"])
    return folder


@pytest.fixture
def tied(tmp_path):
    """Twelve items on three codes, without names."""
    bits = np.zeros((12, 6), np.uint8)
    bits[4:9, 0] = bits[9:, :2] = 1
    Codes.from_bits(bits).save(tmp_path / "tied.codes")
    must(f"index {tmp_path}/tied.codes --out {tmp_path}/tied.index")
    return tmp_path


def test_a_table_that_ends_within_a_tie_says_so(tied):
    index = f"{tied}/tied.index"
    assert "5 items are at distance 1, shown by id; 4 more at the same distance are not shown." in must(
        f"search {index} --row 0 -k 4"
    )
    assert "not shown" not in must(f"search {index} --row 0 -k 3")  # three others on the same code, all shown
    # The query itself is left out, so it is not counted.
    assert "3 items are at distance 0, shown by id; 1 more" in must(f"search {index} --row 0 -k 2")
    assert "not shown" not in must(f"search {index} --row 0 --radius 1")
    assert "8 items" not in must(f"search {index} --row 0 --radius 1 -k 4")
    assert "4 more at the same distance" in must(f"search {index} --row 0 --radius 1 -k 4")
    assert "not shown" not in must(f"search {index} --row 0 -k 100")


def test_only_items_with_a_label_count_as_tied(tied):
    names = RowNames(np.arange(12), [f"n{i}" for i in range(12)], np.arange(12) % 2, ["even", "odd"])
    names.save(tied / "tied.index")
    text = must(f"search {tied}/tied.index --row 0 --label odd -k 1")
    assert "2 items are at distance 0, shown by id; 1 more at the same distance is not shown." in text


def test_every_query_has_its_own_note(tied):
    text = must(f"search {tied}/tied.index --codes {tied}/tied.codes -k 2")
    assert text.count("not shown.") == 12


def test_hits_are_pictures_with_names_labels_and_distances(shop, tmp_path):
    page = tmp_path / "a b" / "hits.html"
    out = must(["search", f"{shop}/all.index", "--row", "3", "-k", "4", "--html", str(page)])
    assert str(page) in out
    checked = Checked(page.read_text("utf-8"))
    assert len(checked.pictures) == 5  # the query and four hits
    assert "bits away · " in checked.text or "bit away · " in checked.text
    assert "<i>.png" in checked.text
    assert "<i>.png" not in page.read_text("utf-8")
    assert "pear & co" in checked.text or "apple" in checked.text
    assert "✓" in checked.text or "✗" in checked.text
    content = run_json(["search", f"{shop}/all.index", "--row", "3", "-k", "4", "--html", str(page), "--json"])
    assert content["html"] == str(page)
    assert len(content["queries"][0]["hits"]) == 4


def test_queries_may_be_codes_or_photos(shop, tmp_path):
    page = tmp_path / "hits.html"
    must(["search", f"{shop}/all.index", "--codes", f"{shop}/all.codes", "-k", "2", "--html", str(page)])
    assert len(Checked(page.read_text("utf-8")).pictures) == 16 * 3
    photo = f"{shop}/photos/apple/0 <i>.png"
    must(["search", f"{shop}/all.index", "--model", f"{shop}/run", photo, "-k", "2", "--html", str(page)])
    assert len(Checked(page.read_text("utf-8")).pictures) == 3
    assert "photos/<wbr>apple/<wbr>0 &lt;i&gt;.png</strong>" in page.read_text("utf-8")  # lines end after a folder


def test_items_without_pictures_are_shown_by_name(shop, tied, tmp_path, work):
    page = tmp_path / "hits.html"
    must(f"search {tied}/tied.index --row 0 --html {page}")
    checked = Checked(page.read_text("utf-8"))
    assert checked.pictures == []
    assert "Items are shown by name" in checked.text
    assert checked.text.count("id 5 ") == 1  # not once more below its box
    assert 'class="strip texts"' in page.read_text("utf-8")  # wider columns than for pictures
    must(f"search {work}/digits.index --row 0 --html {page}")
    assert "digits row" in Checked(page.read_text("utf-8")).text
    must(f"search {work}/digits.index --row 0 --html {page} --radius 0")
    Checked(page.read_text("utf-8"))


@pytest.mark.slow
def test_rows_of_a_table_get_their_pictures_from_the_data(tmp_path):
    images = [{"bytes": encoded(i), "path": None} for i in range(12)]
    write_parquet(tmp_path / "shop.parquet", {"image": images, "label": [f"k{i % 2}" for i in range(12)]})
    write_parquet(tmp_path / "few.parquet", {"image": images[:2], "label": ["k0", "k1"]})
    must(["train", "--data", f"{tmp_path}/shop.parquet", *OPTIONS, "--out", f"{tmp_path}/run"])
    must(f"encode {tmp_path}/run {tmp_path}/shop.parquet --workers 0 --out {tmp_path}/shop.codes")
    must(f"index {tmp_path}/shop.codes --out {tmp_path}/shop.index")
    page, common = tmp_path / "hits.html", f"search {tmp_path}/shop.index --row 7 -k 3 --html {tmp_path}/hits.html"
    must(common)
    assert Checked(page.read_text("utf-8")).pictures == []
    must(f"{common} --data {tmp_path}/shop.parquet")
    assert len(Checked(page.read_text("utf-8")).pictures) == 4
    code, _, message = run(f"{common} --data {tmp_path}/few.parquet")
    assert (code, message.count("\n")) == (2, 1)
    assert "few.parquet does not hold the items of" in message


def test_a_page_of_very_many_queries_shows_the_first(tied, tmp_path, monkeypatch):
    monkeypatch.setattr(search_page, "MOST_QUERIES", 3)
    monkeypatch.setattr(search_page, "MOST_HITS", 4)
    page = tmp_path / "hits.html"
    must(f"search {tied}/tied.index --codes {tied}/tied.codes -k 6 --html {page}")
    text = Checked(page.read_text("utf-8")).text
    assert "Only the first 3 queries are shown" in text
    assert text.count("2 more hits are not shown.") == 3


def test_options_that_cannot_work_are_rejected_first(tied, tmp_path):
    code, _, message = run(f"search {tied}/tied.index --row 0 --row 1")
    assert (code, "--row takes one item, got '0' and '1'" in message) == (2, True)
    code, _, message = run(f"search {tied}/tied.index --row 0 --data digits")
    assert (code, "--data is for the pictures of --html" in message) == (2, True)
    code, _, message = run(f"search {tied}/tied.index --row 0 --html {tmp_path}")
    assert (code, "is a folder" in message) == (2, True)
    assert not list(Path(tmp_path).glob("*.html"))
    assert json.loads(must(f"search {tied}/tied.index --row 0 --json"))["items"] == 12


BITS = [[0, 0, 0, 0]] * 4 + [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
NAMES = RowNames(np.arange(8), [f"{name}.jpg" for name in "abcdefgh"], np.full(8, -1), [])


def ids_of(k: int, queries: SearchQueries, **options: object) -> list[int]:
    index = HammingIndex(Codes.from_bits(BITS))
    request = SearchRequest(index, k, **{"radius": None, "allowed": None, "left_out": None, **options})
    return next(ids.tolist() for ids, _ in request.find(queries))


@pytest.fixture
def query() -> Codes:
    return Codes.from_bits([[0, 0, 0, 0]])


def test_the_query_s_own_item_comes_first(query):
    assert ids_of(2, SearchQueries(query, ["d.jpg"])) == [0, 1]
    assert ids_of(2, SearchQueries(query, ["d.jpg"], items=NAMES)) == [3, 0]
    assert ids_of(3, SearchQueries(query, ["c.jpg"], items=NAMES), radius=0) == [2, 0, 1]


def test_a_name_alone_does_not_make_an_item_the_query(query):
    """h.jpg has another code, so it is another picture; a filter leaves out d.jpg; x.jpg is not in the index."""
    assert ids_of(2, SearchQueries(query, ["h.jpg"], items=NAMES)) == [0, 1]
    assert ids_of(2, SearchQueries(query, ["d.jpg"], items=NAMES), allowed=np.array([0, 1, 5])) == [0, 1]
    assert ids_of(2, SearchQueries(query, ["x.jpg"], items=NAMES)) == [0, 1]


def test_outputs_order_items_at_the_same_distance_also_at_the_end_of_the_list(query):
    weights = np.array([[0.9, 0.2, 0.5, 0.1]])
    queries = SearchQueries(query, ["x.jpg"], tie_weights=weights)
    assert ids_of(6, queries) == [0, 1, 2, 3, 7, 5]
    assert ids_of(8, queries) == [0, 1, 2, 3, 7, 5, 6, 4]
    assert ids_of(6, queries, radius=1) == [0, 1, 2, 3, 7, 5]
    assert queries.tie_order == "the query's real outputs"

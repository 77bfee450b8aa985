"""Charts of pages: well-formed SVG, texts as they are, any numbers."""

import math
import re
import warnings
from xml.etree import ElementTree

import numpy as np
import pytest

from scdh.experiments.pages.charts import LONGEST_NAME, Line, bar_chart, heat_map, line_chart
from scdh.experiments.pages.labels import label_text, short_names

pytest.importorskip("matplotlib")

HOSTILE = '<script>alert("x")</script> & "quotes"'


def texts_of(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("text")]


def tips_of(svg):
    return [element.text for element in ElementTree.fromstring(svg).iter("title")][1:]  # the first is the chart's


def test_lines_keep_their_points_and_texts_are_escaped():
    lines = [
        Line(HOSTILE, [1, 10, 100], [0.0, 0.5, 1.0], "#123456"),
        Line("b", [1, 100], [math.nan, 0.2], "#654321", "--"),
    ]
    svg = line_chart(HOSTILE, lines, x_label="k", y_label="$y", log_x=True, y_range=(0, 1))
    assert "<script>" not in svg
    assert {HOSTILE, "b", "k", "$y", "1", "10", "100"} <= set(texts_of(svg))
    paths = [element for element in ElementTree.fromstring(svg).iter("path") if "#123456" in element.get("style", "")]
    xs = [float(x) for x in re.findall(r"[ML] ([\d.]+)", paths[0].get("d"))]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)  # powers of ten are equally far apart
    uses = [element.get("style") for element in ElementTree.fromstring(svg).iter("use")]
    assert any("#654321" in style for style in uses)  # the marker of a line of one point


def test_colours_come_from_the_page():
    svg = heat_map("t", np.eye(2), ["a", "b"]) + bar_chart("t", [0.5], x_label="x", y_label="y", marked=0.5)
    assert {"currentColor", "var(--right)", "var(--wrong)", "var(--faint)"} <= set(re.findall(r"[\w()-]+", svg))
    assert not re.findall(r"#0[147a]0[258b]0[369c]|font-family|<g id=", svg)


@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0], [0.0, 0.0], [1e-9, 1e9], [-5.0, 5.0]])
def test_any_numbers_can_be_drawn(values):
    svg = line_chart("t", [Line("a", list(range(1, len(values) + 1)), values)], x_label="x", y_label="y")
    assert "nan" not in svg
    ElementTree.fromstring(svg)
    ElementTree.fromstring(bar_chart("t", [abs(value) for value in values], x_label="x", y_label="y"))


def test_nothing_to_draw_is_an_empty_text():
    assert line_chart("t", [Line("a", [1.0], [math.nan])], x_label="x", y_label="y") == ""
    assert bar_chart("t", [], x_label="x", y_label="y") == ""


@pytest.mark.parametrize("count", [1, 2, 48, 1000])
def test_bars_of_any_number_have_few_ticks(count):
    svg = bar_chart("t", [0.5] * count, x_label="bit", y_label="y", y_range=(0, 1), marked=0.5)
    assert tips_of(svg) == [f"{number}: 0.5" for number in range(1, count + 1)]
    assert len(texts_of(svg)) < 30


def test_heat_map_names_every_cell():
    names = ["a", HOSTILE, "column=a very long value of it, and more of it"]
    svg = heat_map("t", np.eye(3), names)
    assert len(tips_of(svg)) == 9
    assert tips_of(svg)[1] == f"a → {HOSTILE}: 0.0 %"
    assert any(
        text.startswith("…") and text.endswith("value of it, and more of it") and len(text) == LONGEST_NAME
        for text in texts_of(svg)
    )


def test_letters_that_the_fonts_here_lack_give_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "橘子" in texts_of(heat_map("t", np.eye(2), ["橘子", "梨"]))


def test_labels_of_columns_are_shown_by_value():
    assert short_names(["kind=pear", "sort=Anjou", "kind=x", "sort=x"]) == ["pear", "Anjou", "kind=x", "sort=x"]
    assert short_names(["a=b", "plain"]) == ["a=b", "plain"]
    assert label_text([]) == ""
    assert label_text(["kind=orange", "sort=orange"]) == "orange"

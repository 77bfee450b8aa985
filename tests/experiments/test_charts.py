"""Charts drawn without a plotting library: well-formed SVG, escaped texts, any numbers."""

import math
from xml.etree import ElementTree

import numpy as np
import pytest

from scdh.experiments.pages.charts import Line, bar_chart, heat_map, line_chart, nice_ticks
from scdh.experiments.pages.labels import label_text, short_names

HOSTILE = '<script>alert("x")</script> & "quotes"'


def points_of(svg):
    root = ElementTree.fromstring(svg)
    return [element.get("points").split() for element in root.iter("polyline")]


def test_lines_keep_their_points_and_texts_are_escaped():
    lines = [Line(HOSTILE, [1, 10, 100], [0.0, 0.5, 1.0]), Line("b", [1, 100], [math.nan, 0.2], dashed=True)]
    svg = line_chart(HOSTILE, lines, x_label="k", y_label=HOSTILE, log_x=True, y_range=(0, 1))
    assert "<script>" not in svg
    (first,) = points_of(svg)
    xs = [float(point.split(",")[0]) for point in first]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)  # powers of ten are equally far apart
    assert ElementTree.fromstring(svg).find("circle") is not None  # a line of one point


@pytest.mark.parametrize("values", [[3.0], [2.0, 2.0], [0.0, 0.0], [1e-9, 1e9], [-5.0, 5.0]])
def test_any_numbers_can_be_drawn(values):
    svg = line_chart("t", [Line("a", list(range(1, len(values) + 1)), values)], x_label="x", y_label="y")
    assert "nan" not in svg
    ElementTree.fromstring(svg)
    ElementTree.fromstring(bar_chart("t", [abs(value) for value in values], x_label="x", y_label="y"))


def test_nothing_to_draw_is_an_empty_text():
    assert line_chart("t", [Line("a", [1.0], [math.nan])], x_label="x", y_label="y") == ""
    assert bar_chart("t", [], x_label="x", y_label="y") == ""


@pytest.mark.parametrize("count", [1, 2, 48, 1000, 5000])
def test_bars_of_any_number_have_few_ticks(count):
    root = ElementTree.fromstring(bar_chart("t", [0.5] * count, x_label="bit", y_label="y", y_range=(0, 1), marked=0.5))
    assert len(list(root.iter("rect"))) == count
    assert len(list(root.iter("text"))) < 35


def test_heat_map_names_every_cell():
    names = ["a", HOSTILE, "column=a very long value of it"]
    root = ElementTree.fromstring(heat_map("t", np.eye(3), names))
    cells = list(root.iter("rect"))
    assert len(cells) == 9
    assert cells[1].find("title").text == f"a → {HOSTILE}: 0.0 %"
    texts = [text.text for text in root.iter("text")]
    assert "…long value of it"[-10:] in next(text for text in texts if text.startswith("…"))


def test_ticks_are_round_numbers():
    assert nice_ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert nice_ticks(3, 61) == [10, 20, 30, 40, 50, 60]
    assert nice_ticks(0.31, 0.32) == pytest.approx([0.31, 0.312, 0.314, 0.316, 0.318, 0.32])


def test_labels_of_columns_are_shown_by_value():
    assert short_names(["kind=pear", "sort=Anjou", "kind=x", "sort=x"]) == ["pear", "Anjou", "kind=x", "sort=x"]
    assert short_names(["a=b", "plain"]) == ["a=b", "plain"]
    assert label_text([]) == ""
    assert label_text(["kind=orange", "sort=orange"]) == "orange"

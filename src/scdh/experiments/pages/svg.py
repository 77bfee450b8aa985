"""Figures as SVG text, for HTML pages and for files: one style, one set of colours.

Figures have no background, and their text colour becomes ``currentColor``, so they follow the light and the dark
colours of their page. matplotlib is imported when the first figure is drawn.
"""

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any

# Placeholders while matplotlib draws: it does not know the colours of a page by name.
TEXT_COLOUR = "#010203"
GRID_COLOUR = "#040506"
RIGHT_COLOUR, WRONG_COLOUR = "#070809", "#0a0b0c"
_PAGE_COLOURS = {
    TEXT_COLOUR: "currentColor",
    GRID_COLOUR: "var(--faint)",
    RIGHT_COLOUR: "var(--right)",
    WRONG_COLOUR: "var(--wrong)",
}
COLOURS = (
    *("#2f7de1", "#e08a1e", "#35a853", "#d64545", "#9b5de5", "#9c6b4f", "#e377c2"),
    *("#7a8290", "#b5b52a", "#17a9c0", "#6fa8ff", "#f2b366", "#7ccf93", "#f08f8f"),
)
MARKERS = "osD^v"
FIGURE_SIZE = (5.6, 4.0)
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "scdh",
    "font.size": 10.5,
    "text.parse_math": False,  # names of users may contain dollar signs
    "text.color": TEXT_COLOUR,
    "axes.labelcolor": TEXT_COLOUR,
    "axes.edgecolor": GRID_COLOUR,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID_COLOUR,
    "grid.linewidth": 0.5,
    "xtick.color": TEXT_COLOUR,
    "ytick.color": TEXT_COLOUR,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
}


@contextmanager
def figure_axes(size: tuple[float, float] = FIGURE_SIZE) -> Iterator[tuple[Any, Any]]:
    """Yield a matplotlib figure of ``size`` inches and its only axes, in the style of all pages."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    # Made without pyplot, so that no state is left behind in a notebook or a test.
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, figure.add_subplot()


def to_svg(figure: Any, title: str, tips: Mapping[str, str] | None = None) -> str:
    """SVG text to put into an HTML page.

    Args:
        figure: matplotlib figure made by :func:`figure_axes`.
        title: text for screen readers; escaped here.
        tips: texts to show on hover, by the gid of an artist; escaped here.

    Returns:
        An ``<svg>`` element without size, fonts and XML namespaces: the page decides these.
    """
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # The reader's fonts draw the texts, so it does not matter which letters the fonts here have.
        warnings.filterwarnings("ignore", message="Glyph")
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", lambda _: f"<title>{escape(title)}</title>", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"| width="[\d.]+pt"| height="[\d.]+pt"', "", text).replace("xlink:href", "href")
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r">\s+<", "><", text)
    for placeholder, colour in _PAGE_COLOURS.items():
        text = text.replace(placeholder, colour)
    # Without the ids of groups, which repeat in the next figure of a page.
    text = re.sub(r'<g id="([^"]*)"([^>]*>)', lambda match: f"<g{match[2]}{_tip((tips or {}).get(match[1]))}", text)
    return text.replace("<svg", '<svg role="img"', 1)


def svg_file(svg: str) -> str:
    """The content of an ``.svg`` file with the figure of :func:`to_svg`: black on white in every viewer."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" style="background: #fff; color: #1d2129; font-family: sans-serif"'
    without_style = re.sub(r'^<svg style="[^"]*"', "<svg", svg)  # its width on a page; a second style would be an error
    return without_style.replace("<svg", head, 1).replace("var(--faint)", "#d9d9d6")


def _tip(text: str | None) -> str:
    return "" if text is None else f"<title>{escape(text)}</title>"

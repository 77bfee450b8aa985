"""The demo's page: one HTML file with everything inside, so that it can be mailed and opened without a network."""

from collections.abc import Sequence

from scdh.experiments.demo.data import DemoData
from scdh.experiments.demo.figures import Figures, method_colour
from scdh.experiments.demo.neighbours import NEIGHBOURS, RULE, query_results
from scdh.experiments.demo.rankings import Ranking, longest_learned
from scdh.experiments.demo.results import DemoResults
from scdh.experiments.pages.template import load_template


def to_html(data: DemoData, rankings: Sequence[Ranking], results: DemoResults, figures: Figures) -> str:
    """The HTML text.

    Args:
        data: the data of the demo, for pictures of queries and their neighbours.
        rankings: as they were compared.
        results: every number on the page comes from here, or is counted from the neighbours.
        figures: as :func:`scdh.experiments.demo.figures.draw_figures` returns them.
    """
    _, longest, codes = longest_learned(rankings)
    rows = results.scores
    best = next(row for row in rows if (row.method, row.bits) == (longest.method, longest.bits))
    floats = next(row for row in rows if row.bits is None)
    queries = query_results(data, codes)
    template = load_template(
        "report.html", score=lambda value: "–" if value is None else f"{value:.3f}", colour=method_colour
    )
    return template.render(
        results=results,
        best=best,
        training_seconds=codes.seconds,
        floats=floats,
        rivals=[row for row in rows if row.bits == best.bits and row is not best],
        wins=best.map > floats.map,
        label_kind="fine label" if data.label_column is not None else "label",
        photos="photos" if data.source.kind == "images" else "digits",
        photo="photo" if data.source.kind == "images" else "digit",
        figures=figures,
        queries=queries,
        right_by_codes=sum(bool(hit.right) for query in queries for hit in query.by_codes),
        right_by_floats=sum(bool(hit.right) for query in queries for hit in query.by_floats),
        returned=sum(len(query.by_codes) for query in queries),
        neighbours=NEIGHBOURS,
        rule=RULE.format(len(queries), results.seed),
    )

"""The demo's page: one HTML file with everything inside, so that it can be mailed and opened without a network."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scdh.experiments.demo.data import DemoData
from scdh.experiments.demo.figures import bit_shares, map_of_items, method_colour, precision_curves, tsne
from scdh.experiments.demo.neighbours import NEIGHBOURS, RULE, query_results
from scdh.experiments.demo.rankings import Ranking, longest_learned
from scdh.experiments.demo.results import DemoResults
from scdh.experiments.pages.template import load_template
from scdh.progress import track

MAPPED = 700  # queries in the t-SNE maps: more dots hide each other


@dataclass(frozen=True)
class Figures:
    """SVG texts of the page's figures; ``before`` and ``after`` are t-SNE maps of ``mapped`` queries."""

    curves: str
    bits: str
    before: str
    after: str
    mapped: int


def draw_figures(data: DemoData, rankings: Sequence[Ranking]) -> Figures:
    """Draw the figures of the page.

    Args:
        data: the data of the demo.
        rankings: one line of the precision plot each; the longest learned codes have the other figures.
    """
    (longest, learned), seed = longest_learned(rankings), data.config.seed
    # Copies would only thicken dots.
    mapped = np.sort(np.random.default_rng(seed).permutation(data.distinct_queries)[:MAPPED])
    labels = data.query_labels[mapped]
    stages = [(data.query_features, "float features"), (learned.u, f"u of {longest.name}")]
    before, after = (
        map_of_items(tsne(vectors[mapped], seed), labels, data.label_names, f"t-SNE of queries by {name}")
        for vectors, name in track(stages, len(stages), "t-SNE", "pictures")
    )
    curves = precision_curves(rankings, len(data.protocol.database))
    return Figures(curves, bit_shares(longest), before, after, len(mapped))


def to_html(data: DemoData, rankings: Sequence[Ranking], results: DemoResults, figures: Figures) -> str:
    """The HTML text.

    Args:
        data: the data of the demo, for pictures of queries and their neighbours.
        rankings: as they were compared.
        results: every number on the page comes from here, or is counted from the neighbours.
        figures: as :func:`draw_figures` returns them.
    """
    longest, _ = longest_learned(rankings)
    rows = results.scores
    best = next(row for row in rows if (row.method, row.bits) == (longest.method, longest.bits))
    floats = next(row for row in rows if row.bits is None)
    queries = query_results(data, longest)
    template = load_template(
        "report.html", score=lambda value: "–" if value is None else f"{value:.3f}", colour=method_colour
    )
    return template.render(
        results=results,
        best=best,
        training_seconds=longest.cell.seconds,
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

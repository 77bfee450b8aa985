"""The demo's page: one HTML file with everything inside, so that it can be mailed and opened without a network."""

from typing import Any

import numpy as np

from scdh.experiments.demo.comparison import Comparison
from scdh.experiments.demo.figures import FLOATS, METHODS, bit_shares, map_of_items, precision_curves, tsne
from scdh.experiments.demo.neighbours import NEIGHBOURS, RULE, answers
from scdh.experiments.pages.template import load_template
from scdh.progress import track

MAPPED = 700  # queries in the t-SNE pictures: more dots hide each other


def figures(found: Comparison) -> dict[str, str]:
    """SVG texts by name."""
    learned, seed = found.longest(), found.config.seed
    assert learned.u is not None  # SCDH has real outputs
    # Copies would only thicken dots.
    shown = np.sort(np.random.default_rng(seed).permutation(found.distinct_queries)[:MAPPED])
    labels, names = found.query_labels[shown], found.label_names
    pictures = {"curves": precision_curves(found), "bits": bit_shares(learned)}
    stages = {"before": (found.query_features, "float features"), "after": (learned.u, f"u of {learned.name}")}
    for name, (vectors, words) in track(stages.items(), len(stages), "t-SNE", "pictures"):
        pictures[name] = map_of_items(tsne(vectors[shown], seed), labels, names, f"t-SNE of queries by {words}")
    pictures["mapped"] = f"{len(shown):,}"
    return pictures


def page(found: Comparison, summary: dict[str, Any], pictures: dict[str, str], commands: list[str]) -> str:
    """The HTML text; every number in it comes from ``summary`` or from ``found``."""
    learned = found.longest()
    rows = summary["scores"]
    best = next(r for r in rows if r["method"] == "SCDH" and r["bits"] == learned.bits)
    floats = next(r for r in rows if r["bits"] is None)
    rivals = [r for r in rows if r["bits"] == learned.bits and r is not best]
    shown = answers(found, learned, found.config.seed)
    made = load_template(
        "report.html",
        score=lambda value: "–" if value is None else f"{value:.3f}",
        colour=lambda method: METHODS.get(method, FLOATS),
    )
    return made.render(
        run=summary,
        rows=rows,
        best=best,
        floats=floats,
        rivals=rivals,
        wins=best["map"] > floats["map"],
        photos="photos" if found.source.kind == "images" else "digits",
        photo="photo" if found.source.kind == "images" else "digit",
        pictures=pictures,
        answers=shown,
        right_by_codes=sum(hit.right for answer in shown for hit in answer.by_codes),
        right_by_floats=sum(hit.right for answer in shown for hit in answer.by_floats),
        returned=sum(len(answer.by_codes) for answer in shown),
        neighbours=NEIGHBOURS,
        rule=RULE.format(len(shown), found.config.seed),
        commands=commands,
    )

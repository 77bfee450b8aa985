"""The figures of the paper, drawn again from our runs; each with its data as lines of a CSV file."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from scdh.experiments.compare.results import CellResult, ComparisonResults
from scdh.experiments.compare.summary import average
from scdh.experiments.reproduce.blocks import Block
from scdh.experiments.reproduce.claims import final_l_q
from scdh.experiments.reproduce.drawing import Curve, Panel, draw_clouds, draw_gradient, draw_map, draw_panels
from scdh.experiments.reproduce.run import Reproduced, cells_of, run_folder
from scdh.experiments.reproduce.tables import notes, title_on_data
from scdh.experiments.reproduce.toy import DIMENSIONS, ROWS, toy_example
from scdh.label_arrays import is_labelled
from scdh.methods.registry import method_class

VARIANTS = ("scdh", "scdh_s", "scdh_c")
SHOWN = ("scdh", "scdh_s", "scdh_c", "dsh", "dpsh", "ninh", "ssdh", "cls_lsh")  # more lines could not be distinguished
MAPPED, MEASURED = 500, 1000  # rows in a t-SNE map, and rows of whose pairs distances are taken
GREEK = {"alpha": "α", "lam": "λ", "mu": "μ"}


def toy_path(reproduced: Reproduced) -> Block | None:
    """Losses and λ as σ falls and d grows."""
    path = reproduced.kept("toy", [], toy_example)["path"]
    steps = list(range(len(path["d"])))
    names = {"triplet": "triplet loss", "relaxed": "relaxed triplet loss", "bound": "unary upper bound"}
    losses = Panel([Curve(text, steps, path[name]) for name, text in names.items()], "step", "loss per row")
    estimate = Panel([Curve("estimated λ", steps, path["lambda"])], "step", "estimated λ")
    columns = ["sigma", "d", "triplet", "relaxed", "bound", "lambda"]
    lines = [[f"{path[name][step]:.5g}" for name in columns] for step in steps]
    note = (
        f"Two Gaussian clusters in {DIMENSIONS} dimensions, {ROWS} rows, the same at every scale. With each step σ "
        f"falls (from {path['sigma'][0]:g} to {path['sigma'][-1]:g}) and the distance d of the centres grows (from "
        f"{path['d'][0]:g} to {path['d'][-1]:g}). The paper prints no numbers for this figure."
    )
    svg = draw_panels([losses, estimate], "Losses of the toy example and the estimated λ")
    return Block("toy_path", "Toy example: the triplet loss and its bounds", note, columns, lines, svg)


def toy_map(reproduced: Reproduced) -> Block | None:
    """λ over (σ, d)."""
    found = reproduced.kept("toy", [], toy_example)["map"]
    svg = draw_map(found["lambda"], found["d"], found["sigma"], ("d", "σ", "Estimated λ over σ and d"))
    lines = [
        [f"{sigma:.5g}", f"{d:.5g}", f"{value:.5g}"]
        for sigma, row in zip(found["sigma"], found["lambda"], strict=True)
        for d, value in zip(found["d"], row, strict=True)
    ]
    note = "The same clusters; the bound that can be proved has λ = 2."
    return Block("toy_map", "Toy example: estimated λ over (σ, d)", note, ["sigma", "d", "lambda"], lines, svg)


def gradient_field(reproduced: Reproduced) -> Block | None:
    """Steps against the gradient of l_q from points of the 3-norm circle."""
    import torch

    from scdh.losses import quantization_loss

    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False) + np.pi / 48
    circle = _unit_circle(angles, 3.0)
    u = torch.tensor(circle, requires_grad=True)
    (gradient,) = torch.autograd.grad(quantization_loss(u) * len(u), u)
    steps = -gradient.numpy()
    found = {"x": circle[:, 0], "y": circle[:, 1], "dx": steps[:, 0], "dy": steps[:, 1]}
    field = {name: values.tolist() for name, values in found.items()}
    around = np.linspace(0, 2 * np.pi, 200)
    norms = (("3-norm 1", 3.0), ("2-norm 1", 2.0))
    circles = [(name, *_unit_circle(around, norm).T.tolist()) for name, norm in norms]
    lines = [[f"{value:.5g}" for value in row] for row in zip(*field.values(), strict=True)]
    note = "Each arrow is half a step with rate 1 against the gradient of l_q. Steps lead to |u₁| = |u₂|, at any norm."
    svg = draw_gradient(field, circles)
    return Block("gradient_field", "Gradient field of l_q", note, list(field), lines, svg)


def _unit_circle(angles: np.ndarray, norm: float) -> np.ndarray:
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return points / (np.abs(points) ** norm).sum(axis=1, keepdims=True) ** (1 / norm)


def precision_by_bits(reproduced: Reproduced, study: str) -> Block | None:
    """Precision within radius 2 by bits, and precision of the first k at the longest codes."""
    results = reproduced.results.get(study)
    if results is None:
        return None
    methods = [name for name in SHOWN if name in results.methods]
    by_bits = []
    by_k = []
    lines = []
    for name in methods:
        title = method_class(name).about.title
        points = [
            (n, *average(c.precision_at_radius for c in cells_of(results, name, b))) for n, b in enumerate(results.bits)
        ]
        known = [(n, mean, deviation or 0.0) for n, mean, deviation in points if mean is not None]
        if known:
            by_bits.append(Curve(title, *map(list, zip(*known, strict=True))))
        lines += [[title, "radius 2", str(results.bits[n]), f"{mean:.4f}", f"{sd:.4f}"] for n, mean, sd in known]
        cells = [cell for cell in cells_of(results, name, max(results.bits)) if cell.precision_at_k]
        ks = sorted({int(k) for cell in cells for k in cell.precision_at_k or {}})
        tops = [(k, *average((cell.precision_at_k or {}).get(str(k)) for cell in cells)) for k in ks]
        by_k.append(Curve(title, ks, [mean or 0.0 for _, mean, _ in tops]))
        lines += [
            [title, f"first {k}", str(max(results.bits)), f"{mean or 0:.4f}", f"{sd or 0:.4f}"] for k, mean, sd in tops
        ]
    panels = [
        Panel(by_bits, "bits", "precision within radius 2", [str(bits) for bits in results.bits]),
        Panel(by_k, "first k items", f"precision, {max(results.bits)} bits", log_x=True),
    ]
    role = reproduced.work[study].study.role
    note = (
        f"{notes(reproduced, role, None, results)} The paper shows such curves for {role.stands_for}, without numbers."
    )
    columns = ["method", "score", "bits", "mean", "deviation"]
    title = title_on_data("Precision within radius 2 and of the first k", role)
    return Block(f"precision_{study}", title, note, columns, lines, draw_panels(panels, title))


def intra_class(reproduced: Reproduced) -> Block | None:
    """Mean distance of training rows of one class, of u and of codes."""
    results = reproduced.results.get("single")
    if results is None:
        return None
    methods = [name for name in VARIANTS if name in results.methods]
    found = reproduced.kept("intra_class", ["single"], lambda: _intra_class(reproduced, results, methods))
    lines = []
    for name in methods:
        distances = (average(found[name][kind]) for kind in ("u", "codes"))
        texts = [f"{mean:.4f}" if sd is None else f"{mean:.4f} ± {sd:.4f}" for mean, sd in distances]
        lines.append([method_class(name).about.title, *texts])
    names = [line[0] for line in lines]
    curves = []
    for kind, title in (("u", "u, scaled to length 1"), ("codes", "codes, scaled to length 1")):
        points = [average(found[name][kind]) for name in methods]
        curves.append(Curve(title, list(range(len(methods))), [m or 0 for m, _ in points], [d or 0 for _, d in points]))
    role = reproduced.work["single"].study.role
    note = (
        f"{notes(reproduced, role, None, results)} Mean Euclidean distance over pairs of {MEASURED} training rows "
        f"of the same class, {max(results.bits)} bits. The paper: SCDH's are much smaller than those of its variants."
    )
    svg = draw_panels(
        [Panel(curves, "", "mean distance within a class", names, joined=False)], "Distances within a class"
    )
    return Block("intra_class", "Distances within a class", note, ["method", "u", "codes"], lines, svg)


def _intra_class(reproduced: Reproduced, results: ComparisonResults, methods: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in methods:
        values: dict[str, list[float]] = {"u": [], "codes": []}
        for cell in cells_of(results, name, max(results.bits)):
            u, labels = _outputs(reproduced, cell, "train", MEASURED)
            for kind, vectors in (("u", u), ("codes", np.where(u >= 0, 1.0, -1.0))):
                values[kind].append(_mean_distance(vectors, labels))
        found[name] = values
    return found


def _mean_distance(vectors: np.ndarray, labels: np.ndarray) -> float:
    """Mean over pairs of different rows with the same label, of vectors scaled to length 1."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    distances = np.sqrt(np.maximum(0, 2 - 2 * unit @ unit.T))
    same = (labels[:, None] == labels[None]) & ~np.eye(len(labels), dtype=bool)
    return float(distances[same].mean())


def _outputs(reproduced: Reproduced, cell: CellResult, part: str, most: int) -> tuple[np.ndarray, np.ndarray]:
    """u and labels of rows of a part of the split."""
    runner, run = reproduced.runner("single"), run_folder(reproduced, "single", cell)
    rows = np.asarray(getattr(run.protocol(runner.source), part))
    rows = np.sort(np.random.default_rng(0).permutation(rows[is_labelled(runner.source.labels[rows])])[:most])
    hasher = runner.model(run)
    outputs = list(runner.features.hash_outputs(hasher, runner.source, rows, batch_size=128, workers=0))
    found = np.concatenate([numbers for numbers, _ in outputs])
    return np.concatenate([u for _, u in outputs]), runner.source.labels[found]


def tsne_maps(reproduced: Reproduced) -> Block | None:
    """t-SNE of normalised u of queries, for SCDH and its variants."""
    results = reproduced.results.get("single")
    if results is None:
        return None
    methods = [name for name in VARIANTS if name in results.methods]
    found = reproduced.kept("tsne", ["single"], lambda: _tsne_maps(reproduced, results, methods))
    names = reproduced.work["single"].source.label_names
    titles = {name: method_class(name).about.title for name in methods}
    clouds = [(titles[name], found[name]["points"], found[name]["labels"]) for name in methods]
    lines = [
        [titles[name], f"{x:.3f}", f"{y:.3f}", names[label]]
        for name in methods
        for (x, y), label in zip(found[name]["points"], found[name]["labels"], strict=True)
    ]
    role = reproduced.work["single"].study.role
    note = f"{notes(reproduced, role, None, results)} Queries of seed {results.seeds[0]}, u scaled to length 1."
    svg = draw_clouds(clouds, names, "t-SNE of u for SCDH, SCDH-S and SCDH-C")
    return Block("tsne", "t-SNE of u", note, ["method", "x", "y", "class"], lines, svg)


def _tsne_maps(reproduced: Reproduced, results: ComparisonResults, methods: Sequence[str]) -> dict[str, Any]:
    found = {}
    for name in methods:
        u, labels = _outputs(reproduced, cells_of(results, name, max(results.bits))[0], "query", MAPPED)
        found[name] = {"points": tsne(u, 0).round(3).tolist(), "labels": labels.tolist()}
    return found


def tsne(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Vectors float [n, d] as points [n, 2]; brought to length 1 first, as in the paper's picture, because only the
    direction of u decides a code.
    """
    from sklearn.manifold import TSNE

    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(length == 0, 1, length)
    perplexity = min(30.0, (len(unit) - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=seed, max_iter=500).fit_transform(unit)


def sensitivity(reproduced: Reproduced) -> Block | None:
    """MAP and precision within radius 2 by α, λ and μ."""
    panels, lines = [], []
    for setting, sign in GREEK.items():
        tried = reproduced.values(setting)
        if not tried:
            continue
        curves = []
        for score, title in (("map", "MAP"), ("precision_at_radius", "precision within radius 2")):
            points = [average(getattr(cell, score) for cell in cells_of(each, "scdh")) for each in tried.values()]
            means, errors = [mean or 0.0 for mean, _ in points], [sd or 0.0 for _, sd in points]
            curves.append(Curve(title, list(range(len(tried))), means, errors))
            lines += [
                [sign, f"{value:g}", title, f"{mean:.4f}", f"{sd:.4f}"]
                for value, mean, sd in zip(tried, means, errors, strict=True)
            ]
        panels.append(Panel(curves, sign, "score", [f"{value:g}" for value in tried]))
    if not panels:
        return None
    note = f"{_single_note(reproduced)} SCDH at {reproduced.scale.longest} bits; the other settings are as elsewhere."
    svg = draw_panels(panels, "MAP and precision within radius 2 by α, λ and μ")
    columns = ["setting", "value", "score", "mean", "deviation"]
    return Block("sensitivity", "Sensitivity to α, λ and μ", note, columns, lines, svg)


def quantisation_by_alpha(reproduced: Reproduced) -> Block | None:
    """Final l_q of training rows against α, with the band 0.1 to 0.2."""
    tried = reproduced.values("alpha")
    points = {
        value: average(final_l_q(reproduced, f"alpha={value:g}", cell) for cell in cells_of(results, "scdh"))
        for value, results in tried.items()
    }
    known = {value: (mean, deviation or 0.0) for value, (mean, deviation) in points.items() if mean is not None}
    if not known:
        return None
    means, errors = ([pair[n] for pair in known.values()] for n in (0, 1))
    curve = Curve("l_q of training rows", list(range(len(known))), means, errors)
    panel = Panel([curve], "α", "l_q after the last epoch", [f"{value:g}" for value in known], band=(0.1, 0.2))
    note = f"{_single_note(reproduced)} The shaded band is the range that the paper recommends."
    lines = [[f"{value:g}", f"{mean:.4f}", f"{sd:.4f}"] for value, (mean, sd) in known.items()]
    svg = draw_panels([panel], "Final l_q against α")
    return Block("l_q_by_alpha", "Final l_q against α", note, ["alpha", "mean", "deviation"], lines, svg)


def map_by_epoch(reproduced: Reproduced) -> Block | None:
    """Validation MAP by epoch for several μ."""
    curves, lines = [], []
    for value, results in reproduced.values("mu").items():
        by_epoch = list(_by_epoch(cell for cell in cells_of(results, "scdh")))
        if by_epoch:
            curves.append(Curve(f"μ = {value:g}", list(range(1, len(by_epoch) + 1)), by_epoch))
            lines += [[f"{value:g}", str(n), f"{score:.4f}"] for n, score in enumerate(by_epoch, 1)]
    if not curves:
        return None
    note = (
        f"{_single_note(reproduced)} MAP of validation rows: queries are scored once, after training. The paper shows "
        "MAP of queries."
    )
    svg = draw_panels([Panel(curves, "validated epoch", "validation MAP")], "Validation MAP by epoch for several μ")
    return Block("map_by_epoch", "MAP by epoch for several μ", note, ["mu", "epoch", "validation MAP"], lines, svg)


def _by_epoch(cells: Iterable[CellResult]) -> Iterable[float]:
    curves = [[score for _, score in cell.validation] for cell in cells if cell.validation]
    return [statistics.fmean(scores) for scores in zip(*curves, strict=False)]


def _single_note(reproduced: Reproduced) -> str:
    name = next(name for name in reproduced.results if reproduced.work[name].study.group in GREEK)
    return notes(reproduced, reproduced.work[name].study.role, None, reproduced.results[name])

"""Draw docs/images/architecture.png from the imports of src/scdh: ``python docs/draw_architecture.py``.

A box is a folder or file directly below src/scdh; an arrow goes to what it imports, when it is loaded or within a
function. Arrows that follow from others are left out, and so are the small modules that everything uses.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "scdh"
PICTURE = ROOT / "docs" / "images" / "architecture.png"
PURPOSES = {
    "cli": "commands: parse, call, print",
    "experiments": "compare, demo, report",
    "serve": "HTTP API and web page",
    "estimator": "scikit-learn",
    "training": "plan, loop, checkpoints",
    "runs": "run folder, encoding, scoring",
    "model": "items → codes, model files",
    "methods": "one file per method",
    "nets": "trunks, heads, network",
    "losses": "pure functions",
    "data": "sources, splits, batches",
    "evaluation": "codes + labels → scores",
    "metrics": "rankings and ties",
    "index": "exact Hamming search",
    "config": "checked settings",
    "codes": "packed bits",
    "storage": "atomic files, checksums",
}
# From left to right, so that no arrow passes behind a box; the height follows from the imports.
COLUMNS = {"serve": 0, "nets": 0, "losses": 0, "estimator": 2, "evaluation": 2, "metrics": 2, "index": 2, "codes": 2}
MIDDLE, SPACING = 5, 3.5


# Short ways upward, imported within a function: load_config checks a method's settings, Hasher.train trains.
UPWARD = {("config", "methods"), ("model", "training")}


def import_graph(source: Path = SOURCE) -> dict[str, set[str]]:
    """Names of modules and folders directly below ``source`` → those that they import."""
    graph: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*.py")):
        name = file.relative_to(source).parts[0].removesuffix(".py")
        imported = {full.split(".")[1] for full in _imports(file) if full.startswith("scdh.")}
        graph.setdefault(name, set()).update(other for other in imported - {name} if (name, other) not in UPWARD)
    return graph


def uses_torch(source: Path = SOURCE) -> set[str]:
    """Names that import torch, directly or through others."""
    graph = import_graph(source)
    direct = {
        file.relative_to(source).parts[0].removesuffix(".py")
        for file in source.rglob("*.py")
        if any(name.split(".")[0] == "torch" for name in _imports(file))
    }
    return {name for name in graph if direct & _reachable(graph, name)}


def _imports(file: Path) -> list[str]:
    """Full names of what a file imports, at its top or within functions, but for types only."""
    names: list[str] = []
    pending: list[ast.AST] = [ast.parse(file.read_text("utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        is_typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not is_typing_only:
            pending += ast.iter_child_nodes(node)
    return names


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    reached, pending = {start}, [start]
    while pending:
        for name in graph.get(pending.pop(), set()) - reached:
            reached.add(name)
            pending.append(name)
    return reached


def levels(graph: dict[str, set[str]]) -> dict[str, int]:
    """Height of each name: one more than the highest that it imports."""
    heights: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in heights:
            heights[name] = 0
            heights[name] = max((height(other) + 1 for other in graph[name]), default=0)
        return heights[name]

    return {name: height(name) for name in graph}


def reduced(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph without arrows that follow from others."""
    return {
        name: {
            other for other in targets if not any(other in _reachable(graph, between) for between in targets - {other})
        }
        for name, targets in graph.items()
    }


def _bend(x: float, y: float, to_x: float, to_y: float) -> float:
    """A long arrow from the middle to a side bends around what is below its start."""
    if x != MIDDLE or to_x == x or y - to_y < 2:
        return 0
    bend = 0.05 + 0.08 * (y - to_y)
    return -bend if to_x > x else bend


def draw(path: Path = PICTURE) -> None:
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch

    whole = import_graph()
    graph = {name: whole[name] & PURPOSES.keys() for name in PURPOSES}
    heights, with_torch = levels(graph), uses_torch()
    figure = Figure(figsize=(10, 0.95 * (max(heights.values()) + 1) + 0.6), layout="constrained")
    axes = figure.add_subplot()
    centres = {name: (MIDDLE + (COLUMNS.get(name, 1) - 1) * SPACING, heights[name]) for name in PURPOSES}
    for name, (x, height) in centres.items():
        colour = "#dce9fb" if name in with_torch else "#ddf3e1"
        corner = (x - 1.3, height - 0.27)
        axes.add_patch(FancyBboxPatch(corner, 2.6, 0.54, boxstyle="round,pad=0.05", fc=colour, ec="#5a6473"))
        axes.text(x, height + 0.09, name, ha="center", va="center", fontsize=11, fontweight="bold")
        axes.text(x, height - 0.14, PURPOSES[name], ha="center", va="center", fontsize=7.5)
    for name, targets in reduced(graph).items():
        for target in targets:
            (x, y), (to_x, to_y) = centres[name], centres[target]
            axes.annotate(
                "",
                xy=(to_x, to_y + 0.34),
                xytext=(x, y - 0.34),
                arrowprops={
                    "arrowstyle": "->",
                    "color": "#6b7482",
                    "lw": 1.1,
                    "shrinkA": 0,
                    "shrinkB": 0,
                    "connectionstyle": f"arc3,rad={_bend(x, y, to_x, to_y)}",
                },
                zorder=0,
            )
    axes.set(xlim=(-0.1, 10.1), ylim=(-0.5, max(heights.values()) + 0.5))
    axes.axis("off")
    axes.set_title("What imports what in src/scdh (blue: uses torch; green: does not)", fontsize=11)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw()

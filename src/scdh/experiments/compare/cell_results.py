"""What the folder of a cell says: scores of each network, seconds of training, validation MAP on the way."""

import csv
import json
from pathlib import Path
from typing import Any

from scdh.experiments.compare.grid import Cell
from scdh.methods.registry import method_class

FAILED, SCORES, STUDENT_SCORES = "failed.json", "scores.json", "scores_student.json"
KEPT = ("map", "map_best", "map_worst", "precision_at_radius", "empty_balls", "precision_at_k", "l_q")


def results_of(folder: Path, cell: Cell) -> list[dict[str, Any]]:
    """What a cell's folder says, one entry for each network that was scored; none where it is not done."""
    title = method_class(cell.method).about.title
    about: dict[str, Any] = {"method": cell.method, "title": title, "bits": cell.bits, "seed": cell.seed}
    about |= {"cell": cell.name, "student": False}
    if (folder / FAILED).exists():
        return [{**about, "failed": json.loads((folder / FAILED).read_text("utf-8"))["sentence"]}]
    if not (folder / SCORES).exists():
        return []
    trained = method_class(cell.method).learns_by_gradient
    about |= training_of(folder) | {"epochs": cell.config.train.epochs if trained else None}
    found = []
    for name, student in ((SCORES, False), (STUDENT_SCORES, True)):
        if (folder / name).exists():
            said = json.loads((folder / name).read_text("utf-8"))
            scores = {key: said[key] for key in KEPT if key in said}
            found.append({**about, **scores, "definition": said["definition"], "protocol": said["protocol"]})
            if student:
                found[-1] |= {"student": True, "title": f"{title} (student)"}
                found[-1] |= training_of(folder, "validation_map_student")
    return found


def training_of(folder: Path, column: str = "validation_map") -> dict[str, Any]:
    """Training time without scoring, and validation MAP after so many seconds of it."""
    seconds, curve = 0.0, []
    with open(folder / "log.csv", newline="", encoding="utf-8") as handle:
        for row in csv.DictReader(handle):
            seconds += float(row["seconds"])
            score = float(row.get(column) or "nan")
            if score == score:
                curve.append([round(seconds, 4), score])
    return {"seconds": seconds, "validation": curve}

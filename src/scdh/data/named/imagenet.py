"""ImageNet-1k from train/<wnid>/ and val/<wnid>/, or a flat val/ with a list of file names and classes."""

from pathlib import Path

import numpy as np

from scdh.data.images.folder import FolderSource, open_folder
from scdh.errors import DataError

LISTS = ("val_map.txt", "LOC_val_solution.csv")
INNER = Path("Data") / "CLS-LOC"  # where Kaggle's copy keeps the pictures


def open_imagenet(root: Path) -> FolderSource:
    """Training and validation pictures with their class; the test part has no published labels and is left
    out.
    """
    places = [root, root / "imagenet1k", root / INNER, root / "ILSVRC" / INNER]
    base = next((p for p in places if (p / "train").is_dir() and (p / "val").is_dir()), None)
    if base is None:
        raise DataError(f"No ImageNet in {root}; expected its folders train/<wnid>/ and val/<wnid>/.")
    source = open_folder(base, name="imagenet1k", parts=frozenset(("train", "val")))
    missing = np.flatnonzero(~source.labelled)
    if len(missing):
        _label_flat(source, missing, [base, root])
    return source


def _label_flat(source: FolderSource, rows: np.ndarray, folders: list[Path]) -> None:
    """Give a flat val/ its classes from lines such as "ILSVRC2012_val_00000001.JPEG n01751748"."""
    file = next((f / name for f in folders for name in LISTS if (f / name).is_file()), None)
    if file is None:
        raise DataError(
            f"{len(rows)} validation pictures of ImageNet lie outside class folders; expected them in "
            f"val/<wnid>/, or a list {LISTS[0]} of file names and wnids (the numbers of "
            "ILSVRC2012_validation_ground_truth.txt are in another order and cannot serve)."
        )
    wnid = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        words = line.replace(",", " ").split()
        if len(words) >= 2:
            wnid[Path(words[0]).stem] = words[1]
    place = {name: i for i, name in enumerate(source.label_names)}
    for row in rows:
        name = Path(source.item_name(int(row))).stem
        if wnid.get(name) not in place:
            raise DataError(f"{file} gives {name} the class {wnid.get(name)!r}, which is no folder of train/.")
        source.labels[row] = place[wnid[name]]

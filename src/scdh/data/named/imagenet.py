"""ImageNet-1k from train/<wnid>/ and val/<wnid>/, or a flat val/ with a list of file names and classes."""

from pathlib import Path

import numpy as np

from scdh.data.images.folder import FolderSource, open_folder
from scdh.errors import DataError

LISTS = ("val_map.txt", "LOC_val_solution.csv")
INNER = Path("Data") / "CLS-LOC"  # folder of the images in Kaggle's copy


def open_imagenet(root: Path) -> FolderSource:
    """Training and validation images with their class; the test part has no published labels and is left out."""
    places = [root, root / "imagenet1k", root / INNER, root / "ILSVRC" / INNER]
    base = next((p for p in places if (p / "train").is_dir() and (p / "val").is_dir()), None)
    if base is None:
        raise DataError(f"No ImageNet in {root}; expected its folders train/<wnid>/ and val/<wnid>/.")
    source = open_folder(base, name="imagenet1k", parts=frozenset(("train", "val")))
    unlabelled = np.flatnonzero(~source.labelled)
    if len(unlabelled):
        _label_from_list(source, unlabelled, [base, root])
    return source


def _label_from_list(source: FolderSource, rows: np.ndarray, folders: list[Path]) -> None:
    """Set the labels of a flat val/ from a file with lines such as "ILSVRC2012_val_00000001.JPEG n01751748"."""
    file = next((f / name for f in folders for name in LISTS if (f / name).is_file()), None)
    if file is None:
        raise DataError(
            f"{len(rows)} validation images of ImageNet are outside class folders; expected them in "
            f"val/<wnid>/, or a list {LISTS[0]} of file names and wnids (the numbers of "
            "ILSVRC2012_validation_ground_truth.txt are in another order and cannot be used)."
        )
    wnids = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        fields = line.replace(",", " ").split()
        if len(fields) >= 2:
            wnids[Path(fields[0]).stem] = fields[1]
    numbers = {name: i for i, name in enumerate(source.label_names)}
    for row in rows:
        name = Path(source.item_name(int(row))).stem
        if wnids.get(name) not in numbers:
            raise DataError(f"{file} gives {name} the class {wnids.get(name)!r}, which is not a folder of train/.")
        source.labels[row] = numbers[wnids[name]]

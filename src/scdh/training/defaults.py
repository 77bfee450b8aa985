"""Settings that suit the data, for runs without preset and file, each with its reason.

The defaults of :mod:`scdh.config` are the paper's: a whole network on a GPU for 160 epochs. With a folder of photos and
no GPU, a result in minutes is more useful. Settings that depend on more than the kind and size of the data (learning
rate, epochs, α) are then found by trials (:mod:`scdh.training.trials`), which start from the values here.
"""

import math
from collections.abc import Mapping
from typing import Any

from scdh.config import RunConfig
from scdh.data.batches.sampling import steps_per_epoch
from scdh.data.source import Source
from scdh.methods.registry import method_class
from scdh.runs.choices import Choice
from scdh.training.processes import process_count

# Layers on vectors learn in seconds with AdamW; the paper's SGD needs a different rate for every kind of features.
FOR_VECTORS: dict[str, Any] = {
    "net.hidden": [512],
    "net.dropout": 0.5,
    "train.optimiser": "adamw",
    "train.lr_trunk": 0.003,
    "train.lr_head": 0.003,
    "train.weight_decay": 0.01,
    "train.schedule": "cosine",
    # The first steps of AdamW send all rows to one code, from which likelihoods of pairs and triplets recover slowly:
    # validation MAP of frozen CIFAR-10, 32 bits, best of the rates 0.001 and 0.003, without and with it: DSDH 0.495 and
    # 0.593, BOH 0.515 and 0.580, DPSH 0.564 and 0.589, DQN 0.586 and 0.602; SCDH 0.611 and 0.614.
    "train.lr_warm_up": 2,
}
FOR_EMBEDDINGS: dict[str, Any] = {
    "net.backbone": "features",
    "net.standardise": True,
    "train.augmentation": "none",
    **FOR_VECTORS,
    "net.dropout": 0.2,
}
FOR_FROZEN_IMAGES: dict[str, Any] = {"net.freeze": True, **FOR_VECTORS}
# For net.freeze=false: cifar10-lite0's settings without its regularisation.
FOR_TUNED_IMAGES: dict[str, Any] = {
    "train.optimiser": "adamw",
    "train.lr_trunk": 0.0005,
    "train.lr_head": 0.005,
    "train.weight_decay": 0.05,
    "train.schedule": "cosine",
    "train.lr_warm_up": 2,
    "train.clip_norm": 5.0,
    "train.epochs": 30,
    "train.patience": 8,
    "train.batch_size": 32,
}
SETTINGS_OF_KINDS = {
    "embeddings": FOR_EMBEDDINGS,
    "frozen images": FOR_FROZEN_IMAGES,
    "tuned images": FOR_TUNED_IMAGES,
}
UNTRAINED = ("features", "small_conv")  # backbones without pretrained weights, which cannot stay as they are
# With this many classes, centres may shrink to 0 together without the paper's warm-up. With 200 classes (Tiny ImageNet,
# 32 bits) it changes nothing: validation MAP 0.196 without, 0.195 with a norm of 4, 0.171 with 8.
MANY_CLASSES = 500
# From here on the centres of a sample of the classes stand for all. A step with 64 bits and batches of 256 takes 0.02 s
# then; with all centres of 1,000 classes 0.02 s too, of 10,000 classes 0.18 s, of 100,000 classes 3.8 s.
VERY_MANY_CLASSES = 5_000
# Of so many classes, with fewer training rows each, a hidden layer learns noise (docs/many_classes.md).
FEW_ROWS_PER_CLASS = 5
# Random crops matter most where photos are few; each costs as much as all photos once through the network.
VIEWS = ((5_000, 5), (10_000, 3))  # (rows, views): up to so many rows
MOST_ROWS_VIEWS = 2
BATCHES = ((4_000, 64), (16_000, 128))  # (rows, batch): below so many rows
LARGEST_BATCH = 256
USUAL_STEPS = 1_500
FEWEST_EPOCHS = 10
MOST_EPOCHS = 60
FEWEST_STEPS = 300  # goes before MOST_EPOCHS: 114 photos of 6 shapes had MAP 0.77 after 60 steps, 0.89 after 300


def suited_choices(
    config: RunConfig,
    source: Source,
    rows: int,
    given: Mapping[str, Any],
    unlabelled: int = 0,
    searched: tuple[int, int] | None = None,
    label_sets: int = 0,
) -> list[Choice]:
    """Settings for this source, without those that the user gave.

    Args:
        config: the settings as given, with the paper's defaults for the others.
        source: the data.
        rows: number of labelled training rows.
        given: what the user gave, by dotted key.
        unlabelled: number of rows that an epoch passes over without their labels.
        searched: how many database rows are training rows, and how many there are; None if unknown.
        label_sets: how many different sets of labels the training rows have.
    """
    method = method_class(config.method.name)
    kind = data_kind(config, source, given)
    if not method.learns_by_gradient:
        made = [_frozen_choice()] if kind == "frozen images" else []
        made += [Choice("net.backbone", "features", "embeddings")] if kind == "embeddings" else []
    elif kind == "embeddings" and "net.backbone" in given:
        made = []
    else:
        made = [Choice(key, value, f"suits {kind}") for key, value in SETTINGS_OF_KINDS[kind].items()]
        if kind != "tuned images":
            made += _by_rows(config, kind, rows, given, unlabelled)
            if searched is not None and 2 * searched[0] >= searched[1] > 0:
                reason = f"{searched[0]:,} of the {searched[1]:,} rows that queries search are training rows"
                made.append(Choice("train.validation_database", "train", reason))
        made += _of_method(config, source, kind, label_sets, given)
        if kind != "tuned images" and _has_very_many_classes(source) and rows < FEW_ROWS_PER_CLASS * source.num_classes:
            made = [choice for choice in made if choice.setting != "net.hidden"]
            made.append(Choice("net.hidden", [], f"{rows:,} training rows of {source.num_classes:,} classes"))
    chosen = {choice.setting: choice.value for choice in made}
    if given.get("net.hidden", chosen.get("net.hidden")) == []:  # there is nothing to drop
        made = [choice for choice in made if choice.setting != "net.dropout"]
    return [choice for choice in made if choice.setting not in given]


def data_kind(config: RunConfig, source: Source, given: Mapping[str, Any]) -> str:
    """One of ``SETTINGS_OF_KINDS``."""
    if source.kind == "features":
        return "embeddings"
    is_frozen = given.get("net.freeze", True) is True and config.net.pretrained and config.net.backbone not in UNTRAINED
    return "frozen images" if is_frozen else "tuned images"


def _has_very_many_classes(source: Source) -> bool:
    return source.num_classes >= VERY_MANY_CLASSES and not source.multi_label


def _frozen_choice() -> Choice:
    return Choice("net.freeze", True, "the method reads the features of a pretrained network")


def _by_rows(config: RunConfig, kind: str, rows: int, given: Mapping[str, Any], unlabelled: int) -> list[Choice]:
    batch = given.get("train.batch_size", next((size for most, size in BATCHES if rows < most), LARGEST_BATCH))
    settings = config.train
    steps = steps_per_epoch(max(rows, 1), batch, unlabelled, settings.labelled_share, settings.epoch_steps)
    epochs = min(max(round(USUAL_STEPS / steps), FEWEST_EPOCHS), max(MOST_EPOCHS, math.ceil(FEWEST_STEPS / steps)))
    why = f"{rows:,} training rows"
    made = [
        Choice("train.batch_size", batch, why),
        Choice("train.epochs", epochs, f"{why}: {epochs * steps:,} steps"),
    ]
    if kind == "frozen images":
        views = next((count for most, count in VIEWS if rows <= most), MOST_ROWS_VIEWS)
        made.append(Choice("net.views", views, f"{why}: the photo as it is, and {views - 1} random crops"))
    return made


def _of_method(config: RunConfig, source: Source, kind: str, label_sets: int, given: Mapping[str, Any]) -> list[Choice]:
    """The values that the method recommends for such data; of two values for one setting the last counts."""
    suited = method_class(config.method.name).suited_settings
    cases = [(kind, f"suits {kind}")]
    cases += [("many labels", "an item may have several labels")] if source.multi_label else []
    if source.multi_label and label_sets > source.num_classes:  # otherwise one label of an item determines the others
        cases.append(("labels that combine", f"{label_sets:,} different sets of {source.num_classes} labels"))
    if source.num_classes >= MANY_CLASSES:
        cases.append(("many classes", f"{source.num_classes:,} classes"))
    can_move_rows = given.get("train.optimiser", "adamw") == "adamw" and process_count() == 1
    if _has_very_many_classes(source) and can_move_rows:
        cases.append(("very many classes", f"{source.num_classes:,} classes"))
    made = {
        f"method.{key}": Choice(f"method.{key}", value, reason)
        for case, reason in cases
        for key, value in suited.get(case, {}).items()
    }
    return list(made.values())

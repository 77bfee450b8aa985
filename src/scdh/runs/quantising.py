"""Make an INT8 model from a float32 model: choose the calibration images, and measure the difference on others."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scdh.codes import Codes
from scdh.data.batches.batch import Batch
from scdh.data.batches.loaders import evaluation_batches
from scdh.data.draw import seeded
from scdh.data.source import Source
from scdh.errors import ConfigError, DataError
from scdh.extras import missing_packages
from scdh.label_arrays import is_labelled
from scdh.model.hasher import Hasher
from scdh.nets.quantisation import INT8
from scdh.progress import track
from scdh.runs.encoding import KeptOutputs
from scdh.runs.folder import RunFolder
from scdh.runs.ranking import score_ranking

IMAGES = 128  # that calibrate, unless another number is asked for
MOST_COMPARED = 1000
TIMED, TURNS = 64, 3


@dataclass(frozen=True)
class ChosenRows:
    """Calibration rows of a source, int64 [n], rows on which codes are compared, and names of both for messages."""

    calibration: np.ndarray
    compared: np.ndarray
    calibration_name: str
    compared_name: str


@dataclass(frozen=True)
class Comparison:
    """How the codes of images that were not used for calibration differ.

    Args:
        calibration_images: number of images used for calibration.
        compared_images: images whose codes were compared; with none, nothing below is known.
        differing_bits: share of their bits that differ between float32 and INT8.
        map: of the INT8 codes, each image ranking the others; None without labels.
        float32_map: of the float32 codes.
        speed: images per CPU second by OpenVINO, as a multiple of float32; None where it is not installed.
    """

    calibration_images: int
    compared_images: int
    differing_bits: float | None = None
    map: float | None = None
    float32_map: float | None = None
    speed: float | None = None


def choose_rows(run: RunFolder, source: Source, count: int = IMAGES, seed: int = 0) -> ChosenRows:
    """Training rows where ``source`` are the data of the run, and validation rows to compare on; queries never."""
    if count < 1:
        raise ConfigError(f"The number of images to calibrate on must be 1 or more, not {count}.")
    protocol = run.saved_protocol() if run.protocol_file.exists() else None
    if protocol is None or protocol.source_fingerprint != source.fingerprint():
        rows = np.arange(len(source))
        others = np.empty(0, np.int64)
        names = (f"images of {source.name}", "")
    else:
        rows = protocol.train
        others = protocol.validation
        names = ("training rows", "validation rows")
    if not len(rows):
        raise DataError(f"{source.name} has no images to calibrate on.")
    order = seeded(seed).permutation(rows)
    if not len(others):
        others, names = order[count:], (names[0], f"other {names[0]}")
    compared = seeded(seed, 1).permutation(others)[:MOST_COMPARED]
    return ChosenRows(np.sort(order[:count]), np.sort(compared), *names)


def quantise_and_compare(
    hasher: Hasher, source: Source, chosen: ChosenRows, **loading: Any
) -> tuple[Hasher, Comparison]:
    """The INT8 model, whose ``info`` contains the comparison, and the comparison."""
    hasher.check_fits(source)
    batches: list[int] = []

    def counted(found: Iterable[Batch]) -> Iterable[Batch]:
        for batch in found:
            batches.append(len(batch.rows))
            yield batch

    rows = chosen.calibration
    found = evaluation_batches(source, rows, preprocess=hasher.preprocess, batch_size=32, **loading)
    shown = track(found, len(rows), "calibrating", "images", lambda batch: len(batch.rows))
    quantised = hasher.quantised_on(counted(shown))
    others = list(evaluation_batches(source, chosen.compared, preprocess=hasher.preprocess, batch_size=32, **loading))
    comparison = Comparison(sum(batches), sum(len(batch.rows) for batch in others))
    if comparison.compared_images:
        comparison = _compare(hasher, quantised, source, others, comparison.calibration_images)
    facts = {name: value for name, value in vars(comparison).items() if value is not None and name != "speed"}
    quantised.info[INT8] = {"float32_model": hasher.fingerprint(), **facts}
    return quantised, comparison


def _compare(float32: Hasher, int8: Hasher, source: Source, batches: list[Batch], calibrated_on: int) -> Comparison:
    codes: dict[str, Codes] = {}
    maps: dict[str, float] = {}
    for name, hasher in (("float32", float32), ("int8", int8)):
        outputs = KeptOutputs(hasher, hasher.run(track(batches, len(batches), f"encoding in {name}"), engine="auto"))
        codes[name] = hasher.encode_outputs(outputs)
        labels = source.labels[codes[name].ids]
        if is_labelled(labels).sum() > 1:
            pair = codes[name], labels
            maps[name] = score_ranking(hasher, pair[0], outputs.u, pair[1], *pair, leave_one_out=True).map
    return Comparison(
        calibrated_on,
        len(codes["int8"]),
        differing_bits=float((codes["float32"].unpack() != codes["int8"].unpack()).mean()),
        map=maps.get("int8"),
        float32_map=maps.get("float32"),
        speed=_speed(float32, int8, batches[: TIMED // 32]),
    )


def _speed(float32: Hasher, int8: Hasher, batches: list[Batch]) -> float | None:
    """Measured in CPU seconds, which depend little on other work on the machine; both in turn, without decoding."""
    if missing_packages("openvino") or float32.network.device.type != "cpu":
        return None
    seconds: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(TURNS):
        for number, hasher in enumerate((float32, int8)):
            started = time.process_time()
            for _ in hasher.run(batches, engine="auto"):
                pass
            seconds[number].append(time.process_time() - started)
    return float(np.median(seconds[0]) / np.median(seconds[1]))

"""The results of a comparison as typed records: what ``compare.json`` holds, and how it is written and read."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from scdh.config import one_sentence
from scdh.errors import DataError
from scdh.storage.checksums import CHECKSUM
from scdh.storage.json_files import read_table, write_table

RESULTS_FILE = "compare.json"


class Record(BaseModel):
    """Checked when made or read, never changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CellResult(Record):
    """One scored network of one run. A run that failed has a message and none of the fields after it.

    Fields that were not given (such as ``l_q`` of a method without real outputs) are left out of ``compare.json``.
    """

    method: str
    title: str
    bits: int
    seed: int
    cell: str
    student: bool
    failed: str | None = None
    code_bits: int | None = None  # length of the codes, where the method has one of its own
    seconds: float | None = None  # of training, without scoring
    validation: list[tuple[float, float]] = []  # (seconds of training, validation MAP) after each validated epoch
    epochs: int | None = None  # None for a method that is fitted
    best_epoch: int | None = None  # by validation MAP, whose model was taken; None: the last one was
    learned_weights: int | None = None
    own_weights: int | None = None  # beyond the plain network that all share; below 0 where there are fewer
    map: float | None = None
    map_last: float | None = None  # with the last epoch's model
    map_best: float | None = None
    map_worst: float | None = None
    precision_at_radius: float | None = None
    empty_balls: float | None = None
    precision_at_k: dict[str, float] | None = None
    l_q: float | None = None
    definition: dict[str, Any] | None = None
    protocol: dict[str, str] | None = None

    @property
    def precision_at_10(self) -> float | None:
        """Share of the first 10 items that are right; None for a run without scores."""
        return None if self.precision_at_k is None else self.precision_at_k.get("10")


class SummaryRow(Record):
    """Means and standard deviations (n − 1) over the seeds of one (method, bits); None where there is no value.

    ``runs`` of them went into the means, ``failed`` did not. ``seconds_to_target`` is None unless every run reached
    the target, because a mean of those that did would flatter the method; ``reached_target`` counts them.
    """

    method: str
    title: str
    student: bool
    bits: int
    runs: int
    failed: int
    map: float | None
    map_std: float | None
    map_best: float | None
    map_best_std: float | None
    map_worst: float | None
    map_worst_std: float | None
    precision_at_radius: float | None
    precision_at_radius_std: float | None
    empty_balls: float | None
    empty_balls_std: float | None
    l_q: float | None
    l_q_std: float | None
    seconds: float | None
    seconds_std: float | None
    epochs: int | None
    seconds_to_target: float | None
    reached_target: int
    precision_at_10: float | None = None
    precision_at_10_std: float | None = None
    map_last: float | None = None
    map_last_std: float | None = None
    best_epoch: float | None = None
    best_epoch_std: float | None = None
    learned_weights: int | None = None
    own_weights: int | None = None

    def mean(self, score: str) -> float | None:
        """Mean of a score by its name, such as ``"map"``."""
        value: float | None = getattr(self, score)
        return value

    def deviation(self, score: str) -> float | None:
        """Standard deviation of a score by its name; None for a single run."""
        value: float | None = getattr(self, f"{score}_std")
        return value


class FloatRow(Record):
    """The float vectors that codes were made of, ranked by cosine: means over ``seeds``."""

    width: int
    bytes: int  # of one item
    map: float
    map_std: float | None
    precision_at_10: float | None = None
    seeds: list[int]

    @property
    def title(self) -> str:
        return f"{self.width:,} floats, cosine ({self.bytes:,} bytes)"


class TriedValues(Record):
    """Values of settings that were tried, and the validation MAP they gave; None where training failed."""

    values: dict[str, Any]
    validation_map: float | None


class TuningResult(Record):
    """The values chosen for one method, and all that were tried, with ``bits`` bits and one ``seed``."""

    chosen: dict[str, Any]
    bits: int
    seed: int
    tried: list[TriedValues]


class ComparedData(Record):
    """The data of a comparison and how many rows each part of the first seed's split has."""

    name: str
    fingerprint: str
    labels: int
    multi_label: bool
    train: int
    unlabelled: int
    validation: int
    query: int
    database: int


class Budget(Record):
    """The numbers of epochs and steps of the runs that are trained; ``seconds`` is None, as all get the same epochs."""

    seconds: float | None = None
    epochs: list[int]
    steps: list[int]


class ComparisonResults(Record):
    """Everything in ``compare.json``. Protocols are by seed, configurations (of the first seed) by cell."""

    data: ComparedData
    methods: list[str]
    bits: list[int]
    seeds: list[int]
    budget: Budget
    protocols: dict[str, dict[str, str]]
    network: dict[str, Any]
    tuned: dict[str, TuningResult]
    target: float | None
    failed: dict[str, str]
    missing: list[str]
    definition: dict[str, Any] | None
    rows: list[SummaryRow]
    floats: FloatRow | None = None
    cells: list[CellResult]
    configs: dict[str, dict[str, Any]]
    versions: dict[str, str]
    fidelity: dict[str, str] = {}  # method → how near it is to its paper, and what differs
    left_to_train: dict[str, list[str]] = {}  # method → settings that `scdh train` finds by trials, and this does not
    changed_after_scoring: list[str] = []  # what is not as it was when queries were first scored

    def trials(self, method: str) -> int:
        """How many runs chose settings for a method."""
        return len(self.tuned[method].tried) if method in self.tuned else 0

    @property
    def radius(self) -> int:
        """Radius of the precision scores, in bits."""
        return int((self.definition or {}).get("radius", 2))

    def to_json(self) -> dict[str, Any]:
        """Plain values ready for ``json.dumps``, as written to ``compare.json``."""
        return self.model_dump(mode="json", exclude_unset=True)

    def write(self, folder: Path) -> Path:
        """Write ``compare.json`` into ``folder``; returns the path of the file."""
        write_table(folder / RESULTS_FILE, self.to_json())
        return folder / RESULTS_FILE

    @classmethod
    def read(cls, folder: Path) -> "ComparisonResults":
        """The results that :meth:`write` left in ``folder``."""
        remedy = "run the comparison again, which keeps what is done"
        content = read_table(folder / RESULTS_FILE, "the results of a comparison", remedy)
        content.pop(CHECKSUM, None)
        try:
            # pydantic's own JSON reader rejects the escapes of names that are not UTF-8.
            return cls.model_validate(content)
        except ValidationError as error:
            raise DataError(
                f"{str(folder / RESULTS_FILE)!r} does not hold the results of a comparison: "
                f"{one_sentence(error, cls)} {remedy[0].upper()}{remedy[1:]}."
            ) from None

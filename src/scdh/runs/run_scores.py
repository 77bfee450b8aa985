"""Scores of a run and everything they depend on, as stored in the run's folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from scdh.config import RunConfig
from scdh.data.protocol import Protocol
from scdh.extras import versions
from scdh.metrics.scores import RankingScores
from scdh.runs.floats import FloatScores
from scdh.runs.folder import NetworkName, RunFolder
from scdh.runs.summary import caution, summarise
from scdh.storage.files import replacing
from scdh.storage.json_files import write_table


@dataclass(frozen=True, eq=False)
class RunScores:
    """Scores of a run with everything they depend on; ``to_dict`` gives the content of the JSON file.

    ``outputs`` are the scores of the same codes, ranked by the queries' real outputs (where the codes are ranked by
    Hamming distance). ``nested`` are the scores of first bits, by their number. ``floats`` are the scores of the
    vectors that the codes were made from; otherwise ``no_floats`` says why there are none. ``advice`` says what to try
    if the codes are worse.
    """

    run: RunFolder
    part: str
    network: NetworkName | None
    scores: RankingScores
    protocol: Protocol
    source_name: str
    config: RunConfig
    l_q: float | None = None
    left_out: int | None = None
    unlabelled_items: int | None = None  # of the database; None: every item has a label
    model: str | None = None
    label_column: str | None = None
    outputs: RankingScores | None = None
    nested: Mapping[int, RankingScores] = field(default_factory=dict)
    floats: FloatScores | None = None
    no_floats: str | None = None
    advice: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.run.scores(self.part, self.network)

    @property
    def per_query_file(self) -> Path:
        return self.run.per_query(self.part, self.network)

    @property
    def caution(self) -> str | None:
        """Sentences if the scores depend on few rows, or say little, otherwise None."""
        chose = self.part == "query" and not self.config.data.train_on_validation
        return caution(self.scores, len(self.protocol.validation) if chose else 0)

    def to_dict(self) -> dict[str, Any]:
        scores = summarise(self.scores)
        if self.label_column is not None:
            scores["definition"]["label_column"] = self.label_column
        measured = {
            "l_q": self.l_q,
            "left_out": self.left_out,
            "unlabelled_items": self.unlabelled_items,
            "model": self.model,
            "outputs": None if self.outputs is None else summarise(self.outputs),
            "nested": {str(bits): summarise(scores) for bits, scores in self.nested.items()} or None,
            "floats": None if self.floats is None else self.floats.to_dict(),
            "no_floats": self.no_floats,
            "advice": self.advice,
            "caution": self.caution,
        }
        return {
            "run": str(self.run),
            "run_id": self.run.id,
            "part": self.part,
            "file": self.file.name,
            "per_query": self.per_query_file.name,
            **scores,
            "protocol": {"name": self.protocol.name, "fingerprint": self.protocol.fingerprint},
            "split_counts": self.protocol.counts,
            "split_about": self.protocol.about,
            "source": {"name": self.source_name, "fingerprint": self.protocol.source_fingerprint},
            "config": self.config.model_dump(mode="json"),
            "versions": versions(),
            "network": self.network or ("teacher" if self.run.has_student else None),
            **{key: value for key, value in measured.items() if value is not None},
            "seconds": self.seconds,
        }

    def save(self, query_rows: np.ndarray) -> None:
        """Write scores and per-query scores into the run's folder."""
        with replacing(self.per_query_file) as temporary, open(temporary, "wb") as handle:
            arrays: dict[str, Any] = {"rows": query_rows, **self.scores.per_query}
            np.savez(handle, **arrays)
        write_table(self.file, self.to_dict())

"""A run folder and every file in it; only this module knows their names.

The folder belongs to one run: its settings and its split are written first and must not change.
"""

import json
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scdh.config import RunConfig, parse_config
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import ChangedDataError, ConfigError, DataError, ModelError, TrainingError
from scdh.extras import versions
from scdh.model.description import read_description
from scdh.model.hub import MODEL_OF_RUN, WEIGHTS, has_model
from scdh.runs.changed_data import DataChanges, changes_since, keep_rows
from scdh.runs.data_paths import StoredPaths, known_places, stored_data_paths, stored_path
from scdh.runs.shared_features import shared_folder
from scdh.storage.files import locked, read_regular, replacing
from scdh.storage.json_files import read_entries, write_table

if TYPE_CHECKING:
    from scdh.model.hasher import Hasher

FORMAT, VERSION = "scdh-run", 1
# The two networks of a run with a teacher, and that of the last epoch if the model is another epoch's.
NetworkName = Literal["teacher", "student", "last"]


class RunFolder:
    """The files of one run; none of them need exist."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.protocol_file = self.path / "protocol.json"
        self.choices_file = self.path / "choices.json"  # settings that were not given, with reasons and trials
        self.model = self.path / MODEL_OF_RUN  # written last: a run that has it is finished
        self.student = self.path / "student"  # the network that a teacher was averaged from
        self.best = self.path / "best"  # the best epoch's model while the run goes on
        self.last = self.path / "last"  # the last epoch's model, if the model is another epoch's
        self.int8 = self.path / "int8"  # where `scdh quantise` may put the INT8 model, so that it finds its run
        self.checkpoint = self.path / "last.safetensors"
        self.log = self.path / "log.csv"
        self.steps = self.path / "steps.csv"
        self.tensorboard = self.path / "tensorboard"
        self.features = self.path / "features"
        self.features_elsewhere = self.path / "features.json"  # names the folder of the features, if it is another
        self.rows_file = self.path / "rows.names"  # names and labels of all rows, for data that are files
        self.failure = self.path / "failed.json"  # in a comparison: why the run could not be trained
        self.lock = self.path / ".running"

    def __str__(self) -> str:
        return str(self.path)

    @classmethod
    def of_model(cls, model: str | Path) -> "RunFolder":
        """The run that a model belongs to: the folder itself, or the one that a model folder is in."""
        run = cls(model)
        inside = cls(run.path.parent)
        models = (inside.model, inside.best, inside.last, inside.student, inside.int8)
        return inside if run.path in models and not run.protocol_file.exists() else run

    def codes(self, part: str, network: NetworkName | None = None) -> Path:
        """File of the codes of "query", "database" or "validation" rows."""
        return self.path / "codes" / f"{part}{_suffix(network)}.codes"

    def scores(self, part: str = "query", network: NetworkName | None = None) -> Path:
        return self.path / f"scores{_part_suffix(part)}{_suffix(network)}.json"

    def per_query(self, part: str = "query", network: NetworkName | None = None) -> Path:
        """File of the scores of each query."""
        return self.path / f"per_query{_part_suffix(part)}{_suffix(network)}.npz"

    @property
    def is_finished(self) -> bool:
        return has_model(self.model)

    @property
    def has_query_scores(self) -> bool:
        """Whether queries were scored, with any of the run's networks."""
        networks: tuple[NetworkName | None, ...] = (None, "student", "last")
        return any(self.scores(network=network).exists() for network in networks)

    @property
    def is_in_trials(self) -> bool:
        """Whether the run has no settings yet: it tries some, or was stopped while it did."""
        return self.choices_file.is_file() and not self.config_file.exists()

    @property
    def has_student(self) -> bool:
        return has_model(self.student) and self.is_finished

    @property
    def has_last(self) -> bool:
        """Whether the last epoch's model is kept in addition to that of the best epoch."""
        return has_model(self.last) and self.is_finished

    @property
    def id(self) -> str:
        """Random text in every part of the run, so that a part of another run is noticed."""
        return str(self._saved().get("run_id", ""))

    def check_part(self, part: Path, run_id: str) -> None:
        """Raise an error if ``part``, which has the id ``run_id``, belongs to another run."""
        if run_id != self.id:
            raise DataError(
                f"{str(part)!r} belongs to another run than {str(self.config_file)!r} (run {run_id or 'unknown'}, not "
                f"{self.id or 'unknown'}); restore both from the same copy."
            )

    def config(self) -> RunConfig:
        """The settings that the run was made with."""
        return parse_config(self.saved_settings())

    def data_paths(self) -> StoredPaths:
        """Where the data were in training, as :func:`scdh.runs.data_paths.stored_data_paths` returned it."""
        paths = self._saved().get("data_paths", {})
        return paths if isinstance(paths, dict) else {}

    def saved_settings(self) -> dict[str, Any]:
        """The settings as they were written, by group."""
        settings = self._saved().get("config")
        if not isinstance(settings, dict):
            raise DataError(f"{str(self.config_file)!r} does not hold the settings of a run: it has no table 'config'.")
        return settings

    def saved_versions(self) -> dict[str, str]:
        """Package → version, of the process that trained the run."""
        packages = self._saved()["versions"]
        if not isinstance(packages, dict):
            raise DataError(
                f"{str(self.config_file)!r} does not hold the settings of a run: 'versions' is not a table."
            )
        return packages

    def _saved(self) -> dict[str, Any]:
        if not self.path.exists():
            raise DataError(f"There is no run folder {str(self)!r}.")
        if self.path.is_file():
            raise DataError(f"{str(self)!r} is a file, but a run is a folder.")
        try:
            holds, remedy = "the settings of a run", "restore it from a copy"
            content = read_entries(self.config_file, holds, remedy, "format", "version", "config", "versions")
        except (FileNotFoundError, NotADirectoryError):
            if self.is_in_trials:
                raise DataError(self._unfinished("no settings yet, only trials of some")) from None
            raise DataError(f"{str(self)!r} is not a run folder: it holds no {self.config_file.name}.") from None
        if content["format"] != FORMAT:
            if (self.path / WEIGHTS).exists():
                raise DataError(f"{str(self)!r} holds a model, but the folder of its run is needed.")
            raise DataError(f"{str(self.config_file)!r} does not hold the settings of a run.")
        if type(content["version"]) is not int or content["version"] != VERSION:
            version = content["version"]
            raise DataError(f"The run in {str(self)!r} has version {version!r}, but only {VERSION} can be read.")
        return content

    def claim(self, config: RunConfig, *, resume: bool, write: bool = True, may_be_longer: bool = False) -> None:
        """Claim the folder for this run; raise an error if it belongs to another run, or has other settings.

        Args:
            config: the settings of the run.
            resume: go on with the run that is there.
            write: write the settings into the folder, unless nothing is left to train.
            may_be_longer: allow a resumed run, even a finished one, to have more epochs than before.
        """
        settings = config.with_method_defaults().model_dump(mode="json")
        is_kept = resume and (self.is_finished or self.failure.exists() or self.has_query_scores)
        if (self.path / WEIGHTS).exists():  # its config.json is the model's description
            raise TrainingError(f"{str(self)!r} holds a model, not a run; choose another folder.")
        self.reject_earlier_run(resume=resume)
        if self.config_file.exists():
            try:
                earlier = self.saved_settings()
                if earlier != settings:  # through the same check, which fills in defaults
                    earlier = self.config().with_method_defaults().model_dump(mode="json")
            except (DataError, ConfigError) as error:
                raise TrainingError(f"{str(error).rstrip('.')}; or choose another folder.") from None
            if may_be_longer and settings["train"]["epochs"] > earlier["train"]["epochs"]:
                earlier["train"]["epochs"], is_kept = settings["train"]["epochs"], False
            if resume and (difference := _first_difference(earlier, settings)):
                but = ", or with more epochs" if may_be_longer else ""
                raise TrainingError(
                    f"The run in {str(self)!r} has another {difference}; resume with the same settings{but}."
                )
        if write and not (is_kept and self.config_file.exists()):  # else these versions have not trained it
            self.path.mkdir(parents=True, exist_ok=True)
            if not resume:
                self._remove_leftovers()
            content = {
                "format": FORMAT,
                "version": VERSION,
                "run_id": self.id if resume and self.config_file.exists() else secrets.token_hex(8),
                "config": config.model_dump(mode="json"),
                "data_paths": stored_data_paths(config.data, self.path),
                "versions": versions(),
            }
            write_table(self.config_file, content)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training in this folder; the system frees it when this process ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.lock) as have_lock:
            if not have_lock:
                raise TrainingError(self._busy())
            yield

    def check_idle(self) -> None:
        """Raise a TrainingError if another process is training in this folder."""
        if self.lock.exists():
            with locked(self.lock) as is_free:
                if not is_free:
                    raise TrainingError(self._busy())

    def _busy(self) -> str:
        return f"Another process is training in {str(self)!r}; wait until it has ended, or choose another folder."

    def reject_earlier_run(self, *, resume: bool) -> None:
        """Raise an error if a run has begun in the folder, unless it is to be resumed."""
        if not resume and self.config_file.exists() and (self.checkpoint.exists() or self.is_finished):
            raise TrainingError(
                f"{str(self)!r} already holds a run; resume it (--resume, resume=True), choose another folder, or "
                "delete this one to train again."
            )

    def _remove_leftovers(self) -> None:
        """Remove files of a run that was stopped before its first checkpoint."""
        for folder in (self.student, self.best, self.last):
            shutil.rmtree(folder, ignore_errors=True)
        for file in (self.log, self.steps, self.features_elsewhere):
            file.unlink(missing_ok=True)

    def feature_folder(self, chosen: Path | None = None) -> Path:
        """The folder that keeps the features of the run's frozen trunk; ``chosen`` becomes that folder and is stored.

        The path relative to the run's folder is stored too, so that both may be moved together. If none was chosen, it
        is the folder that all runs share, or the run's own if that is not available.
        """
        if chosen is not None:
            with replacing(self.features_elsewhere) as temporary:
                temporary.write_text(json.dumps(stored_path(chosen, self.path)), "utf-8")
            return chosen
        try:
            known = list(known_places(json.loads(read_regular(self.features_elsewhere)), self.path))
        except (OSError, ValueError, RecursionError):
            known = []  # none was stored; features can always be recomputed
        kept = next((folder for folder in [*known, self.features] if folder.is_dir()), None)
        return kept or shared_folder() or self.features

    def keep_protocol(self, protocol: Protocol, source: Source, *, resume: bool, write: bool = True) -> None:
        """Save the split; a resumed run must have the one it was started with, otherwise it might train on queries."""
        if resume and self.protocol_file.exists() and self.saved_protocol() != protocol:
            found = changes_since(self.rows_file, source)
            what = f": {found}" if found else ""
            raise TrainingError(
                f"The data have changed since the run in {str(self)!r} was started{what}; start a new run."
            )
        if write:
            keep_rows(self.rows_file, source)
            replace(protocol, run_id=self.id).save(self.protocol_file)

    def saved_protocol(self) -> Protocol:
        """The split that the run was trained with."""
        if not self.protocol_file.exists():
            if (self.path / WEIGHTS).exists():
                raise DataError(
                    f"{str(self)!r} holds a model, but the folder of its run is needed, which has the split."
                )
            raise DataError(self._unfinished("no split yet"))
        protocol = Protocol.load(self.protocol_file)
        self.check_part(self.protocol_file, protocol.run_id)
        return protocol

    def protocol(self, source: Source, *, remaining: bool = False) -> Protocol:
        """The split that the run was trained with, if ``source`` still has the same data.

        Raises:
            ChangedDataError: the data have changed.
        """
        protocol = self.saved_protocol()
        if source.fingerprint() != protocol.source_fingerprint:
            found = changes_since(self.rows_file, source)
            if found is None or not remaining:
                raise ChangedDataError(_changed_data(str(self), source, found))
            protocol = found.protocol_of_remaining(protocol, source)
        return protocol.check(len(source))

    def part_rows(self, source: Source, part: str) -> np.ndarray:
        """Row numbers of a part of the run's split."""
        if not self.protocol_file.exists():
            raise ConfigError(
                f"The part {part!r} needs a run folder with a {self.protocol_file.name}, and {str(self)!r} has none."
            )
        rows: np.ndarray = getattr(self.protocol(source), part)
        if not len(rows):
            raise DataError(f"The {part} part of the run in {str(self)!r} is empty.")
        return rows

    def model_info(self) -> dict[str, Any]:
        """What the model's description says about the run: protocol, epochs, validation MAP, or seconds of fitting."""
        return read_description(self.model)["info"]

    def failed_sentence(self) -> str:
        """Why a run of a comparison could not be trained."""
        remedy = "delete it, and the run is tried again"
        return str(read_entries(self.failure, "why a run failed", remedy, "sentence")["sentence"])

    def saved_scores(self, part: str = "query", network: NetworkName | None = None) -> dict[str, Any]:
        """What the file of the scores holds."""
        remedy = "delete it and score the run again"
        return read_entries(self.scores(part, network), "the scores of a run", remedy, "definition")

    def load_model(self, network: NetworkName | None = None) -> "Hasher":
        """The run's model; of a run with a teacher, "teacher" (its model) or "student"; or that of the "last" epoch."""
        if (self.protocol_file.exists() or self.is_in_trials) and not self.is_finished:
            raise ModelError(self._unfinished("no model yet"))
        if self.path.is_file():
            raise ModelError(f"{str(self)!r} is a file, but a model is a folder.")
        if network == "last" and not self.has_last:
            raise ModelError(f"{str(self)!r} keeps no model of the last epoch in addition to its own.")
        if network in ("teacher", "student") and not self.has_student:
            raise ModelError(
                f"{str(self)!r} holds one network only, not a {network}; only the folder of a run with a teacher, "
                "such as mt_scdh, has both."
            )
        from scdh.model.hasher import Hasher  # torch is imported here, so that reading a folder does not need it

        folders = {"student": self.student, "last": self.last}
        folder = folders.get(network or "", self.model)
        if not self.protocol_file.exists():  # a model folder, or a model on the hub
            return Hasher.load(self.path)
        hasher = Hasher.load(folder)
        self.check_part(folder, str(hasher.info.get("run_id", "")))
        return hasher

    def _unfinished(self, held: str) -> str:
        return f"The run in {str(self)!r} holds {held}; finish it with `scdh train --resume --out {quote(str(self))}`."


def _changed_data(run: str, source: Source, found: DataChanges | None) -> str:
    if found is None:
        return (
            f"{source.name} does not have the rows and labels that the run in {run!r} was trained on; --data PATH "
            "names the data as they were."
        )
    return (
        f"The data of the run in {run!r} have changed since training: {found}; --remaining scores the files that are "
        "still there, --data PATH names the data as they were."
    )


def _suffix(network: NetworkName | None) -> str:
    return f"_{network}" if network in ("student", "last") else ""


def _part_suffix(part: str) -> str:
    return "" if part == "query" else f"_{part}"


def _first_difference(one: Any, other: Any, key: str = "") -> str | None:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            if difference := _first_difference(one.get(name), other.get(name), f"{key}.{name}".lstrip(".")):
                return difference
        return None
    return None if one == other else f"{key} ({one!r}, not {other!r})"

"""Describe runs and models from their folders, without torch."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scdh.data.protocol import Protocol
from scdh.errors import CodesError, DataError, ModelError
from scdh.model.description import quantisation_of, read_description
from scdh.model.hub import MODEL_OF_RUN, WEIGHTS, has_model
from scdh.nets.quantisation import FLOAT32, INT8
from scdh.runs.choices import Choices
from scdh.runs.data_paths import data_options
from scdh.runs.folder import RunFolder
from scdh.storage.checksums import is_intact
from scdh.storage.files import read_regular
from scdh.storage.json_files import parse_json
from scdh.storage.tensor_files import read_metadata


@dataclass
class Described:
    """The description of a path or name."""

    kind: str
    title: str
    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[tuple[str, str]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any, text: str | None = None) -> None:
        """A fact that is also printed; None is left out."""
        if value is not None:
            self.facts[name.replace(" ", "_")] = value
            self.rows.append((name, _text(value) if text is None else text))

    def suggest(self, *parts: object) -> None:
        """A command to try next."""
        self.commands.append(shlex.join(["scdh", *map(str, parts)]))

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "title": self.title, **self.facts, "next": self.commands}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def read_json(path: Path) -> Any:
    """The content of a JSON file; a broken one raises an error."""
    try:
        content = parse_json(read_regular(path))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}.") from None
    if isinstance(content, dict) and not is_intact(content):
        raise DataError(f"{path} was changed or damaged after it was written; restore it from a copy.")
    return content


def some(names: Sequence[str] | Iterable[str], most: int = 5) -> str:
    """The first few names, and how many there are.

    >>> some(["a", "b", "c"], most=2)
    '3: a, b …'
    """
    names = list(names)
    listed = ", ".join(names[:most])
    return f"{len(names):,}" + (f": {listed}{' …' if len(names) > most else ''}" if names else "")


def counts_text(counts: dict[str, int]) -> str:
    """Rows of each part of a split."""
    return ", ".join(f"{part} {count:,}" for part, count in counts.items())


MOST_FOLDERS = 300  # that are searched for the model of some codes


def is_model(folder: Path) -> bool:
    return has_model(folder)


def is_run(folder: Path) -> bool:
    run = RunFolder(folder)
    return (run.config_file.is_file() or run.is_in_trials) and not (folder / WEIGHTS).exists()


def read_model(folder: Path) -> dict[str, Any]:
    """The description of a model folder."""
    return read_description(folder)


def describe_model(folder: Path, name: str) -> Described:
    """A model folder; ``name`` is what the user called it (a folder, or an id on the hub)."""
    content = read_model(folder)
    width = content.get("feature_width")
    encodes = "images" if width is None else f"embeddings of width {width:,}"
    method = content["config"]["method"]["name"]
    described = Described("model", f"{name}: a model of {content.get('bits')}-bit codes by {method}")
    described.add("method", method)
    described.add("bits", content.get("bits"))
    described.add("encodes", encodes)
    described.add("backbone", content["config"]["net"]["backbone"])
    _add_precision(described, content)
    described.add("labels", len(content["label_names"]), some(content["label_names"]))
    described.add("several labels per row", bool(content.get("multi_label")))
    if content["precision"] == FLOAT32:  # else they are scores of the model that it was made of
        _add_training(described, content.get("info", {}))
    if (folder / WEIGHTS).is_file():
        described.add("size of the weights", (folder / WEIGHTS).stat().st_size, _size(folder / WEIGHTS))
    described.add("model fingerprint", fingerprint_of(folder))
    described.facts["versions"] = content.get("versions", {})
    described.suggest("encode", name, "DATA", "--out", "data.codes")
    return described


def describe_run(folder: Path) -> Described:
    """A run folder, finished or not."""
    run = RunFolder(folder)
    choices = Choices.load(run.choices_file)
    if choices is not None and run.is_in_trials:
        settings = choices.config.model_dump(mode="json")
    else:
        settings = run.saved_settings()
    method, data = (settings.get(group, {}) for group in ("method", "data"))
    name = method.get("name", "?")
    length = method.get("bits")
    source = data.get("source", "?")
    described = Described("run", f"{folder}: a run of {name} with {length} bits on {source}")
    described.add("method", name)
    described.add("bits", length)
    described.add("data", source)
    described.add("seed", settings.get("seed"))
    if run.protocol_file.exists():
        _add_split(described, Protocol.load(run.protocol_file))
    described.add("state", _state(run))
    if choices is not None and choices.trials:
        described.add("trials", len(choices.trials))
    if run.failure.exists():
        described.add("failure", run.failed_sentence())
    if is_model(run.model):
        content = read_model(run.model)
        described.add("labels", len(content["label_names"]), some(content["label_names"]))
        _add_training(described, content.get("info", {}))
        described.add("model", str(run.model))
        described.add("model fingerprint", fingerprint_of(folder))
    if run.has_student:
        described.add("student", str(run.student))
    for file in sorted(run.path.glob("scores*.json")):
        _add_scores(described, file)
    _add_codes(described, run)
    _suggest_for_run(described, run, data)
    return described


def _add_precision(described: Described, content: dict[str, Any]) -> None:
    described.add("precision", content["precision"])
    quantisation, made = quantisation_of(content), content["info"].get(INT8)
    if quantisation is None:
        return
    described.facts["ranges"] = quantisation.to_dict()
    if isinstance(made, dict):  # what `scdh quantise` found
        for name in ("float32_model", "calibration_images", "compared_images", "differing_bits", "map", "float32_map"):
            described.add(name.replace("_", " ").replace("map", "MAP"), made.get(name))


def _add_training(described: Described, info: dict[str, Any]) -> None:
    described.add("epochs", info.get("epochs"))
    described.add("best epoch", info.get("best_epoch"))
    described.add("validation MAP", info.get("validation_map"))


def _add_split(described: Described, protocol: Protocol) -> None:
    counts = {part: len(getattr(protocol, part)) for part in ("train", "validation", "query", "database")}
    described.add("split", protocol.name, protocol.about or None)
    described.add("rows", counts, counts_text(counts))
    described.add("split fingerprint", protocol.fingerprint)


def _state(run: RunFolder) -> str:
    if run.is_finished:
        return "finished"
    if run.failure.exists():
        return "failed"
    if run.is_in_trials:
        return "in its trials of settings, can be resumed"
    return "stopped, can be resumed" if run.checkpoint.exists() else "not finished"


def _add_scores(described: Described, file: Path) -> None:
    content = read_json(file)
    if not isinstance(content, dict) or not isinstance(content.get("map"), float):
        return
    name = file.stem.replace("_", " ")
    texts = [f"MAP {content['map']:.4f}"]
    facts = {"map": content["map"], "precision_at_k": content.get("precision_at_k", {})}
    if "10" in facts["precision_at_k"]:
        texts.append(f"precision@10 {facts['precision_at_k']['10']:.4f}")
    if "floats" in content:
        facts["floats_map"] = content["floats"]["map"]
        texts.append(f"the {content['floats']['width']:,} floats behind it {content['floats']['map']:.4f}")
    described.add(name, facts, ", ".join(texts))


def _add_codes(described: Described, run: RunFolder) -> None:
    """Codes and indexes in the run's folder that its model made."""
    own = described.facts.get("model_fingerprint")
    files = sorted({*run.path.glob("*.codes"), *run.path.glob("codes/*.codes"), *run.path.glob("*.index")})
    made = [str(file.relative_to(run.path)) for file in files if own is not None and model_of_file(file) == own]
    others = [str(file.relative_to(run.path)) for file in files if str(file.relative_to(run.path)) not in made]
    if made:
        described.add("codes of this model", made, ", ".join(made))
    if others:
        described.add("codes of other models", others, ", ".join(others))


def _suggest_for_run(described: Described, run: RunFolder, data: dict[str, Any]) -> None:
    if not run.is_finished:
        if not run.failure.exists():
            described.suggest("train", "--resume", "--out", run)
        return
    if run.protocol_file.exists() and len(Protocol.load(run.protocol_file).query):
        described.suggest("evaluate", run)
    described.suggest("report", run)
    described.suggest("encode", run, data.get("source"), *data_options(data), "--out", run.path / "all.codes")


def fingerprint_of(folder: Path) -> str | None:
    """Fingerprint of the model in a run or model folder; None if the model cannot be read."""
    model = folder / MODEL_OF_RUN if is_model(folder / MODEL_OF_RUN) else folder
    try:
        return str(read_model(model)["fingerprint"])
    except ModelError:
        return None


def model_of_file(file: Path) -> str | None:
    """Fingerprint of the model that made the codes of a codes or index file; None if it does not say."""
    from scdh.index import HammingIndex

    try:
        if file.suffix == ".index":
            return HammingIndex.load(file).metadata.get("model")
        return read_metadata(file, "scdh-codes").get("model")
    except CodesError:
        return None


def takes_images(folder: Path) -> bool:
    """Whether the model in a run or model folder encodes images, not embeddings."""
    return read_model(folder / MODEL_OF_RUN if is_model(folder / MODEL_OF_RUN) else folder).get("feature_width") is None


def find_maker(fingerprint: str, near: Path) -> Path | None:
    """The run or model folder nearby that has this fingerprint."""
    here = near.resolve().parent
    folders = [here, *list(here.parents)[:2]]
    for place in (here, here / "runs", Path.cwd(), Path.cwd() / "runs"):
        if place.is_dir():
            folders += [folder for folder in sorted(place.iterdir()) if folder.is_dir()]
    for folder in list(dict.fromkeys(folders))[:MOST_FOLDERS]:
        if (is_run(folder) or is_model(folder)) and fingerprint_of(folder) == fingerprint:
            return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    return None


def _size(path: Path) -> str:
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size:,} bytes"

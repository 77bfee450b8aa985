"""Which runs a comparison is made of: methods × bits × seeds, all under one protocol, one network and one budget."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from scdh.config import RunConfig, load_config
from scdh.data.batches.sampling import shares, steps_per_epoch
from scdh.data.source import Source
from scdh.errors import ConfigError, unknown_name
from scdh.methods.registry import method_class, method_names, method_settings
from scdh.runs.protocol import protocol_of
from scdh.training.defaults import fitting_settings
from scdh.training.loop import refuse_two_averages

# What all methods of a comparison share: a setting of one method's own, or one to tune, may not change these.
SHARED = (
    *("data.", "net.", "seed", "method.name", "method.bits"),
    *("train.epochs", "train.epoch_steps", "train.batch_size", "train.keep", "train.validate_every"),
)


@dataclass(frozen=True)
class Cell:
    """One run of a comparison."""

    method: str
    bits: int
    seed: int
    config: RunConfig
    tried: str = ""  # values that are being tried, in words

    @property
    def name(self) -> str:
        return f"{self.method}-{self.bits}-{self.seed}" + (f"-{self.tried}" if self.tried else "")


@dataclass(frozen=True)
class Grid:
    """What is asked for. ``chosen`` are settings of all methods by dotted key; ``own`` those of single methods."""

    methods: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: tuple[int, ...]
    preset: str | None = None
    file: Path | None = None
    chosen: Mapping[str, Any] | None = None
    own: Mapping[str, Mapping[str, Any]] | None = None

    def check(self) -> "Grid":
        for name in (*self.methods, *(self.own or {})):
            if name not in method_names():
                raise ConfigError(unknown_name("method", name, method_names()))
        for name in self.own or {}:
            if name not in self.methods:
                raise ConfigError(f"Settings are given for {name}, which is not among the methods compared.")
        for settings in (self.own or {}).values():
            check_not_shared(settings)
        for what, values in (("methods", self.methods), ("bits", self.bits), ("seeds", self.seeds)):
            if not values or len(set(values)) != len(values):
                raise ConfigError(f"The {what} to compare must be at least one and all different, not {list(values)}.")
        return self

    def check_labels(self, source: Source) -> None:
        """A method that cannot learn from such labels is told before any work, not when its turn comes."""
        for name in self.methods:
            if not takes_labels(name, source):
                kind = method_class(name).about.labels[0]
                raise ConfigError(
                    f"{name} learns from {kind}-label data only, which {source.name} is not; leave it out."
                )

    def config(self, method: str, bits: int, seed: int, source: Source | None, **more: Any) -> RunConfig:
        """Settings of one cell: as asked for and, where neither preset nor file says more, as suits the data."""
        chosen = {**(self.chosen or {}), **(self.own or {}).get(method, {}), **more}
        named = {"method.name": method, "method.bits": bits, "seed": seed}
        taken: dict[str, Any] = {}
        if self.preset is None and self.file is None and source is not None:
            taken = fitting_settings(load_config(overrides={**chosen, **named}), source, chosen)
        return load_config(self.preset, self.file, {**taken, **chosen, **named})

    def cells(self, source: Source, epochs: Mapping[tuple[str, int], int] | None = None) -> list[Cell]:
        """Seeds turn slowest: after the first round there is a whole table, and each further one steadies it.

        ``epochs`` may give (method, bits) their own number of epochs, for equal times.
        """
        order, counts = product(self.seeds, self.bits, self.methods), Counts()
        given = epochs or {}
        return [self.cell(source, name, bits, seed, given.get((name, bits)), counts) for seed, bits, name in order]

    def cell(
        self,
        source: Source,
        method: str,
        bits: int,
        seed: int,
        epochs: int | None = None,
        counts: "Counts | None" = None,
    ) -> Cell:
        """Every method's epoch has as many steps as one pass over the labelled rows, also where it sees unlabelled
        rows beside them: equal epochs are equal steps.
        """
        config, more = self.config(method, bits, seed, source), {}
        if method_class(method).learns_by_gradient and config.train.epoch_steps is None:
            rows = (counts or Counts()).labelled(config, source)
            more["train.epoch_steps"] = steps_per_epoch(rows, config.train.batch_size)
        if epochs is not None:
            more |= _with_epochs(config, epochs)
        return Cell(method, bits, seed, self.config(method, bits, seed, source, **more))


class Counts:
    """Labelled training rows of a split; cells share a few splits, and drawing one takes a while."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def labelled(self, config: RunConfig, source: Source) -> int:
        key = f"{config.seed} {config.data.model_dump_json()}"
        if key not in self.known:
            self.known[key] = len(protocol_of(config, source).train)
        return self.known[key]


def takes_labels(method: str, source: Source) -> bool:
    return ("multi" if source.multi_label else "single") in method_class(method).about.labels


def refuse_early(config: RunConfig, source: Source) -> None:
    """What training would refuse only when its turn comes."""
    kind = method_class(config.method.name)
    if not kind.learns_by_gradient:
        return
    settings = method_settings(config.method.name, config.method.own)
    refuse_two_averages(kind(settings, config.method.bits, source.num_classes, source.multi_label), config.train)
    if kind.learns_from_unlabelled and len(protocol_of(config, source).unlabelled):
        shares(config.train.batch_size, config.train.labelled_share)


def check_not_shared(keys: Iterable[str]) -> None:
    for key in keys:
        if any(key == one or (one.endswith(".") and key.startswith(one)) for one in SHARED):
            raise ConfigError(f"{key} must be the same for every method, else they cannot be compared; set it for all.")


def _with_epochs(config: RunConfig, epochs: int) -> dict[str, Any]:
    """Another length; the steps of the learning rate keep their place in it."""
    steps = [max(1, round(at * epochs / config.train.epochs)) for at in config.train.lr_steps]
    return {"train.epochs": epochs, "train.lr_steps": steps}


def split_own(settings: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """``KEY=VALUE`` for all methods, and ``METHOD:KEY=VALUE`` for one, told apart."""
    common: list[str] = []
    own: dict[str, list[str]] = {}
    for text in settings:
        head, colon, rest = text.partition(":")
        if colon and "=" not in head:
            own.setdefault(head.strip(), []).append(rest)
        else:
            common.append(text)
    return common, own

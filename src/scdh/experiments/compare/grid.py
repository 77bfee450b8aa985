"""The runs of a comparison: methods × bits × seeds, all under one protocol, with one network and one budget."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from scdh.config import RunConfig, load_config
from scdh.data.batches.sampling import shares, steps_per_epoch
from scdh.data.protocol import Protocol, learned_source
from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.label_arrays import count_label_sets
from scdh.methods.registry import check_known, make_method, method_class
from scdh.runs.protocol import protocol_of
from scdh.training.defaults import suited_choices
from scdh.training.loop import reject_two_averages

# What all methods of a comparison share: neither settings of one method nor values to tune may change these.
SHARED = (
    *("data.", "net.", "seed", "method.name", "method.bits"),
    *("train.epochs", "train.epoch_steps", "train.batch_size", "train.balanced", "train.augmentation"),
    *("train.keep", "train.validate_every", "train.validation_database", "train.patience", "train.ema"),
    *("train.recalibrate", "train.precision"),
)


@dataclass(frozen=True)
class Cell:
    """One run of a comparison."""

    method: str
    bits: int
    seed: int
    config: RunConfig
    tried: str = ""  # values that tuning tries, as text

    @property
    def name(self) -> str:
        return f"{self.method}-{self.bits}-{self.seed}" + (f"-{self.tried}" if self.tried else "")


@dataclass(frozen=True)
class Grid:
    """What to compare.

    Args:
        methods: names of methods.
        bits: lengths of codes.
        seeds: each decides split, first weights and order.
        preset: name of ready settings.
        file: TOML file with settings that override the preset.
        settings: settings of all runs by dotted key, overriding preset and file.
        method_settings: settings of single methods: method → dotted key → value.
        known: cache, shared with the grids that this one was derived from.
    """

    methods: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: tuple[int, ...]
    preset: str | None = None
    file: Path | None = None
    settings: Mapping[str, Any] | None = None
    method_settings: Mapping[str, Mapping[str, Any]] | None = None
    known: "Known" = field(default_factory=lambda: Known(), compare=False, repr=False)

    def bits_of(self, method: str) -> tuple[int, ...]:
        """The lengths of codes that a method has."""
        return tuple(bits for bits in self.bits if method_class(method).about.has_length(bits))

    def middle_bits(self, method: str) -> int:
        """The length of codes at which a method's settings are chosen for all lengths: the middle one, or the nearest
        that the method has.
        """
        middle = sorted(self.bits)[len(self.bits) // 2]
        return min(self.bits_of(method), key=lambda bits: (abs(bits - middle), bits))

    def left_out(self) -> list[str]:
        """Sentences about methods that do not support all lengths."""
        sentences = []
        for name in self.methods:
            about, without = method_class(name).about, sorted(set(self.bits) - set(self.bits_of(name)))
            if without:
                lengths = ", ".join(map(str, without))
                sentences.append(
                    f"{about.title} has multiples of {about.bits_multiple} bits only, so none of {lengths}."
                )
        return sentences

    def check(self) -> "Grid":
        """Return the grid, or raise ConfigError if it is invalid."""
        for name in (*self.methods, *(self.method_settings or {})):
            check_known(name)
        for name in self.method_settings or {}:
            if name not in self.methods:
                raise ConfigError(f"Settings are given for {name}, which is not among the methods compared.")
        for settings in (self.method_settings or {}).values():
            check_not_shared(settings)
        for what, values in (("methods", self.methods), ("bits", self.bits), ("seeds", self.seeds)):
            if not values or len(set(values)) != len(values):
                raise ConfigError(f"The {what} to compare must be at least one and all different, not {list(values)}.")
        return self

    def check_methods(self, source: Source) -> None:
        """Raise, before any work, for methods that cannot learn from such labels or support none of the lengths."""
        for name in self.methods:
            if not self.bits_of(name):
                multiple = method_class(name).about.bits_multiple
                raise ConfigError(f"{name} has multiples of {multiple} bits only; leave it out, or add such a length.")
            if not takes_labels(name, source):
                kind = method_class(name).about.labels[0]
                raise ConfigError(
                    f"{name} learns from {kind}-label data only, which {source.name} is not; leave it out."
                )

    def check_runs(self, source: Source) -> None:
        """Raise now for settings that training would reject later."""
        self.check_methods(source)
        for name in self.methods:
            for bits in self.bits_of(name):
                cell = self.cell(source, name, bits, self.seeds[0])
                check_run(cell.config, source, self.split(source, cell.seed).protocol)

    def config(self, method: str, bits: int, seed: int, given: Mapping[str, Any]) -> RunConfig:
        """Settings of a run that override the preset and the file; the same settings are parsed once."""
        given = {key: at_length(value, bits) if key.startswith("method.") else value for key, value in given.items()}
        return self.known.config(
            self.preset, self.file, {**given, "method.name": method, "method.bits": bits, "seed": seed}
        )

    def split(self, source: Source, seed: int) -> "Split":
        """The split of a seed, which all methods share."""
        return self.known.split(self.config(self.methods[0], self.bits[0], seed, self.settings or {}), source)

    def cells(self, source: Source) -> list[Cell]:
        """All cells, seed by seed: a comparison that is stopped early has whole seeds."""
        order = product(self.seeds, self.bits, self.methods)
        return [self.cell(source, name, bits, seed) for seed, bits, name in order if bits in self.bits_of(name)]

    def cell(self, source: Source, method: str, bits: int, seed: int) -> Cell:
        """One cell: settings as given and, if there is neither preset nor file, as ``scdh train`` takes for the data.

        Every method's epoch has as many steps as one pass over the labelled rows, also where it sees unlabelled rows in
        addition to them: equal epochs are equal steps.
        """
        given = {**(self.settings or {}), **(self.method_settings or {}).get(method, {})}
        # The settings without the method's own: those that decide the split and the steps are the same for all methods.
        shared = self.config(self.methods[0], self.bits[0], seed, self.settings or {})
        split = self.known.split(shared, source)
        values = {**self._suited(shared, split, method, given), **given}

        def value_of(name: str) -> Any:
            return values.get(f"train.{name}", getattr(shared.train, name))

        if method_class(method).learns_by_gradient and value_of("epoch_steps") is None:
            values["train.epoch_steps"] = steps_per_epoch(len(split.protocol.train), value_of("batch_size"))
        # With the defaults written out, so that runs of a later version with other defaults are not mistaken for these.
        return Cell(method, bits, seed, self.config(method, bits, seed, values).with_method_defaults())

    def _suited(self, shared: RunConfig, split: "Split", method: str, given: Mapping[str, Any]) -> dict[str, Any]:
        if self.preset is not None or self.file is not None:
            return {}
        config = shared.model_copy(update={"method": shared.method.model_copy(update={"name": method})})
        counts = split.protocol.searched_counts
        rows = len(split.protocol.train)
        made = suited_choices(config, split.learned, rows, given, searched=counts, label_sets=split.label_sets)
        return {choice.setting: choice.value for choice in made}


@dataclass(frozen=True)
class Split:
    """The rows of a seed, the data with the labels that training sees, and how many sets of labels it sees."""

    protocol: Protocol
    learned: Source
    label_sets: int


class Known:
    """A cache of the settings and splits of a comparison: its cells share a few splits."""

    def __init__(self) -> None:
        self._configs: dict[str, RunConfig] = {}
        self._splits: dict[str, Split] = {}

    def config(self, preset: str | None, file: Path | None, values: Mapping[str, Any]) -> RunConfig:
        """The settings of a run, as :func:`scdh.load_config` gives them."""
        key = repr((preset, file, sorted(values.items())))
        if key not in self._configs:
            self._configs[key] = load_config(preset, file, values)
        return self._configs[key]

    def split(self, config: RunConfig, source: Source) -> Split:
        """The split that the settings describe."""
        key = f"{config.seed} {config.data.model_dump_json()}"
        if key not in self._splits:
            if source.pairs is not None:
                raise ConfigError("A comparison is of methods that learn from labels; leave data.pairs out.")
            protocol = protocol_of(config, source)
            learned = learned_source(source, protocol)
            label_sets = count_label_sets(learned.labels[protocol.train])
            self._splits[key] = Split(protocol, learned, label_sets)
        return self._splits[key]


def takes_labels(method: str, source: Source) -> bool:
    """Whether a method can learn from the labels of a source (one per item, or many)."""
    return ("multi" if source.multi_label else "single") in method_class(method).about.labels


def check_run(config: RunConfig, source: Source, protocol: Protocol) -> None:
    """Raise now for settings that training would reject later."""
    chosen = config.method
    method = make_method(chosen.name, chosen.own, chosen.bits, source.num_classes, source.multi_label)
    if not method.learns_by_gradient:
        return
    reject_two_averages(method, config.train)
    if method.learns_from_unlabelled and len(protocol.unlabelled):
        shares(config.train.batch_size, config.train.labelled_share)


def check_not_shared(keys: Iterable[str]) -> None:
    """Raise for settings of one method that all methods must share."""
    for key in keys:
        if any(key == shared or (shared.endswith(".") and key.startswith(shared)) for shared in SHARED):
            raise ConfigError(f"{key} must be the same for every method, else they cannot be compared; set it for all.")


def at_length(value: Any, bits: int) -> Any:
    """A value that is given as a share of the bits r, such as "2r" or "r/4", for a length of codes; others stay.

    >>> at_length("r/4", 48), at_length("2r", 12), at_length("relu", 12), at_length(0.5, 12)
    (12.0, 24.0, 'relu', 0.5)
    """
    share = re.fullmatch(r"(\d*)r(?:/(\d+))?", value) if isinstance(value, str) else None
    return value if share is None else int(share[1] or 1) * bits / int(share[2] or 1)


def split_settings(settings: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """``KEY=VALUE`` texts for all methods, and ``METHOD:KEY=VALUE`` texts by method."""
    common: list[str] = []
    by_method: dict[str, list[str]] = {}
    for text in settings:
        head, colon, rest = text.partition(":")
        if colon and "=" not in head:
            by_method.setdefault(head.strip(), []).append(rest)
        else:
            common.append(text)
    return common, by_method

"""The scales of a reproduction: the data in place of the paper's, the network, methods, lengths and seeds.

A scale is a TOML file. Its roles are ``single`` (the paper's CIFAR-10), ``multi`` (NUS-WIDE), ``many`` (ImageNet) and
``synthetic`` (ImageNet too, only for the warm-up). From a scale follow the studies: comparisons of methods, and of one
method with several values of a setting.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scdh.config import one_sentence, read_settings_file
from scdh.errors import ConfigError, unknown_name
from scdh.experiments.compare.grid import Grid
from scdh.storage.files import replacing

SCALES = ("quick", "cpu", "full")
ROLES = ("single", "multi", "many", "synthetic")
WARM_UPS = {"many": "warm-up", "synthetic": "warm-up-synthetic"}  # role → group of studies


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Role(_Table):
    """The data and the network that stand for one data set of the paper.

    ``network`` is the paper's network that results are shown next to. ``needs`` is "path" or "root" if the user gives
    the data, as ``data.source`` or ``data.root``, and "clusters" for data that are made up (:mod:`.made_up`), with
    ``classes`` classes. ``methods`` may be empty for data that only the warm-up uses.
    """

    title: str
    stands_for: str
    is_same: bool = Field(description="whether these are the paper's data, so that differences may be shown")
    network: str = "AlexNet"
    needs: Literal["", "path", "root", "clusters"] = ""
    classes: int = 200
    needs_packages: tuple[str, ...] = ()
    preset: str | None = None
    methods: tuple[str, ...] = ()
    bits: tuple[int, ...] = ()
    settings: dict[str, Any] = {}
    method_settings: dict[str, dict[str, Any]] = {}
    semi_methods: tuple[str, ...] = ()
    semi_settings: dict[str, Any] = {}


class Scale(_Table):
    """One scale.

    ``run_seconds`` is the expected time of a run, for a plan before any run was measured. ``rates``: learning rates of
    which each method of a comparison takes the one with the highest validation MAP, at the middle length and the first
    seed; empty: the rate of the settings. ``sensitivity``: setting of SCDH → values; ``warm_up``: norms s, where 0 is a
    random start. Both use ``longest`` bits and the rate of the settings.
    """

    name: str = Field(pattern="^[A-Za-z0-9_-]+$", description="a part of the name of the folder of its results")
    about: str
    seeds: tuple[int, ...]
    rates: tuple[float, ...] = ()
    run_seconds: float
    longest: int = 48
    sensitivity: dict[str, tuple[float, ...]] = {}
    warm_up: tuple[float, ...] = ()
    warm_up_epochs: int = 5
    roles: dict[Literal["single", "multi", "many", "synthetic"], Role]


class Study:
    """One comparison of a reproduction: the methods of ``grid`` on the data of ``role``.

    ``rates`` are those that each method tries; empty: the rate of the settings.
    """

    def __init__(self, name: str, role: Role, grid: Grid, rates: tuple[float, ...] = ()) -> None:
        self.name = name
        self.role = role
        self.grid = grid
        self.rates = rates

    @property
    def group(self) -> str:
        """The name without the value that it tries."""
        return self.name.partition("=")[0]

    @property
    def value(self) -> float:
        """The value that it tries."""
        return float(self.name.partition("=")[2])


def load_scale(name: str) -> Scale:
    """A scale of the package by name, or of a TOML file by path."""
    if name in SCALES:
        file = resources.files("scdh.experiments.reproduce") / "scales" / f"{name}.toml"
        content = tomllib.loads(file.read_text("utf-8"))
    elif Path(name).is_file():
        content = read_settings_file(name)
    else:
        raise ConfigError(unknown_name("scale", name, SCALES))
    try:
        return Scale.model_validate(content)
    except ValidationError as error:
        raise ConfigError(one_sentence(error, Scale)) from None


def all_studies(scale: Scale, places: Mapping[str, str], seeds: tuple[int, ...] | None = None) -> list[Study]:
    """The studies of a scale whose data are there."""
    return list(_studies(scale, places, seeds or scale.seeds))


def _studies(scale: Scale, places: Mapping[str, str], seeds: tuple[int, ...]) -> Iterator[Study]:
    for name, role in scale.roles.items():
        if role.needs and name not in places:
            continue
        given = {"data.root" if role.needs == "root" else "data.source": places[name]} if role.needs else {}
        settings = {**role.settings, **given}

        def study(
            title: str,
            methods: tuple[str, ...],
            bits: tuple[int, ...],
            more: Mapping[str, Any],
            rates: tuple[float, ...] = (),
            role: Role = role,
            settings: Mapping[str, Any] = settings,
        ) -> Study:
            own = {method: role.method_settings[method] for method in methods if method in role.method_settings}
            grid = Grid(methods, bits, seeds, role.preset, None, {**settings, **more}, own)
            return Study(title, role, grid, rates)

        if role.methods:
            yield study(name, role.methods, role.bits, {}, scale.rates)
        if role.semi_methods:
            yield study(f"semi-{name}", role.semi_methods, role.bits, role.semi_settings, scale.rates)
        if name == "single":
            for key, values in scale.sensitivity.items():
                for value in values:
                    yield study(f"{key}={value:g}", ("scdh",), (scale.longest,), {f"method.{key}": value})
        if name in WARM_UPS:
            for norm in scale.warm_up:
                epochs = scale.warm_up_epochs if norm else 0
                warm_up = {"method.warm_up_epochs": epochs} | ({"method.warm_up_norm": norm} if norm else {})
                yield study(f"{WARM_UPS[name]}={norm:g}", ("scdh",), (scale.longest,), warm_up)


ROWS = 32
WIDTH = 64
SPREAD = 0.9


def write_clusters(folder: Path, classes: int) -> Path:
    """Write ``folder/clusters-<classes>.npz`` if it is not there: x = c_y + 0.9·N(0, I), c ~ N(0, I) in 64 dimensions.

    Returns:
        The path of the file.
    """
    path = folder / f"clusters-{classes}.npz"
    if not path.exists():
        rng = np.random.default_rng(0)
        centres = rng.normal(size=(classes, WIDTH))
        labels = np.repeat(np.arange(classes), ROWS)
        vectors = centres[labels] + SPREAD * rng.normal(size=(len(labels), WIDTH))
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, open(temporary, "wb") as handle:
            np.savez(handle, X=vectors.astype(np.float32), y=labels)
    return path

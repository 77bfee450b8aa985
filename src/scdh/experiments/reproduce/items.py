"""The items of a reproduction: every table and figure of the paper, and the studies that each needs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scdh.errors import ConfigError, unknown_name
from scdh.experiments.reproduce import figures, tables
from scdh.experiments.reproduce.blocks import Block
from scdh.experiments.reproduce.run import Reproduced
from scdh.experiments.reproduce.scale import WARM_UPS


@dataclass(frozen=True)
class Item:
    """One item."""

    name: str
    about: str
    needs: tuple[str, ...]
    build: Callable[[Reproduced], Sequence[Block | None]]


ITEMS = (
    Item(
        "map-single",
        "table I: MAP by bits on CIFAR-10",
        ("single",),
        lambda r: [tables.map_by_bits(r, "single", "map_single")],
    ),
    Item(
        "map-multi",
        "table II: MAP by bits on NUS-WIDE",
        ("multi",),
        lambda r: [tables.map_by_bits(r, "multi", "map_multi")],
    ),
    Item("many-classes", "table III: MAP with many classes", ("many",), lambda r: [tables.many_classes(r)]),
    Item("training-time", "table IV: training time", ("single", "multi"), lambda r: [tables.training_time(r)]),
    Item(
        "semi-supervised",
        "table V: MAP with unlabelled rows",
        ("semi-single", "semi-multi"),
        lambda r: [tables.semi_supervised(r, role) for role in ("single", "multi")],
    ),
    Item(
        "variants",
        "table VI: SCDH-S and SCDH-C, with precision within radius 2",
        ("single", "multi", "many"),
        lambda r: [tables.variants(r, role, f"variants_{role}") for role in ("single", "multi", "many")],
    ),
    Item(
        "warm-up",
        "table VII: warm-up of the centres",
        tuple(WARM_UPS.values()),
        lambda r: [tables.warm_up(r, group) for group in WARM_UPS.values()],
    ),
    Item(
        "toy",
        "figure: the toy example of the bound, and λ over (σ, d)",
        (),
        lambda r: [figures.toy_path(r), figures.toy_map(r)],
    ),
    Item("gradient-field", "figure: the gradient field of l_q", (), lambda r: [figures.gradient_field(r)]),
    Item(
        "precision",
        "figure: precision within radius 2 by bits, and of the first k",
        ("single", "multi"),
        lambda r: [figures.precision_by_bits(r, role) for role in ("single", "multi")],
    ),
    Item("intra-class", "figure: distances within a class", ("single",), lambda r: [figures.intra_class(r)]),
    Item("tsne", "figure: t-SNE of SCDH, SCDH-S and SCDH-C", ("single",), lambda r: [figures.tsne_maps(r)]),
    Item(
        "sensitivity",
        "figure: MAP and precision by α, λ and μ",
        ("alpha", "lam", "mu"),
        lambda r: [figures.sensitivity(r)],
    ),
    Item("l_q", "figure: final l_q against α", ("alpha",), lambda r: [figures.quantisation_by_alpha(r)]),
    Item("epochs", "figure: MAP by epoch for several μ", ("mu",), lambda r: [figures.map_by_epoch(r)]),
)


def chosen_items(names: Sequence[str]) -> list[Item]:
    """The items of these names, in the order of the paper; none or "all": every item."""
    known = [item.name for item in ITEMS]
    for name in names:
        if name not in (*known, "all"):
            raise ConfigError(unknown_name("item", name, known))
    is_all = not names or "all" in names
    return [item for item in ITEMS if is_all or item.name in names]

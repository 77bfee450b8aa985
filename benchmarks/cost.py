"""What losses cost as the batch and the data grow: the paper's O(n) for SCUL against O(n²) pairs and O(n³) triplets.

Timed is the loss alone, forward and backward, on outputs that are already there. The network in front of it costs the
same for every loss, so it would only hide what is compared.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.report import PER_EPOCH, PER_STEP
from benchmarks.timing import Row, Table, print_row, take_turns
from scdh.losses import contrastive_loss, pair_likelihood_loss, scul, triplet_hinge_loss, triplet_ranking_loss

STEP_GROWTH, EPOCH_GROWTH = "How the cost of a step grows", "How the cost of an epoch grows"
LAMBDA, NINH_MARGIN = 0.005, 2.0
MISSING = "–"


@dataclass(frozen=True)
class Plan:
    bits: int = 48
    classes: tuple[int, ...] = (10, 100)
    batches: tuple[int, ...] = tuple(32 * 2**i for i in range(8))  # 32 … 4,096
    compared_at: tuple[int, int] = (128, 1024)
    stored: int = 5000  # DPSH's table in the table per step: the training images of CIFAR-10's protocol
    sizes: tuple[int, ...] = tuple(250 * 2**i for i in range(9))  # 250 … 64,000
    batch: int = 128
    epochs_compared_at: tuple[int, ...] = (1000, 4000, 64000)
    longest: float = 2.0  # seconds; a loss stops growing before a call would take longer
    turns: int = 5
    window: float = 0.02


QUICK = Plan(
    batches=(32, 128, 512),
    compared_at=(128, 512),
    sizes=(250, 500, 1000, 2000),
    epochs_compared_at=(500, 2000),
    longest=0.2,
    turns=3,
)

Times = dict[int, float]
Work = Callable[[int], object]


@dataclass(frozen=True)
class Loss:
    """A loss to be timed: what theory says of its cost, the power of what grows in it, and its work on outputs
    u [n, r] with labels y [n] of C classes."""

    name: str
    theory: str
    power: int
    work: Callable[[Tensor, Tensor, int], Work]


def measure(plan: Plan) -> list[Table]:
    per_step, stops = {}, {}
    for classes in plan.classes:
        name = f"{classes} classes"
        per_step[classes], stops[name] = _grow(plan, _per_step(plan), plan.batches, classes, name)
    per_epoch, ends = _grow(plan, _per_epoch(plan), plan.sizes, plan.classes[0], "an epoch")
    shared = (
        f"{plan.bits} bits, forward and backward; the plain sum over every triplet is forward only, in float64. "
        f"Medians of at most {plan.turns} turns. Where there is no figure, a call would have taken more than "
        f"{plan.longest:g} s; the last that were measured: "
    )
    early = "; ".join(f"with {name} {_listed(last)}" for name, last in stops.items())
    return [
        Table(STEP_GROWTH, _about_steps(plan), _step_growth(plan, per_step)),
        Table(EPOCH_GROWTH, _about_epochs(plan), _epoch_growth(plan, per_epoch)),
        Table(PER_STEP, f"{shared}{early}.", _rows("batch", per_step)),
        Table(PER_EPOCH, f"{shared}{_listed(ends)}.", _rows("items", {plan.classes[0]: per_epoch})),
    ]


def exponent(times: Mapping[int, float]) -> tuple[float, list[int]] | None:
    """The slope of log time over log size, in the upper half of the sizes' logarithmic range, and the sizes it is from:
    below, fixed costs of a call hide the growth. None where that half has fewer than two sizes.
    """
    if not times:
        return None
    middle = np.sqrt(min(times) * max(times))
    upper = sorted(size for size in times if size >= middle * (1 - 1e-9))
    if len(upper) < 2:
        return None
    slope = np.polyfit(np.log(upper), np.log([times[size] for size in upper]), 1)[0]
    return float(slope), upper


def _per_step(plan: Plan) -> list[Loss]:
    """One step on a batch of n outputs."""
    stored = torch.randn(plan.stored, plan.bits)
    return [
        Loss("SCUL", "B·C·r", 1, _scul_work),
        Loss("DSH", "B²·r", 2, _dsh_work),
        Loss("DPSH", "B·n·r", 1, lambda u, y, classes: _dpsh_work(u, y, stored, torch.arange(len(stored)) % classes)),
        Loss("NINH", "B²·(r + log B)", 2, _ninh_work),
        Loss("every triplet", "B³/C", 3, _every_triplet_work),
    ]


def _per_epoch(plan: Plan) -> list[Loss]:
    """All n items once: in batches, or in one step that sees all pairs or triplets."""

    def in_batches(work: Callable[[Tensor, Tensor, int], Work]) -> Callable[[Tensor, Tensor, int], Work]:
        def epoch(u: Tensor, y: Tensor, classes: int) -> Work:
            # Each batch is a tensor of its own, as a network gives it: slices of one would each get a gradient of its
            # full length, which is n² again.
            parts = zip(u.split(plan.batch), y.split(plan.batch), strict=True)
            steps = [work(part.clone(), labels, classes) for part, labels in parts]
            return lambda turn: [step(turn) for step in steps]

        return epoch

    def against_all(u: Tensor, y: Tensor, classes: int) -> Work:
        return in_batches(lambda part, labels, _: _dpsh_work(part, labels, u, y))(u, y, classes)

    return [
        Loss("SCUL", "n·C·r", 1, in_batches(_scul_work)),
        Loss("DSH in batches", "n·B·r", 1, in_batches(_dsh_work)),
        Loss("DPSH, all stored", "n²·r", 2, against_all),
        Loss("all pairs", "n²·r", 2, _dsh_work),
        Loss("all triplets, sorted", "n²·(r + log n)", 2, _ninh_work),
        Loss("every triplet", "n³/C", 3, _every_triplet_work),
    ]


def _with_gradient(value: Callable[[], Tensor], *learned: Tensor) -> Work:
    return lambda turn: torch.autograd.grad(value(), learned)


def _scul_work(u: Tensor, y: Tensor, classes: int) -> Work:
    u, centres = u.requires_grad_(), (torch.randn(classes, u.shape[1]) * 0.5).requires_grad_()
    return _with_gradient(lambda: scul(u, y, centres, LAMBDA), u, centres)


def _dsh_work(u: Tensor, y: Tensor, classes: int) -> Work:
    u = u.requires_grad_()
    return _with_gradient(lambda: contrastive_loss(u, y, 2.0 * u.shape[1]), u)


def _dpsh_work(u: Tensor, y: Tensor, stored: Tensor, stored_y: Tensor) -> Work:
    u = u.requires_grad_()
    return _with_gradient(lambda: pair_likelihood_loss(u, y, stored, stored_y), u)


def _ninh_work(u: Tensor, y: Tensor, classes: int) -> Work:
    u = u.requires_grad_()
    return _with_gradient(lambda: triplet_hinge_loss(u.sigmoid(), y, NINH_MARGIN), u)


def _every_triplet_work(u: Tensor, y: Tensor, classes: int) -> Work:
    return lambda turn: triplet_ranking_loss(u, y)


def _grow(
    plan: Plan, losses: Sequence[Loss], sizes: Sequence[int], classes: int, what: str
) -> tuple[dict[str, Times], dict[str, int]]:
    """Times of every loss by size, and the last size of those that would have taken too long at the next."""
    times: dict[str, Times] = {loss.name: {} for loss in losses}
    going, stops = list(losses), dict[str, int]()
    for at, size in enumerate(sizes):
        generator = torch.Generator().manual_seed(size)
        u, y = torch.randn(size, plan.bits, generator=generator), torch.arange(size) % classes
        works = {loss.name: loss.work(u.clone(), y, classes) for loss in going}
        for work in works.values():
            work(0)
        least = min(3, plan.turns)
        medians = take_turns(works, most=plan.turns, least=least, seconds=1.0, window=plan.window, pause=0.0)
        for name, seconds in medians.items():
            times[name][size] = seconds
        milliseconds = {f"{name}, ms": 1e3 * seconds for name, seconds in medians.items()}
        print_row("cost", {"what": what, "size": size, **milliseconds})
        if at + 1 < len(sizes):
            growth = sizes[at + 1] / size
            slow = [loss for loss in going if medians[loss.name] * growth**loss.power > plan.longest]
            slow = [loss for loss in slow if loss.name != "SCUL"]  # the others are compared with it
            stops |= {loss.name: size for loss in slow}
            going = [loss for loss in going if loss not in slow]
    return times, stops


def _listed(stops: Mapping[str, int]) -> str:
    return ", ".join(f"{name} at {size:,}" for name, size in stops.items()) or "all"


def _rows(unit: str, by_classes: Mapping[int, Mapping[str, Times]]) -> list[Row]:
    rows: list[Row] = []
    for classes, times in by_classes.items():
        for size in times["SCUL"]:
            row: Row = {"classes": classes, unit: size}
            for name, by_size in times.items():
                row[f"{name}, ms"] = 1e3 * by_size[size] if size in by_size else MISSING
            rows.append(row)
    return rows


def _step_growth(plan: Plan, per_step: Mapping[int, Mapping[str, Times]]) -> list[Row]:
    return [
        {"loss": loss.name, "classes": classes, **_growth(loss, times, plan.compared_at)}
        for classes, times in per_step.items()
        for loss in _per_step(plan)
    ]


def _epoch_growth(plan: Plan, times: Mapping[str, Times]) -> list[Row]:
    return [{"loss": loss.name, **_growth(loss, times, plan.epochs_compared_at)} for loss in _per_epoch(plan)]


def _growth(loss: Loss, times: Mapping[str, Times], compared_at: Sequence[int]) -> Row:
    fit = exponent(times[loss.name])
    row: Row = {
        "cost in theory": loss.theory,
        "exponent in theory": str(loss.power),
        "exponent measured": MISSING if fit is None else f"{fit[0]:.2f}",
        "from sizes": MISSING if fit is None else f"{fit[1][0]:,} … {fit[1][-1]:,}",
    }
    for size in compared_at:
        seconds, scul_seconds = times[loss.name].get(size), times["SCUL"].get(size)
        row[f"times SCUL's at {size:,}"] = (
            MISSING if None in (seconds, scul_seconds) else f"{seconds / scul_seconds:.3g}"
        )
    return row


def _about_steps(plan: Plan) -> str:
    return (
        "These are different losses, so there are no results to compare; tests compare each with a slow version. B is "
        f"the batch, C the classes, r = {plan.bits} bits. DSH sees the pairs of the batch, DPSH those of the batch and "
        f"n = {plan.stored:,} stored outputs, NINH all triplets of the batch by sorted running sums, and the last one "
        "adds up every triplet one anchor at a time, as the paper writes it. The measured exponent is the slope in "
        "log-log over the upper half of the sizes; it is below theory where fixed costs of a call still matter, and "
        "above where tensors outgrow the caches. The cost of SCUL grows with C, that of pairs with B: with more "
        "classes than rows in a batch SCUL is slower."
    )


def _about_epochs(plan: Plan) -> str:
    return (
        f"n items, {plan.classes[0]} classes, batches of {plan.batch} for the first three. DSH in batches is O(n) too, "
        f"but sees n·{plan.batch} of the n² pairs. The others see all pairs or triplets: DPSH against a table of all "
        "outputs, or all of them in one step. Sorted running sums bring the triplets of the paper's O(n³) down to "
        "O(n² log n), for a hinge. Nothing is extrapolated."
    )

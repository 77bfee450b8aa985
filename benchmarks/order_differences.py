"""Why DISH, DSH and DSDH have other places than in the paper: ``python -m benchmarks.order_differences --cifar10 FOLDER
--mirflickr FILE``, validation MAP of the best epoch and of the last.

Each line is a method with one thing changed, or another method that it is compared with, under the protocols and
networks of docs/all_methods.md. "Bits changed" are those that DSDH's labels make another than sgn(u), a mean over its
steps. Queries are not looked at.
"""

import argparse
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks.pair_losses import CIFAR10, LONGER
from scdh.config import load_config
from scdh.data.source import Source
from scdh.errors import ScdhError
from scdh.experiments.compare.grid import Grid
from scdh.experiments.pages.markdown import markdown_table
from scdh.losses.labels import both_labelled, similar
from scdh.losses.pairwise import pairs_of_two
from scdh.methods.dsdh import Dsdh
from scdh.nets.discrete import CONVEX_DIAGONAL
from scdh.runs.protocol import source_of
from scdh.training.run import train

BITS, RATE = 32, 0.003
MIRFLICKR = {
    **{"data.label_column": "labels", "data.query_per_class": 50, "data.train_per_class": 150},
    **{"data.validation_per_class": 15, "net.image_size": 128, "train.batch_size": 128},
}
EPOCHS = {"cifar10": 25, "mirflickr": 30}  # of the comparisons in docs/all_methods.md


def factorise_by(similarity: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """DISH's step between rounds (``nets.discrete.factorise``) for another S; Q is formed.

    Args:
        similarity: makes S [n, n] of labels Y [n, C].
    """

    def factorise(codes: Tensor, labels: Tensor, outputs: Tensor, weight: float) -> Tensor:
        codes, bits, s = codes.clone(), codes.shape[1], similarity(labels)
        for k in range(bits):
            bit, linear, others = codes[:, k].clone(), weight / 2 * outputs[:, k], codes.clone()
            others[:, k] = 0
            q = bits * s - others @ others.T
            shifted, lift, new = linear / 2 - q.sum(1), CONVEX_DIAGONAL - bits * s.diagonal(), bit
            for _ in range(10):
                chosen = (new > 0).to(bit.dtype)
                slope = q @ chosen + shifted / 2 + lift * chosen
                before, new = new, torch.where(slope > slope.median(), 1.0, -1.0).to(bit.dtype)
                if (new != before).sum() < 0.001 * len(bit):
                    break
            is_better = new @ q @ new + linear @ new >= bit @ q @ bit + linear @ bit
            codes[:, k] = new if is_better else bit
        return codes

    return factorise


def labels_in_common(y: Tensor) -> Tensor:
    """S of the method: −1 for none, and 2 more for each."""
    return 2 * (y @ y.T) - 1


def any_in_common(y: Tensor) -> Tensor:
    """1 or −1, as MAP counts."""
    return 2.0 * (y @ y.T > 0).to(y.dtype) - 1


def up_to_three_in_common(y: Tensor) -> Tensor:
    """The polynomial that the author's release has beside the method's: −1 for no label in common, 1 for 1, 2 or 3."""
    x = y @ y.T
    return x**3 / 3 - 2 * x**2 + 11 * x / 3 - 1


def drawn_triplets_loss(h: Tensor, y: Tensor, margin: float) -> Tensor:
    """NINH with one triplet drawn for each row of the batch, in place of all."""
    near, far = similar(y, y) & pairs_of_two(y), ~similar(y, y) & both_labelled(y, y)
    i = (near.any(1) & far.any(1)).nonzero()[:, 0]
    if not len(i):
        return 0 * h.sum()
    j, k = (torch.multinomial(mask[i].float(), 1)[:, 0] for mask in (near, far))
    gaps = (h[i] - h[j]).square().sum(1) - (h[i] - h[k]).square().sum(1)
    return (margin + gaps).clamp(min=0).mean()


FACTORISE = "scdh.methods.dish.factorise"


class Variant(NamedTuple):
    """``settings``: epochs as a multiple of the usual ones; ``replaced``: what takes the place of a function."""

    data: str
    method: str
    change: str = ""
    settings: dict[str, Any] = {}  # noqa: RUF012
    replaced: dict[str, Any] = {}  # noqa: RUF012


LONG = (f"{LONGER} × epochs", {"train.epochs": LONGER})
VARIANTS = (
    *(Variant("cifar10", method, *how) for method in ("ninh", "dpsh", "dsdh", "dsh") for how in ((), LONG)),
    Variant("cifar10", "dsh", "m = r", {"method.margin": "r"}),
    Variant("cifar10", "dsh", "m = 4r", {"method.margin": "4r"}),
    Variant("cifar10", "dsh", "a = 0", {"method.corner_weight": 0.0}),
    Variant("cifar10", "dsh", "a = 0.1", {"method.corner_weight": 0.1}),
    Variant("cifar10", "ninh", "one triplet a row", {}, {"scdh.methods.ninh.triplet_hinge_loss": drawn_triplets_loss}),
    Variant("cifar10", "dpsh", "DSDH's η", {"method.eta": 0.0055}),
    Variant("cifar10", "dsdh", "DPSH's η", {"method.eta": 0.01}),
    *(Variant("cifar10", "dsdh", f"μ/η = {weight:g}", {"method.label_weight": weight}) for weight in (0.0, 1.0, 10.0)),
    *(Variant("mirflickr", method) for method in ("ssdh", "cnnbh", "scdh", "dish")),
    Variant("mirflickr", "dish", "round 0 to the end", {}, {"scdh.methods.dish.round_of": lambda epoch, epochs: 0}),
    Variant("mirflickr", "dish", "H = sgn(u)", {}, {FACTORISE: lambda codes, labels, outputs, weight: codes}),
    Variant("mirflickr", "dish", "S: any label in common", {}, {FACTORISE: factorise_by(any_in_common)}),
    Variant("mirflickr", "dish", "S: up to 3 in common", {}, {FACTORISE: factorise_by(up_to_three_in_common)}),
    Variant("mirflickr", "dish", "w = 0.5", {"method.hinge_weight": 0.5}),
    Variant("mirflickr", "dish", "code dropout 0.5", {"method.code_dropout": 0.5}),
)


@contextmanager
def counted_bits(shares: list[float]) -> Iterator[None]:
    """Keep, for each step of DSDH, the share of bits that its labels make another than sgn(u)."""
    solve_codes = Dsdh.solve_codes

    def solve_and_count(self: Dsdh, u: Tensor, labels: Tensor) -> Tensor:
        codes = solve_codes(self, u, labels)
        shares.append(float(((codes < 0) != (u < 0))[codes != 0].float().mean()))
        return codes

    with patch.object(Dsdh, "solve_codes", solve_and_count):
        yield


def measure(
    photos: Source, data: dict[str, Any], variant: Variant, seed: int, cache: Path | None
) -> tuple[str, str, str]:
    """Validation MAP of the best epoch and of the last, and the bits that the labels change (DSDH)."""
    epochs = EPOCHS[variant.data] * variant.settings.get("train.epochs", 1)
    rates = {"train.lr_head": RATE, "train.lr_trunk": RATE}
    settings = {**data, **rates, **variant.settings, "train.epochs": epochs}
    grid = Grid((variant.method,), (BITS,), (seed,), settings=settings)
    config = grid.cell(photos, variant.method, BITS, seed).config
    history: list[dict[str, float]] = []
    shares: list[float] = []
    with ExitStack() as stack, counted_bits(shares):
        for name, function in variant.replaced.items():
            stack.enter_context(patch(name, function))
        train(config, feature_cache=cache, shows_epochs=False, source=photos, each_epoch=history.append)
    maps = [figures["validation_map"] for figures in history]
    return f"{max(maps):.3f}", f"{maps[-1]:.3f}", f"{statistics.fmean(shares):.2%}" if shares else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER", help="with its files")
    parser.add_argument("--mirflickr", type=Path, metavar="FILE", help="with photos and a column of labels")
    parser.add_argument("--cache", type=Path, default=Path("runs/order-differences"), help="folder for features")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="some of the methods")
    options = parser.parse_args()
    given = {
        "cifar10": {**CIFAR10, "data.root": str(options.cifar10)} if options.cifar10 else None,
        "mirflickr": {**MIRFLICKR, "data.source": str(options.mirflickr)} if options.mirflickr else None,
    }
    known = sorted({variant.method for variant in VARIANTS})
    for name in options.only or ():
        if name not in known:
            parser.error(f"{name} has no variant here; known are: {', '.join(known)}.")
    chosen = [v for v in VARIANTS if given[v.data] and (not options.only or v.method in options.only)]
    if not chosen:
        parser.error("Give --cifar10 FOLDER, --mirflickr FILE or both, whichever the methods of --only are about.")
    try:
        lines = run(chosen, given, options.seeds, options.cache)
    except ScdhError as error:
        parser.error(str(error))
    columns = ["data", "method", "changed", f"best epoch, seeds {options.seeds}", "last epoch", "bits changed"]
    print(markdown_table(columns, lines, left=(0, 1, 2)))


def run(
    variants: list[Variant], given: dict[str, dict[str, Any] | None], seeds: list[int], cache: Path | None
) -> list[list[str]]:
    """A line of the table for each variant, with one figure for each seed; each is printed when it is done."""
    settings = {name: data for name, data in given.items() if data and any(v.data == name for v in variants)}
    photos = {name: source_of(load_config(overrides=data)) for name, data in settings.items()}
    lines = []
    for variant in variants:
        data, source = settings[variant.data], photos[variant.data]
        figures = zip(*(measure(source, data, variant, seed, cache) for seed in seeds), strict=True)
        lines.append([variant.data, variant.method, variant.change, *map(", ".join, figures)])
        print(*lines[-1], sep=" | ", flush=True)
    return lines


if __name__ == "__main__":
    main()

"""Why likelihoods of pairs learn slowly on shop photos: ``python -m benchmarks.pair_losses``, validation MAP.

Each line is a method with one thing changed: a rate that does not rise over the first epochs, or does for longer, four
times the epochs, pairs balanced (or not, for HashNet). Queries are not looked at. ``--cifar10 FOLDER`` takes CIFAR-10
with the protocol of docs/all_methods.md in place of the shop photos.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.nn.functional import softplus

from scdh.config import load_config
from scdh.experiments.compare.grid import Grid
from scdh.experiments.pages.markdown import markdown_table
from scdh.losses.labels import both_labelled, similar
from scdh.losses.pairwise import batch_likelihood_loss, mean_over_pairs
from scdh.runs.protocol import source_of
from scdh.training.run import train

PHOTOS = {"data.source": "groceries", "data.label_column": "finegrained_cat", "data.validation_per_class": 8}
CIFAR10 = {
    **{"data.source": "cifar10", "data.split": "draw", "data.query_per_class": 100, "data.train_per_class": 500},
    **{"data.validation_per_class": 50, "net.image_size": 128},
}
EPOCHS = {"groceries": 60, "cifar10": 25}  # of the comparisons in docs/all_methods.md
LONGER = 4  # times
AT_ONCE, SLOWLY = {"train.lr_warm_up": 0.0}, {"train.lr_warm_up": 6.0}
VARIANTS: tuple[tuple[str, float, str, bool | None, dict[str, Any]], ...] = (
    # method, learning rate, what is changed, whether pairs are balanced (None: as the method has it), settings (epochs
    # as a multiple of the usual ones)
    ("scdh", 0.003, "", None, {}),
    ("scdh", 0.003, "full rate at once", None, AT_ONCE),
    ("hashnet", 0.003, "", None, {}),
    ("hashnet", 0.003, "full rate at once", None, AT_ONCE),
    ("hashnet", 0.003, "not balanced", False, {}),
    ("dhn", 0.003, "", None, {}),
    ("dhn", 0.003, "full rate at once", None, AT_ONCE),
    ("dhn", 0.003, "balanced", True, {}),
    ("boh", 0.003, "", None, {}),
    ("boh", 0.003, "full rate at once", None, AT_ONCE),
    ("boh", 0.003, "rate rises over 6 epochs", None, SLOWLY),
    ("boh", 0.003, "balanced", True, {}),
    ("dsdh", 0.003, "", None, {}),
    ("dsdh", 0.003, "full rate at once", None, AT_ONCE),
    ("dsdh", 0.003, "balanced", True, {}),
    ("dsdh", 0.003, f"{LONGER} × epochs", None, {"train.epochs": LONGER}),
    ("dpsh", 0.003, "", None, {}),
    ("dpsh", 0.003, "full rate at once", None, AT_ONCE),
    ("dpsh", 0.003, "balanced", True, {}),
    ("dpsh", 0.003, f"{LONGER} × epochs", None, {"train.epochs": LONGER}),
    ("dtsh", 0.003, "", None, {}),
    ("dtsh", 0.003, "full rate at once", None, AT_ONCE),
)


def table_loss(u: Tensor, y: Tensor, stored: Tensor, stored_y: Tensor, seen: Tensor | None = None) -> Tensor:
    """DPSH's loss with as much weight on similar pairs as on the others."""
    theta, same, valid = u @ stored.detach().T / 2, similar(y, stored_y), both_labelled(y, stored_y)
    valid = valid if seen is None else valid & seen
    return 2 * mean_over_pairs(softplus(theta) - theta * same, valid, same, balanced=True)


def batch_loss(is_balanced: bool) -> Callable[..., Tensor]:
    """The losses of HashNet, DHN and BOH, balanced or not."""

    def loss(h: Tensor, y: Tensor, scale: float = 1.0, balanced: bool = False, with_itself: bool = False) -> Tensor:
        return (1 + is_balanced) * batch_likelihood_loss(h, y, scale, is_balanced, with_itself)

    return loss


@contextmanager
def pairs(method: str, is_balanced: bool | None) -> Iterator[None]:
    """The method with its pairs weighted as asked."""
    if is_balanced is None:
        yield
    elif method in ("dpsh", "dsdh"):
        with patch(f"scdh.methods.{method}.pair_likelihood_loss", table_loss):
            yield
    else:
        with patch(f"scdh.methods.{method}.batch_likelihood_loss", batch_loss(is_balanced)):
            yield


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cache", type=Path, default=Path("runs/pair-losses"), help="folder for features")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--cifar10", type=Path, metavar="FOLDER", help="its files, in place of the shop photos")
    parser.add_argument("--only", nargs="+", metavar="METHOD", help="some of the methods")
    options = parser.parse_args()
    data, lines = ({**CIFAR10, "data.root": str(options.cifar10)} if options.cifar10 else PHOTOS), []
    photos = source_of(load_config(overrides=data))
    epochs = EPOCHS[data["data.source"]]
    for method, rate, change, is_balanced, settings in VARIANTS:
        if options.only and method not in options.only:
            continue
        scores = []
        for seed in options.seeds:
            shared = {key: value for key, value in settings.items() if not key.startswith("method.")}
            own = {key: value for key, value in settings.items() if key.startswith("method.")}
            shared["train.epochs"] = epochs * shared.get("train.epochs", 1)
            rates = {"train.lr_head": rate, "train.lr_trunk": rate}
            grid = Grid((method,), (32,), (seed,), settings={**data, **rates, **shared}, method_settings={method: own})
            with pairs(method, is_balanced):
                config = grid.cell(photos, method, 32, seed).config
                model = train(config, feature_cache=options.cache, quiet=True, source=photos)
            scores.append(f"{model.info['validation_map']:.3f}")
        lines.append([method, change, f"{rate:g}", ", ".join(scores)])
        print(*lines[-1], sep=" | ", flush=True)
    print(markdown_table(["method", "changed", "rate", f"validation MAP of seeds {options.seeds}"], lines, left=(0, 1)))


if __name__ == "__main__":
    main()

"""The variants that explain the places of DISH, DSH and DSDH change what they say, and nothing else."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import scdh.methods.dish as dish
from benchmarks import order_differences
from benchmarks.order_differences import (
    VARIANTS,
    Variant,
    any_in_common,
    counted_bits,
    drawn_triplets_loss,
    factorise_by,
    labels_in_common,
    up_to_three_in_common,
)
from scdh.config import load_config
from scdh.experiments.compare.grid import at_length
from scdh.methods.dsdh import Dsdh
from scdh.methods.registry import make_method
from scdh.nets.discrete import factorise


def test_the_step_of_dish_is_the_same_where_s_is() -> None:
    rng = torch.Generator().manual_seed(0)
    y = (torch.rand(40, 6, generator=rng) < 0.3).double()
    y[:, 0] = torch.where(y.sum(1) == 0, 1.0, y[:, 0])
    u = torch.randn(40, 8, generator=rng).double()
    codes = torch.where(u >= 0, 1.0, -1.0).double()
    expected = factorise(codes, y, u, 0.4)
    assert not torch.equal(expected, codes)
    assert torch.equal(factorise_by(labels_in_common)(codes, y, u, 0.4), expected)
    assert not torch.equal(factorise_by(any_in_common)(codes, y, u, 0.4), expected)


def test_similarity_by_labels_in_common() -> None:
    rows = torch.tril(torch.ones(5, 4), -1).double()  # of 0 to 4 labels, all of which the last has
    assert labels_in_common(rows)[4].tolist() == [-1, 1, 3, 5, 7]
    assert any_in_common(rows)[4].tolist() == [-1, 1, 1, 1, 1]
    assert up_to_three_in_common(rows)[4].tolist() == pytest.approx([-1, 1, 1, 1, 3])


def test_drawn_triplets() -> None:
    h, y = torch.tensor([[0.0, 1], [2, 0], [1, 1], [9, 9]], requires_grad=True), torch.tensor([0, 0, 1, -1])
    # (0, 1, 2) and (1, 0, 2) are all there are: 3 + 5 − 1 and 3 + 5 − 2.
    loss = drawn_triplets_loss(h, y, 3.0)
    assert float(loss.detach()) == pytest.approx(6.5)
    loss.backward()
    assert h.grad is not None
    assert h.grad[3].tolist() == [0, 0]
    assert float(drawn_triplets_loss(h.detach(), torch.tensor([0, 1, 2, -1]), 3.0)) == 0


def test_bits_that_labels_change_are_counted() -> None:
    u, y = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2] * 3 + [-1] * 3)
    shares: list[float] = []
    for weight in (0.0, 100.0):
        method = make_method("dsdh", {"label_weight": weight}, 4, 3, False)
        assert isinstance(method, Dsdh)
        with counted_bits(shares):
            codes = method.solve_codes(u, y)
        assert shares[-1] == pytest.approx(float((codes[:9] * u[:9] < 0).float().mean()))
    assert shares[0] == 0 < shares[1]
    method.solve_codes(u, y)
    assert len(shares) == 2


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: f"{variant.data} {variant.method} {variant.change}")
def test_the_settings_of_every_variant_exist(variant: Variant) -> None:
    settings = {key: at_length(value, 32) for key, value in variant.settings.items()}
    config = load_config(overrides={"method.name": variant.method, "method.bits": 32, **settings})
    made = make_method(variant.method, config.method.own, 32, 14, False)  # refuses settings that it does not have
    own = {key.removeprefix("method."): value for key, value in settings.items() if key.startswith("method.")}
    assert {key: getattr(made.settings, key) for key in own} == own


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Features of three classes, in place of photos."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 30)
    x = rng.normal(size=(90, 8)).astype(np.float32) + 3 * np.eye(8, dtype=np.float32)[y]
    np.savez(tmp_path / "photos.npz", X=x, y=y, label_names=np.array(["a", "b", "c"]))
    return tmp_path / "photos.npz"


@pytest.mark.slow
def test_lines_of_a_variant_and_the_method_as_it_is_afterwards(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_differences, "EPOCHS", {"cifar10": 3})
    calls = []

    def keep(codes: torch.Tensor, *rest: object) -> torch.Tensor:
        calls.append(codes)
        return codes

    counts = {"data.query_per_class": 5, "data.train_per_class": 20, "data.validation_per_class": 5}
    variants = [
        Variant("cifar10", "dish", "kept", {}, {"scdh.methods.dish.factorise": keep}),
        Variant("cifar10", "dsh"),
    ]
    lines = order_differences.run(variants, {"cifar10": {"data.source": str(photos), **counts}}, [0, 1], None)
    assert [line[:3] for line in lines] == [["cifar10", "dish", "kept"], ["cifar10", "dsh", ""]]
    for _, _, _, best, last, changed in lines:
        pairs = zip(best.split(", "), last.split(", "), strict=True)
        assert all(0 < float(at_end) <= float(at_best) <= 1 for at_best, at_end in pairs)
        assert changed == "–, –"
    assert calls
    assert dish.factorise is factorise


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give --cifar10 FOLDER"),
        (["--mirflickr", "photos.parquet", "--only", "dsh"], "Give --cifar10 FOLDER"),
        (["--mirflickr", "photos.parquet", "--only", "itq"], "itq has no variant here"),
        (["--mirflickr", "nowhere/photos.parquet"], "nowhere/photos.parquet"),
    ],
)
def test_one_sentence_for_a_mistake(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["order_differences", *arguments])
    with pytest.raises(SystemExit):
        order_differences.main()
    assert message in capsys.readouterr().err

"""DSDH against plain loops: its losses, its discrete step, and the gradient that reaches the network."""

import pytest
import torch

from scdh.errors import TrainingError
from scdh.losses import pair_likelihood_loss
from scdh.methods.base import Moment
from scdh.methods.dsdh import DsdhSettings
from scdh.nets.discrete import coordinate_descent, ridge_weights
from tests.methods.harness import CLASSES, build, draw_batch, has_label, prepare
from tests.methods.test_dpsh import slow_pairs
from tests.reference.slow_losses import label_set
from tests.reference.slow_methods import dot, labelled_rows, mean, squared_distance

TWIN_SETTINGS = {"batch_epochs": 0, "label_weight": 3.0, "eta": 0.7}
TRAINING = {"train.epochs": 25}  # the first ten compare a batch with itself


def slow_solve(matrix, right):
    """x of matrix · x = right by elimination, for a matrix that is positive definite."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            factor = row[i] / pivot[i]
            for k in range(i, len(row)):
                row[k] -= factor * pivot[k]
    x = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        x[i] = (rows[i][-1] - sum(rows[i][k] * x[k] for k in range(i + 1, len(rows)))) / rows[i][i]
    return x


def slow_codes(us, ys, classes, settings):
    """b of each row: W by ridge regression of the label vectors on sgn(u), then bit by bit."""
    bits = range(len(us[0]) if us else 0)
    hot = [[float(c in label_set(y)) for c in range(classes)] for y in ys]
    signs = [[1.0 if x >= 0 else -1.0 for x in u] for u in us]
    gram = [[sum(b[k] * b[m] for b in signs) + settings.nu * (k == m) for m in bits] for k in bits]
    columns = [
        slow_solve(gram, [sum(b[k] * y[c] for b, y in zip(signs, hot, strict=True)) for k in bits])
        for c in range(classes)
    ]
    weights = [[column[k] for column in columns] for k in bits]  # W, one row per bit
    codes = [[0.0] * len(bits) for _ in us]
    for _ in range(settings.sweeps):
        for code, u, y in zip(codes, us, hot, strict=True):
            for k in bits:
                others = sum(code[m] * dot(weights[m], weights[k]) for m in bits if m != k)
                value = u[k] + settings.label_weight * (dot(y, weights[k]) - others)
                code[k] = 1.0 if value >= 0 else -1.0
    return codes


def slow_loss(net, method, batch, moment):
    us, ys = net(batch.inputs).u.tolist(), batch.labels.tolist()
    table, table_ys = method.stored.outputs.tolist(), method.stored_labels.tolist()
    seen = [any(v != 0 for v in row) for row in table]
    rows = labelled_rows(us, ys)
    codes = slow_codes([u for u, _ in rows], [y for _, y in rows], CLASSES, method.settings)
    distance = mean([squared_distance(code, u) for code, (u, _) in zip(codes, rows, strict=True)])
    return slow_pairs(us, ys, table, table_ys, seen) + method.settings.eta * distance


def test_each_sweep_lowers_the_objective_to_where_no_bit_would_change():
    generator = torch.Generator().manual_seed(1)
    linear, root = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((30, 9), (9, 4)))
    gram = root @ root.T

    def value(codes):
        return ((codes @ gram) * codes).sum().item() - 2 * (linear * codes).sum().item()

    values = [value(coordinate_descent(linear, gram, sweeps)) for sweeps in (1, 2, 3, 50)]
    assert values == sorted(values, reverse=True)
    best = coordinate_descent(linear, gram, 50)
    for k in range(9):
        flipped = best.clone()
        flipped[:, k] *= -1
        for i in range(30):
            one = best.clone()
            one[i] = flipped[i]
            assert value(one) >= value(best) - 1e-9


def test_coordinate_descent_goes_on_from_its_start():
    generator = torch.Generator().manual_seed(1)
    linear, root = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((200, 9), (9, 9)))
    gram = root @ root.T
    from_nothing = coordinate_descent(linear, gram, 50)
    start = torch.where(torch.randn(200, 9, generator=generator, dtype=torch.float64) >= 0, 1.0, -1.0).double()
    first = start.clone()
    assert torch.equal(coordinate_descent(linear, gram, 50, from_nothing), from_nothing)
    assert not torch.equal(coordinate_descent(linear, gram, 50, start), from_nothing)  # another local optimum
    assert torch.equal(start, first)


def test_its_default_weights_the_terms_as_the_authors_gradient_does():
    """Theirs is (S − A) U − 2 · 55 (u − b) of a batch, for the ascent, where A = σ(θ) and U are all stored outputs."""
    generator = torch.Generator().manual_seed(3)
    count, n = 6, 40
    u = torch.randn(count, 8, generator=generator, dtype=torch.float64, requires_grad=True)
    stored = torch.randn(n, 8, generator=generator, dtype=torch.float64)
    y, stored_y = (torch.randint(0, 3, (rows,), generator=generator) for rows in (count, n))
    codes = torch.randn(count, 8, generator=generator, dtype=torch.float64).sign()
    eta = DsdhSettings().eta * 5000 / n  # the default is for 5,000 rows
    (pair_likelihood_loss(u, y, stored, stored_y) + eta * (codes - u).square().sum(1).mean()).backward()
    same = (y.unsqueeze(1) == stored_y).double()
    theirs = (same - (u.detach() @ stored.T / 2).sigmoid()) @ stored - 2 * 55 * (u.detach() - codes)
    torch.testing.assert_close(-2 * count * n * u.grad, theirs)


def test_ridge_weights_have_no_better_neighbour():
    generator = torch.Generator().manual_seed(2)
    codes = torch.randn(20, 5, generator=generator, dtype=torch.float64).sign()
    targets = torch.rand(20, 3, generator=generator, dtype=torch.float64)
    weights = ridge_weights(codes, targets, 0.3).requires_grad_()
    ((targets - codes @ weights).square().sum() + 0.3 * weights.square().sum()).backward()
    assert weights.grad.abs().max() < 1e-10


@pytest.mark.parametrize("multi_label", [False, True])
def test_the_distance_to_the_codes_pulls_the_outputs(multi_label):
    net, method = build("dsdh", 12, multi_label, {"label_weight": 50.0, "eta": 2.0})
    batch = draw_batch("mixed", multi_label)
    prepare(net, method, batch)
    outputs = net(batch.inputs).u
    codes = method.solve_codes(outputs.detach(), batch.labels)
    labelled = has_label(batch)
    assert codes[labelled].abs().eq(1).all()
    assert not codes[~labelled].any()
    assert (codes[labelled] != outputs[labelled].sign()).any()  # the labels want other bits than sgn(u)
    losses = method.step(net, batch, Moment())
    losses["distance"].backward(inputs=[net.head.hash_layer.bias])
    expected = (2 * (outputs - codes)[labelled]).sum(0) / labelled.sum()
    torch.testing.assert_close(net.head.hash_layer.bias.grad, expected.detach())
    _, fresh = build("dsdh", 12)
    with pytest.raises(TrainingError, match="call prepare"):
        fresh.step(net, batch)

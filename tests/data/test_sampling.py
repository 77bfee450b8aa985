"""The rows of an epoch: labelled and unlabelled in fixed shares, alike for any number of processes, no label leaks."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from scdh.data import ArraySource, Batch, Preprocess, Source, ViewedFeatures, steps_per_epoch, training_batches
from scdh.data.batches.sampling import epoch_batches, shares
from scdh.data.batches.views import draw_versions
from scdh.errors import DataError

N = 40
KNOWN, OTHERS = np.arange(0, N, 4), np.setdiff1d(np.arange(N), np.arange(0, N, 4))
LABELS = np.arange(N) % 3
DATA = Path(__file__).parents[2] / "docs" / "data.md"


def batches(source: Source, **changes: object) -> list[Batch]:
    chosen: dict = {"batch_size": 8, "seed": 1, "epoch": 2, "unlabelled": OTHERS} | changes
    return list(training_batches(source, KNOWN, **chosen))


def equal(one: list[Batch], two: list[Batch]) -> bool:
    return len(one) == len(two) and all(
        torch.equal(a.rows, b.rows)
        and torch.equal(a.labels, b.labels)
        and all(torch.equal(x, y) for x, y in zip((a.inputs, *a.other_views), (b.inputs, *b.other_views), strict=True))
        for a, b in zip(one, two, strict=True)
    )


def vectors(labels: np.ndarray = LABELS) -> ArraySource:
    return ArraySource(np.arange(N * 2, dtype=np.float32).reshape(N, 2), labels)


@settings(max_examples=150, deadline=None)
@given(
    labelled=st.integers(1, 30),
    unlabelled=st.integers(1, 60),
    batch_size=st.integers(1, 20),
    share=st.floats(0.01, 0.99),
    steps=st.none() | st.integers(1, 12),
    balanced=st.booleans(),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 99),
)
def test_an_epoch_is_at_most_one_pass_over_the_unlabelled(
    labelled: int,
    unlabelled: int,
    batch_size: int,
    share: float,
    steps: int | None,
    balanced: bool,
    seed: int,
    epoch: int,
) -> None:
    rows, others = np.split(np.random.default_rng(seed).permutation(labelled + unlabelled), [labelled])
    labels = np.arange(labelled + unlabelled) % 3
    known, free = shares(batch_size, share)
    assert (known, free) == (batch_size, max(1, round(batch_size * (1 / share - 1))))
    chosen: dict = {"batch_size": batch_size, "seed": seed, "epoch": epoch, "balanced": balanced}
    order, earlier_uses = epoch_batches(labels, rows, unlabelled=others, labelled_share=share, steps=steps, **chosen)
    count = steps_per_epoch(labelled, batch_size, unlabelled, share, steps)
    assert order.shape == earlier_uses.shape == (count, known + free)
    assert count == (steps or max(1, min(max(labelled // known, 50), unlabelled // free)))

    uses = np.bincount(order[:, known:].ravel(), minlength=len(labels))
    assert uses[rows].sum() == 0
    assert uses[others].max() - uses[others].min() <= 1
    if steps is None and unlabelled >= free:
        assert uses[others].max() == 1
        assert (uses[others] == 0).sum() == unlabelled - count * free
    uses = np.bincount(order[:, :known].ravel(), minlength=len(labels))
    assert uses[others].sum() == 0
    if not balanced:
        assert uses[rows].max() - uses[rows].min() <= 1

    seen: dict[int, int] = {}
    for row, before in zip(order.ravel().tolist(), earlier_uses.ravel().tolist(), strict=True):
        assert before == seen.get(row, 0)  # an augmentation must differ each time a row comes
        seen[row] = before + 1


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 40), batch_size=st.integers(1, 12), steps=st.integers(1, 12), seed=st.integers(0, 99))
def test_steps_set_the_length_of_an_epoch(n: int, batch_size: int, steps: int, seed: int) -> None:
    chosen: dict = {"batch_size": batch_size, "seed": seed, "epoch": 3}
    usual, _ = epoch_batches(np.zeros(n, np.int64), np.arange(n), **chosen)
    order, earlier_uses = epoch_batches(np.zeros(n, np.int64), np.arange(n), steps=steps, **chosen)
    assert order.shape == (steps, min(batch_size, n))
    shared = min(steps, len(usual))
    assert np.array_equal(order[:shared], usual[:shared])
    uses = np.bincount(order.ravel(), minlength=n)
    assert uses.max() - uses.min() <= 1
    assert earlier_uses.max() == uses.max() - 1


def test_balanced_evens_out_the_labelled_part() -> None:
    labels = np.array([0] * 9 + [1] + [0] * 50)
    order, _ = epoch_batches(
        labels, np.arange(10), batch_size=4, seed=0, epoch=0, balanced=True, unlabelled=np.arange(10, 60)
    )
    counts = np.bincount(labels[order[:, :4].ravel()])
    assert counts.sum() == 48
    assert abs(counts[0] - counts[1]) <= 2


@pytest.mark.parametrize("changes", [{}, {"steps": 9}, {"balanced": True}, {"labelled_share": 0.25}])
def test_processes_and_resume_change_nothing(changes: dict) -> None:
    source = vectors()
    whole = batches(source, **changes)
    assert equal(whole, batches(source, **changes))
    assert not torch.equal(whole[0].rows, batches(source, **changes, epoch=3)[0].rows)
    assert equal(whole[2:], batches(source, **changes, first_step=2))
    shared = [batches(source, **changes, rank=rank, world=2) for rank in range(2)]
    for step, batch in enumerate(whole):
        for rank in range(2):
            assert torch.equal(shared[rank][step].rows, batch.rows[rank::2])
            assert torch.equal(shared[rank][step].labels, batch.labels[rank::2])


def test_pictures_come_in_two_views_and_change_each_time() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (N, 12, 12, 3), dtype=np.uint8)
    source = ArraySource(pixels, LABELS)
    chosen: dict = {"preprocess": Preprocess(8), "augmentation": "strong", "views": 2, "steps": 6}
    result = batches(source, **chosen)
    assert equal(result, batches(source, **chosen, workers=1))
    again = torch.cat([b.inputs[b.rows == 4] for b in result] + [b.other_views[0][b.rows == 4] for b in result])
    assert len(again) >= 4
    assert len({image.numpy().tobytes() for image in again}) == len(again)


@pytest.mark.parametrize("form", ["single", "multi"])
def test_no_label_of_an_unlabelled_row_ever_reaches_a_batch(form: str) -> None:
    """Whatever the source says of them, every batch is the same."""
    labels = LABELS if form == "single" else np.eye(3, dtype=np.uint8)[LABELS]
    plain = vectors(labels)
    poisoned = labels.copy()
    poisoned[OTHERS] = np.random.default_rng(0).permutation(poisoned[OTHERS])
    hidden = labels.copy()
    hidden[OTHERS] = -1 if form == "single" else 0
    for changes in ({}, {"balanced": True}, {"steps": 7}):
        result = batches(plain, **changes)
        assert equal(result, batches(vectors(poisoned), **changes))
        assert equal(result, batches(vectors(hidden), **changes))
        for batch in result:
            assert np.isin(batch.rows[:8], KNOWN).all()
            assert np.isin(batch.rows[8:], OTHERS).all()
            assert torch.equal(batch.labels[:8], torch.from_numpy(labels)[batch.rows[:8]])
            assert torch.equal(batch.labels[8:], torch.full_like(batch.labels[8:], -1 if form == "single" else 0))
    assert np.array_equal(plain.labels, labels)


def test_no_unlabelled_row_is_the_usual_epoch() -> None:
    source, no_rows = vectors(), np.empty(0, np.int64)
    assert equal(batches(source, unlabelled=no_rows), batches(source, unlabelled=None))
    assert steps_per_epoch(10, 4) == steps_per_epoch(10, 4, 0, 0.5) == 2
    assert steps_per_epoch(0, 4, 5) == 0
    assert steps_per_epoch(10, 4, 0, 0.5, 7) == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labelled_share": 0.8, "batch_size": 4, "world": 2}, "4 labelled and 1 unlabelled rows does not divide by"),
        ({"labelled_share": 1.0}, "labelled_share must be between 0 and 1, not 1.0"),
        ({"steps": 0}, "steps must be 1 or more, not 0"),
        ({"unlabelled": np.array([0, 1])}, "1 rows of array are both labelled and unlabelled"),
        ({"unlabelled": np.array([N])}, "are outside array"),
    ],
)
def test_mistakes(changes: dict, message: str) -> None:
    with pytest.raises(DataError, match=message):
        batches(vectors(), **changes)


def test_versions_are_drawn_evenly_and_independently() -> None:
    n, count = 30_000, 3
    rows, none = np.arange(n), np.zeros(n, np.int64)
    student, teacher = (draw_versions(count, rows, none, (5, 7), view) for view in (0, 1))
    again = draw_versions(count, rows, none + 1, (5, 7), 0)
    epoch = draw_versions(count, rows, none, (5, 8), 0)
    seed = draw_versions(count, rows, none, (6, 7), 0)
    for other in (teacher, again, epoch, seed):
        pairs = np.bincount(count * student + other, minlength=count**2)
        expected = n / count**2
        assert ((pairs - expected) ** 2 / expected).sum() < 26.1  # χ² with 8 degrees of freedom: 1 in 1,000
    assert np.array_equal(student[100:200], draw_versions(count, rows[100:200], none[100:200], (5, 7), 0))
    assert draw_versions(4, rows, none, (2**70, 0), 0).max() == 3


def test_cached_versions_of_vectors() -> None:
    versions = [np.full((N, 2), v, np.float32) + np.arange(N, dtype=np.float32)[:, None] / 100 for v in range(3)]
    source = ViewedFeatures(versions, LABELS, ["a", "b", "c"])
    assert np.array_equal(source.features, versions[0])
    result = batches(source, views=2, steps=40)
    assert equal(result, batches(source, views=2, steps=40))
    shared = [batches(source, views=2, steps=40, rank=rank, world=2) for rank in range(2)]
    numbers = []
    for step, batch in enumerate(result):
        for view, inputs in enumerate((batch.inputs, *batch.other_views)):
            version = inputs[:, 0].floor().long()
            numbers.append((view, version))
            expected = torch.from_numpy(np.stack(versions))[version, batch.rows]
            assert torch.equal(inputs, expected)
        assert torch.equal(shared[1][step].other_views[0], batch.other_views[0][1::2])
    first, second = (torch.cat([v for view, v in numbers if view == which]) for which in (0, 1))
    assert torch.bincount(first).min() > 0.25 * len(first)
    assert 0.2 < (first == second).float().mean() < 0.47
    with pytest.raises(DataError, match="must have one shape"):
        ViewedFeatures([versions[0], versions[1][:3]], LABELS, ["a", "b", "c"])
    varied = np.arange(1, N, 2)  # rows that train; the others are only shown as they are
    fewer = ViewedFeatures([versions[0], *(x[varied] for x in versions[1:])], LABELS, ["a", "b", "c"], varied=varied)
    for view in range(2):
        drawn = (varied[::-1], np.zeros(len(varied), np.int64), (3, 4), view)
        assert np.array_equal(fewer.feature_view(*drawn), source.feature_view(*drawn))
    with pytest.raises(DataError, match="must have one shape"):
        ViewedFeatures(versions, LABELS, ["a", "b", "c"], varied=varied)
    with pytest.raises(DataError, match="40 rows but 3 labels"):
        ViewedFeatures(versions, LABELS[:3], ["a", "b", "c"])


def test_the_python_of_the_page_on_data_runs() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", DATA.read_text("utf-8"), re.DOTALL))
    assert "keep_labels" in code
    assert "protocol_of" in code
    exec(compile(code, str(DATA), "exec"), {})

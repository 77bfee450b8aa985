"""Batches: the same whatever the number of workers and processes, and no surprise from bad images."""

import multiprocessing
import os
import sys
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from scdh.data import (
    ArraySource,
    BadImage,
    BadImages,
    Batch,
    Preprocess,
    Source,
    evaluation_batches,
    open_source,
    steps_per_epoch,
    training_batches,
)
from scdh.data.batches import decoding
from scdh.errors import DataError
from scdh.index.kernels.threads import usable_cores
from tests.data.data_files import encoded, write_parquet

P = Preprocess(8)
N = 22
ROWS = np.arange(N)


@pytest.fixture
def pictures() -> Source:
    pixels = np.random.default_rng(0).integers(0, 256, (N, 12, 10, 3), dtype=np.uint8)
    return ArraySource(pixels, np.arange(N) % 3)


@pytest.fixture
def vectors() -> Source:
    return ArraySource(np.arange(N * 2, dtype=np.float32).reshape(N, 2), np.eye(3, dtype=np.uint8)[np.arange(N) % 3])


@pytest.fixture
def damaged(tmp_path: Path) -> Source:
    """Ten pictures of which row 3 is cut off and row 8 is empty."""
    cells = [encoded(i, (40, 40)) for i in range(10)]
    cells[3], cells[8] = cells[3][:700], b""
    return open_source(str(write_parquet(tmp_path / "d.parquet", {"image": cells, "label": list(range(10))})))


def train(source: Source, **settings: object) -> list[Batch]:
    chosen: dict = {"preprocess": P, "augmentation": "strong", "batch_size": 6, "seed": 1, "epoch": 2} | settings
    return list(training_batches(source, ROWS, **chosen))


def same(one: list[Batch], two: list[Batch]) -> bool:
    return len(one) == len(two) and all(
        torch.equal(a.rows, b.rows) and torch.equal(a.inputs, b.inputs) and torch.equal(a.labels, b.labels)
        for a, b in zip(one, two, strict=True)
    )


def test_shapes_and_one_pass(pictures: Source) -> None:
    batches = train(pictures)
    assert len(batches) == steps_per_epoch(N, 6) == 3
    rows = torch.cat([b.rows for b in batches])
    assert len(set(rows.tolist())) == 18
    first = batches[0]
    assert first.inputs.shape == (6, 3, 8, 8)
    assert first.inputs.dtype == torch.uint8
    assert first.inputs.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(first.labels, torch.from_numpy(pictures.labels)[first.rows])
    assert first.rows.dtype == first.labels.dtype == torch.int64
    assert len(first) == 6


def test_order_depends_on_seed_and_epoch_only(pictures: Source) -> None:
    assert same(train(pictures), train(pictures))
    assert not torch.equal(train(pictures)[0].rows, train(pictures, epoch=3)[0].rows)
    assert not torch.equal(train(pictures)[0].rows, train(pictures, seed=2)[0].rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(pictures: Source, workers: int) -> None:
    state = torch.get_rng_state()
    assert same(train(pictures), train(pictures, workers=workers))
    assert torch.equal(torch.get_rng_state(), state)
    alone = list(evaluation_batches(pictures, ROWS, preprocess=P, batch_size=5))
    assert same(alone, list(evaluation_batches(pictures, ROWS, preprocess=P, batch_size=5, workers=workers)))


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_each_batch(pictures: Source, world: int, balanced: bool) -> None:
    whole = train(pictures, balanced=balanced)
    shares = [train(pictures, rank=rank, world=world, balanced=balanced) for rank in range(world)]
    for step, batch in enumerate(whole):
        for rank in range(world):
            part = shares[rank][step]
            assert torch.equal(part.rows, batch.rows[rank::world])
            assert torch.equal(part.inputs, batch.inputs[rank::world])
            assert torch.equal(part.labels, batch.labels[rank::world])


def test_resume_inside_an_epoch(pictures: Source) -> None:
    assert same(train(pictures)[1:], train(pictures, first_step=1))


def test_small_sets(pictures: Source) -> None:
    (only,) = train(pictures, batch_size=64)
    assert sorted(only.rows.tolist()) == ROWS.tolist()
    odd = [
        list(training_batches(pictures, ROWS[:5], preprocess=P, batch_size=64, seed=0, epoch=0, rank=r, world=2))
        for r in range(2)
    ]
    assert [len(part[0]) for part in odd] == [2, 2]
    with pytest.raises(DataError, match="1 rows to train on, too few for 2 processes"):
        training_batches(pictures, ROWS[:1], preprocess=P, batch_size=64, seed=0, epoch=0, world=2)
    assert steps_per_epoch(0, 4) == 0
    assert list(evaluation_batches(pictures, ROWS[:0], preprocess=P, batch_size=4)) == []


def test_views_differ_and_the_first_is_the_single_one(pictures: Source) -> None:
    one, two = train(pictures)[0], train(pictures, views=2)[0]
    assert torch.equal(one.inputs, two.inputs)
    assert one.other_views == ()
    assert not torch.equal(two.inputs, two.other_views[0])
    assert two.other_views[0].shape == two.inputs.shape


def test_balanced_repeats_get_their_own_chance() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 12, 12, 3), dtype=np.uint8)
    source = ArraySource(pixels, np.array([0] * 19 + [1]))
    batches = list(
        training_batches(
            source, np.arange(20), preprocess=P, augmentation="strong", batch_size=20, seed=0, epoch=0, balanced=True
        )
    )
    repeats = batches[0].inputs[batches[0].rows == 19]
    assert len(repeats) == 10
    assert len({image.numpy().tobytes() for image in repeats}) == 10


def test_augmented_evaluation_is_what_training_sees(pictures: Source) -> None:
    seen = {int(r): x for b in train(pictures) for r, x in zip(b.rows, b.inputs, strict=True)}
    fixed = evaluation_batches(pictures, ROWS, preprocess=P, batch_size=4, augmentation="strong", random_key=(1, 2))
    for batch in fixed:
        for row, image in zip(batch.rows.tolist(), batch.inputs, strict=True):
            assert row not in seen or torch.equal(image, seen[row])
    with pytest.raises(DataError, match="must be given together"):
        evaluation_batches(pictures, ROWS, preprocess=P, batch_size=4, augmentation="strong")


def test_vectors(vectors: Source) -> None:
    batches = list(training_batches(vectors, ROWS, batch_size=4, seed=0, epoch=0, workers=2, views=2))
    assert len(batches) == 5
    assert batches[0].inputs.dtype == torch.float32
    assert batches[0].labels.dtype == torch.uint8
    assert np.array_equal(batches[0].inputs.numpy(), vectors.features[batches[0].rows])
    assert torch.equal(batches[0].other_views[0], batches[0].inputs)
    ordered = list(evaluation_batches(vectors, ROWS[::-1], batch_size=4))
    assert torch.cat([b.rows for b in ordered]).tolist() == ROWS[::-1].tolist()
    assert len(ordered[-1]) == 2


def test_changing_a_batch_leaves_the_source_alone(vectors: Source) -> None:
    rows, labels, features = ROWS.copy(), vectors.labels.copy(), vectors.features.copy()
    for batch in evaluation_batches(vectors, rows, batch_size=4):
        batch.rows.add_(100)
        batch.labels.fill_(7)
        batch.inputs.fill_(0)
    assert np.array_equal(rows, ROWS)
    assert np.array_equal(vectors.labels, labels)
    assert np.array_equal(vectors.features, features)


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_image_fails_with_its_place(damaged: Source, workers: int) -> None:
    with pytest.raises(BadImage, match=r"d.parquet row 3 cannot be read") as caught:
        list(evaluation_batches(damaged, np.arange(10), preprocess=P, batch_size=2, workers=workers))
    assert caught.value.where == "d.parquet row 3"
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_images_are_left_out(damaged: Source, workers: int) -> None:
    report = BadImages()
    with pytest.warns(
        UserWarning, match=r"2 images could not be read and were left out, the first is d.parquet row 3 \("
    ):
        batches = list(
            evaluation_batches(
                damaged,
                np.arange(10),
                preprocess=P,
                batch_size=4,
                workers=workers,
                on_bad_image="skip",
                bad_images=report,
            )
        )
    assert torch.cat([b.rows for b in batches]).tolist() == [0, 1, 2, 4, 5, 6, 7, 9]
    assert all(len(b.inputs) == len(b.labels) == len(b.rows) for b in batches)
    assert torch.cat([b.labels for b in batches]).tolist() == [0, 1, 2, 4, 5, 6, 7, 9]
    assert report.paths == ["d.parquet row 3", "d.parquet row 8"]
    expected = P.evaluation_image(damaged.image(9, P.needed_side()))
    assert np.array_equal(batches[-1].inputs[-1].numpy(), expected)
    with warnings.catch_warnings():  # known already: no second warning
        warnings.simplefilter("error")
        list(
            evaluation_batches(
                damaged, np.arange(10), preprocess=P, batch_size=4, on_bad_image="skip", bad_images=report
            )
        )


def test_a_batch_of_bad_images_only(damaged: Source) -> None:
    rows = np.array([3, 8])
    with pytest.warns(UserWarning, match="2 images"):
        assert list(evaluation_batches(damaged, rows, preprocess=P, batch_size=2, on_bad_image="skip")) == []
    with pytest.raises(DataError, match="None of the 2 images of a batch can be read"):
        list(training_batches(damaged, rows, preprocess=P, batch_size=2, seed=0, epoch=0, on_bad_image="skip"))


@pytest.mark.parametrize("workers", [0, 2])
def test_leaving_early_leaves_no_process_behind(pictures: Source, workers: int) -> None:
    iterator = training_batches(pictures, ROWS, preprocess=P, batch_size=2, seed=0, epoch=0, workers=workers)
    assert len(list(islice(iterator, 2))) == 2
    iterator.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
    for _ in evaluation_batches(pictures, ROWS, preprocess=P, batch_size=2, workers=workers):
        break
    assert not multiprocessing.active_children()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 6, "world": 4}, "batch_size 6 must divide by the 4 processes"),
        ({"rank": 2, "world": 2}, "this is number 2"),
        ({"batch_size": 0}, "batch_size must be a whole number, 1 or more"),
        ({"seed": -1}, "seed -1"),
        ({"on_bad_image": "ignore"}, "must be 'fail' or 'skip', not 'ignore'"),
        ({"preprocess": None}, "a Preprocess is needed"),
        ({"augmentation": "blur"}, "Unknown augmentation 'blur'"),
    ],
)
def test_mistakes_are_told_at_once(pictures: Source, settings: dict, message: str) -> None:
    chosen: dict = {"preprocess": P, "batch_size": 6, "seed": 1, "epoch": 2} | settings
    with pytest.raises(ValueError, match=message):
        training_batches(pictures, ROWS, **chosen)


def test_rows_outside_and_vectors_with_pictures_settings(pictures: Source, vectors: Source) -> None:
    for rows in ([-1, 0], [0, N]):
        with pytest.raises(DataError, match="are outside array, which has 22 rows"):
            evaluation_batches(pictures, np.array(rows), preprocess=P, batch_size=2)
    with pytest.raises(DataError, match="take no Preprocess"):
        evaluation_batches(vectors, ROWS, preprocess=P, batch_size=2)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not limit cores")
def test_only_cores_that_the_process_may_use_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container with one core of many, torch warned about too many workers."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3})
    assert usable_cores() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
def test_slow_images_are_decoded_by_one_process_a_core(pictures: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(len(pictures))
    parts = [(part, np.zeros_like(part)) for part in np.array_split(rows, 3)]
    encoding = decoding.BatchDecoder(pictures, Preprocess(8), "none", parts, None, 1)
    training = decoding.BatchDecoder(pictures, Preprocess(8), "none", parts, (0, 0), 1)
    few = decoding.BatchDecoder(pictures, Preprocess(8), "none", [(rows[:5], rows[:5])], None, 1)
    monkeypatch.setattr(decoding, "default_workers", lambda: 0)
    monkeypatch.setattr(decoding, "CORES", 2)
    monkeypatch.setattr(decoding, "SLOW_BATCH", 3)
    monkeypatch.setattr(decoding, "SLOW_SECONDS", 1e9)
    assert decoding.by_machine(encoding) == (encoding, 0)
    monkeypatch.setattr(decoding, "SLOW_SECONDS", 0)
    assert decoding.by_machine(training) == (training, 0)
    assert decoding.by_machine(few) == (few, 0)
    split, workers = decoding.by_machine(encoding)
    assert workers == 2
    assert max(len(part) for part, _ in split.batches) == 3
    plain = list(decoding.decode_batches(encoding, 0))
    found = list(decoding.decode_batches(encoding, None))
    assert len(found) > len(plain)
    assert np.array_equal(np.concatenate([batch.rows for batch in found]), rows)
    assert torch.equal(torch.cat([b.views[0] for b in found]), torch.cat([b.views[0] for b in plain]))

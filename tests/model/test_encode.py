"""Batches through a network in small pieces on several threads: the values of the plain loop, with less memory."""

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from scdh.config import load_config
from scdh.data.batches.batch import Batch
from scdh.model import encode
from scdh.model.encode import read_network, run_network
from scdh.model.hasher import Hasher
from scdh.nets.network import Network

SIDE = 24


@pytest.fixture(scope="module")
def net() -> Network:
    config = load_config(overrides={"net.backbone": "small_conv", "net.image_size": SIDE, "method.bits": 8})
    return Hasher.build(config, ["a", "b"], False, None).network


@pytest.fixture
def threads() -> Iterator[None]:
    """Two threads of torch, as on a machine with two cores; the tests' own default is one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def image_batches(*sizes: int) -> list[Batch]:
    generator = torch.Generator().manual_seed(0)
    batches, start = [], 0
    for size in sizes:
        images = torch.randint(0, 256, (size, 3, SIDE, SIDE), dtype=torch.uint8, generator=generator)
        batches.append(Batch(images, torch.zeros(size, dtype=torch.long), torch.arange(start, start + size)))
        start += size
    return batches


def plain(net: Network, batches: list[Batch]) -> list[tuple[np.ndarray, np.ndarray]]:
    net.eval()
    with torch.inference_mode():
        return [(batch.rows.numpy(), net(batch.inputs).u.numpy()) for batch in batches]


def threads_of_a_new_thread() -> int:
    counts: list[int] = []
    thread = threading.Thread(target=lambda: counts.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return counts[0]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_pieces_give_the_values_of_whole_batches(count: int, net: Network, threads, monkeypatch) -> None:
    torch.set_num_threads(count)
    monkeypatch.setattr(encode, "PIECE", 4 * SIDE * SIDE + 5)
    batches = image_batches(7, 3, 1, 10, 6)
    passes: list[int] = []
    hook = net.trunk.register_forward_pre_hook(lambda _, inputs: passes.append(len(inputs[0])))
    found = list(run_network(net, iter(batches), lambda outputs: outputs.u))
    hook.remove()
    assert max(passes) == 4
    assert sum(passes) == 27
    for (rows, values), (expected_rows, expected) in zip(found, plain(net, batches), strict=True):
        assert np.array_equal(rows, expected_rows)
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(
        read_network(net, batches, lambda outputs: outputs.u), np.concatenate([values for _, values in found])
    )


def test_images_larger_than_a_piece_go_one_by_one(net: Network, threads, monkeypatch) -> None:
    monkeypatch.setattr(encode, "PIECE", 10)
    (_, values), *_ = run_network(net, image_batches(4), lambda outputs: outputs.u)
    np.testing.assert_allclose(values, plain(net, image_batches(4))[0][1], rtol=1e-5, atol=1e-6)


def test_no_batches_give_nothing(net: Network, threads) -> None:
    assert list(run_network(net, [], lambda outputs: outputs.u)) == []


def test_the_next_batch_is_decoded_while_one_is_computed(net: Network, threads) -> None:
    events: list[str] = []

    def decoded() -> Iterator[Batch]:
        for number, batch in enumerate(image_batches(2, 2, 2)):
            events.append(f"decoded {number}")
            yield batch

    for number, _ in enumerate(run_network(net, decoded(), lambda outputs: outputs.u)):
        events.append(f"given {number}")
    assert events == ["decoded 0", "decoded 1", "given 0", "decoded 2", "given 1", "given 2"]


def test_torch_has_its_threads_again_afterwards(net: Network, threads) -> None:
    def broken() -> Iterator[Batch]:
        yield from image_batches(4, 4)
        raise OSError("the disk is gone")

    running = run_network(net, broken(), lambda outputs: outputs.u)
    next(running)
    assert torch.get_num_threads() == 2
    with pytest.raises(OSError, match="disk"):
        list(running)
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (2, 2)

    stopped = run_network(net, image_batches(4, 4, 4), lambda outputs: outputs.u)
    next(stopped)
    stopped.close()
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (2, 2)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]


def test_an_error_of_the_network_arrives(net: Network, threads) -> None:
    def read(outputs):
        raise ValueError("no such output")

    with pytest.raises(ValueError, match="no such output"):
        list(run_network(net, image_batches(4), read))

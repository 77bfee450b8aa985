"""Damaged copies of every kind of stored file: each is rejected in one sentence or read with unchanged contents."""

import shutil
from collections.abc import Callable, Iterator
from random import Random

from tests.attack.samples import Stored
from tests.attack.trials import Attack, Failed, contents_or_error

DAMAGES_A_ROUND = 25


def attacks(stored: list[Stored]) -> Iterator[Attack]:
    """One attack for each kind of file."""
    for sample in stored:
        yield Attack(f"damage: {sample.kind}", _trial_of(sample), times=1 if sample.seldom else DAMAGES_A_ROUND)


def _trial_of(sample: Stored) -> Callable[[Random], str]:
    intact, expected = sample.file.read_bytes(), sample.read()

    def trial(random: Random) -> str:
        how = random.choice(DAMAGES)
        try:
            sample.file.write_bytes(how(intact, random))
            contents = contents_or_error(sample.read)
            was_removed = not sample.file.exists()
        finally:
            for left in sample.file.parent.glob(f".{sample.file.name}.*.tmp"):
                shutil.rmtree(left, ignore_errors=True)
            sample.file.write_bytes(intact)
        if contents is None:
            return "rejected"
        if contents != expected:
            raise Failed(f"{how.__name__} of {sample.file.name} was read as other contents")
        return "made again" if was_removed else "unchanged"

    return trial


def flip_a_bit(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def flip_a_bit_near_the_start(data: bytes, random: Random) -> bytes:
    """Headers are short, so they are rarely hit otherwise."""
    changed = bytearray(data)
    changed[random.randrange(min(len(data), 1024))] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data))]


def lengthen(data: bytes, random: Random) -> bytes:
    return data + random.randbytes(random.randrange(1, 4096))


def blank_a_block(data: bytes, random: Random) -> bytes:
    """Zeros, as a power cut leaves them in a file whose length was written before its bytes."""
    start = random.randrange(len(data))
    size = min(random.choice((16, 512, 4096)), len(data) - start)
    return data[:start] + bytes(size) + data[start + size :]


def swap_two_blocks(data: bytes, random: Random) -> bytes:
    size = random.choice((1, 8, 64, 512))
    a, b = sorted(random.randrange(max(1, len(data) - size)) for _ in range(2))
    if b - a < size:
        return flip_a_bit(data, random)
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def overwrite(data: bytes, random: Random) -> bytes:
    start = random.randrange(len(data))
    noise = random.randbytes(min(random.choice((1, 4, 64, 4096)), len(data) - start))
    return data[:start] + noise + data[start + len(noise) :]


def other_file(data: bytes, random: Random) -> bytes:
    return random.choice((b"", b"{}", b"[]", b"null", b"\xff\xfe", b"{" * 10_000, random.randbytes(100)))


DAMAGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    flip_a_bit,
    flip_a_bit,
    flip_a_bit,
    flip_a_bit_near_the_start,
    cut,
    lengthen,
    blank_a_block,
    swap_two_blocks,
    overwrite,
    other_file,
)

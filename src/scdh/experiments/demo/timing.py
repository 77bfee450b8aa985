"""How long the parts of a demo took."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timings:
    """Seconds by part: of the clock, and of the processor with those of the processes that decode images."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        """Add the time of the ``with`` block to a part."""
        wall, cpu = time.perf_counter(), sum(os.times()[:4])
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - wall
        self.cpu_seconds[part] = self.cpu_seconds.get(part, 0.0) + sum(os.times()[:4]) - cpu

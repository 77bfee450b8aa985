"""Micro-batches: items that arrive while a batch is computed form the next one. No waiting time has to be chosen: a
single request starts immediately, and batches grow under load. The work runs on a thread, so the event loop stays free.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Batcher(Generic[T, R]):
    """Gathers items for a function that takes many at once; used from one event loop.

    Args:
        work: items → one result for each. A result that is an exception is raised for its item alone; an exception
            that is raised counts for all items of the batch.
        executor: where the work runs; one batch at a time.
        largest: most items of one batch.
        observe: is called with the size of each batch.
    """

    def __init__(
        self,
        work: Callable[[list[T]], Sequence[R | BaseException]],
        executor: Executor,
        largest: int,
        observe: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._work = work
        self._executor = executor
        self._largest = largest
        self._observe = observe
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._running: asyncio.Task[None] | None = None

    async def run(self, items: Sequence[T]) -> list[R]:
        """The results of these items, in their order."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[R]] = [loop.create_future() for _ in items]
        self._waiting.extend(zip(items, futures, strict=True))
        if self._running is None:
            self._running = loop.create_task(self._run_batches())
        try:
            return await asyncio.gather(*futures)
        except BaseException:
            # After the first error gather leaves the others running, without anyone waiting for them.
            for future in futures:
                future.cancel()
                if future.done() and not future.cancelled():
                    future.exception()
            raise

    async def finish(self) -> None:
        """Wait until nothing is left to do."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run_batches(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while batch := self._next_batch():
                self._observe(len(batch))
                results: Sequence[R | BaseException]
                try:
                    results = await loop.run_in_executor(self._executor, self._work, [item for item, _ in batch])
                except Exception as error:
                    results = [error] * len(batch)
                for (_, future), result in zip(batch, results, strict=True):
                    if future.done():  # the client gave up meanwhile
                        continue
                    if isinstance(result, BaseException):
                        future.set_exception(result)
                    else:
                        future.set_result(result)
        finally:
            self._running = None

    def _next_batch(self) -> list[tuple[T, asyncio.Future[R]]]:
        batch: list[tuple[T, asyncio.Future[R]]] = []
        while self._waiting and len(batch) < self._largest:
            item, future = self._waiting.popleft()
            if not future.done():
                batch.append((item, future))
        return batch

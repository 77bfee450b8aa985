"""The service without HTTP: it loads, encodes, searches and changes, and follows the index file."""

import asyncio
import logging
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, BinaryIO, Literal

import numpy as np

from scdh.codes import HAMMING, Codes
from scdh.errors import CodesError, ConfigError, ScdhError
from scdh.index.engines import is_engine_address
from scdh.index.search.hash_tables import FEWEST_ROWS
from scdh.serve.admission import Admission
from scdh.serve.batching import Batcher
from scdh.serve.collection import Addition, Change, Collection, Removal
from scdh.serve.encoder import Encoded, Encoder
from scdh.serve.logs import log
from scdh.serve.measures import Measures
from scdh.serve.pictures import PAINTERS, SIDE, Pictures
from scdh.serve.request_errors import RequestError, invalid, not_found, starting, stopping, unusable_index
from scdh.serve.settings import Settings
from scdh.serve.snapshot import QueryHits, SearchOptions, SearchRequest, find_all
from scdh.serve.warm import BY_BITS, BY_TABLES, OF_MANY, compile_search, warm_search

LARGEST_SEARCH = 256  # requests that are searched together
LARGEST_COMMIT = 64  # changes that are made durable together


class Service:
    """A model and an index that answer requests; used from one event loop.

    Args:
        settings: what is served.
        report: is called with a sentence about each part of the start that takes long.
    """

    def __init__(self, settings: Settings, report: Callable[[str], object] = lambda _: None) -> None:
        self._report = report
        self._compilers: list[subprocess.Popen[bytes]] = []
        self.settings, self.measures = settings, Measures()
        self.state: Literal["starting", "ready", "stopping"] = "starting"
        self._searcher = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._changer = ThreadPoolExecutor(1, thread_name_prefix="change")
        self._painter = ThreadPoolExecutor(PAINTERS, thread_name_prefix="picture")
        self._paintings: dict[tuple[int, int], asyncio.Event] = {}
        limits = settings.limits
        queue = self.measures.queue
        batches = self.measures.batches
        self._searches = Admission(limits.waiting_searches, "searches", queue.labels("searches").set)
        self._changes = Admission(limits.waiting_changes, "changes", queue.labels("changes").set)
        self._find: Batcher[SearchRequest, list[QueryHits]] = Batcher(
            self._find_now, self._searcher, LARGEST_SEARCH, batches.labels("searches").observe
        )
        self._change: Batcher[Change, list[int]] = Batcher(
            self._change_now, self._changer, LARGEST_COMMIT, batches.labels("changes").observe
        )
        self.pictures: Pictures | None = None
        self._watch: asyncio.Task[None] | None = None
        self._index_problem = ""

    async def start(self) -> None:
        """Load and warm everything, on a thread; ``state`` is then "ready".

        Raises:
            ScdhError: if model, index or images cannot be used.
        """
        await asyncio.get_running_loop().run_in_executor(self._changer, self._load)
        # Loading takes seconds, and another process may have changed the index since it was read.
        await asyncio.get_running_loop().run_in_executor(self._changer, self._refresh)
        if self.state == "starting":
            self.state = "ready"
            self.measures.ready.set(1)
            self._watch = asyncio.create_task(self._follow_index())
            log("ready", items=self._items, bits=self.encoder.bits)

    def announce_stop(self) -> None:
        """Let ``/ready`` answer 503 from now on, so that no new requests are sent; those that arrive are answered."""
        if self.state != "stopping":
            self.state = "stopping"
            self.measures.ready.set(0)
            log("stopping")

    async def stop(self) -> None:
        """Finish the requests that have begun, and end."""
        self.announce_stop()
        for compiler in self._compilers:
            compiler.kill()
        if self._watch is not None:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
        await self._find.finish()
        await self._change.finish()
        if hasattr(self, "encoder"):
            await self.encoder.close()
        if self.pictures is not None:
            self.pictures.close()
        if hasattr(self, "collection"):
            self.collection.close()
        for pool in (self._searcher, self._changer, self._painter):
            pool.shutdown(wait=False, cancel_futures=True)

    def check_ready(self) -> None:
        """RequestError 503 before the start is done."""
        if self.state == "starting":
            raise starting()
        if not hasattr(self, "collection"):
            raise stopping()

    async def info(self) -> dict[str, Any]:
        """What is served."""

        def look() -> tuple[int, dict[str, int]]:
            snapshot = self.collection.now
            return len(snapshot.index), snapshot.label_counts()

        items, labels = await self._on_searcher(look)
        limits = self.settings.limits
        return {
            "model": self._model,
            "index": {"items": items, "bits": self._model["bits"]},
            "labels": labels,
            "pictures": self.pictures is not None,
            "writable": self.settings.token is not None,
            "limits": {"upload": limits.upload, "pixels": limits.pixels, "images": limits.images, "hits": limits.hits},
        }

    async def search_images(self, files: Sequence[BinaryIO], options: SearchOptions) -> list[dict[str, Any]]:
        """Hits of images."""
        return await self._search_encoded(await self.encoder.images(files), options)

    async def search_vectors(self, vectors: Sequence[Sequence[float]], options: SearchOptions) -> list[dict[str, Any]]:
        """Hits of embeddings."""
        return await self._search_encoded(await self.encoder.vectors(vectors), options)

    async def search_codes(self, codes: Sequence[str], options: SearchOptions) -> list[dict[str, Any]]:
        """Hits of codes as hexadecimal digits of their packed bits."""
        return await self._search_encoded(self.encoder.stored(self.read_codes(codes)), options)

    async def search_item(self, item_id: int, options: SearchOptions) -> list[dict[str, Any]]:
        """Hits of an item, without itself."""
        codes = await self._on_searcher(lambda: self.collection.now.code_of(item_id))
        encoded = self.encoder.stored(codes)
        if options.rank == "vectors" and codes.vectors is not None:
            encoded = replace(encoded, outputs=codes.vectors.astype(np.float32))
        return await self._search_encoded(encoded, options, item_id)

    async def _search_encoded(
        self, encoded: Encoded, options: SearchOptions, left_out: int | None = None
    ) -> list[dict[str, Any]]:
        ranking = encoded.codes.ranking
        if ranking != HAMMING and (options.radius is not None or options.rank != "bits"):
            option = "radius" if options.radius is not None else "'rank'"
            raise invalid(f"This model ranks by {ranking}, which does not support {option}; leave it out.")
        ranks = options.rank != "bits" or ranking != HAMMING
        outputs, is_finite = encoded.outputs, encoded.outputs is not None and bool(np.isfinite(encoded.outputs).all())
        if ranks and outputs is not None and not is_finite:
            raise invalid("The model gives non-finite outputs for this input, so they cannot be ranked.")
        given = {"outputs": outputs} if ranks else {"tie_outputs": outputs if is_finite else None}
        return await self.search(SearchRequest(encoded.codes, options, left_out, **given))

    async def search(self, request: SearchRequest) -> list[dict[str, Any]]:
        """Hits of codes, with what is known of each item."""
        with self._searches.admit():
            (found,) = await self._find.run([request])
        return [one._asdict() for one in found]

    async def item(self, item_id: int) -> dict[str, Any]:
        """What is known of an item."""

        def look() -> dict[str, Any]:
            snapshot = self.collection.now
            code = snapshot.code_of(item_id).packed[0].tobytes().hex()
            has_picture = self.pictures is not None and self.pictures.row_of(snapshot.name_of(item_id)) is not None
            return {**snapshot.describe(np.array([item_id]))[0], "code": code, "picture": has_picture}

        return await self._on_searcher(look)

    async def thumbnail(self, item_id: int, side: int = SIDE) -> tuple[bytes, str]:
        """The picture of an item, a JPEG of at most ``side`` pixels, and a tag of its contents."""
        pictures, snapshot = self.pictures, self.collection.now

        def paint() -> tuple[bytes, str]:
            snapshot.code_of(item_id)  # the name of an item that was removed may still be known
            row = None if pictures is None else pictures.row_of(snapshot.name_of(item_id))
            if pictures is None or row is None:
                raise not_found(f"The item {item_id} has no picture.")
            found = pictures.thumbnail(row, side)
            if found is None:
                raise not_found(f"The picture of the item {item_id} cannot be read.")
            return found

        # One picture takes one thread, also after its client has given up: others wait for it here.
        loop, key = asyncio.get_running_loop(), (item_id, side)
        while key in self._paintings:
            await self._paintings[key].wait()
        self._paintings[key] = asyncio.Event()
        with self.hiding_index_errors():
            job = self._painter.submit(paint)
            job.add_done_callback(lambda _: loop.call_soon_threadsafe(lambda: self._paintings.pop(key).set()))
            return await asyncio.wrap_future(job)

    async def add(self, addition: Addition) -> list[dict[str, Any]]:
        """Add items; when this returns they are on disk, and searches find them."""
        with self._changes.admit():
            (ids,) = await self._change.run([addition])
        codes = [row.tobytes().hex() for row in addition.codes.packed]
        items = self.collection.now.describe(np.array(ids))
        return [{**item, "code": code} for item, code in zip(items, codes, strict=True)]

    async def remove(self, item_id: int) -> None:
        """Remove an item; when this returns it is gone from the disk, and searches do not find it."""
        with self._changes.admit():
            await self._change.run([Removal(item_id)])

    def read_codes(self, codes: Sequence[str]) -> Codes:
        """Codes of hexadecimal digits."""
        bits = self.encoder.bits
        width = 2 * -(-bits // 8)
        for number, code in enumerate(codes, start=1):
            if len(code) != width:
                raise invalid(
                    f"A code of {bits} bits is {width} hexadecimal digits, but code {number} has {len(code)}."
                )
        try:
            packed = np.frombuffer(bytes.fromhex("".join(codes)), np.uint8)
            return Codes(packed.reshape(len(codes), -1), bits, metadata=self.encoder.code_metadata)
        except CodesError as error:
            raise invalid(str(error)) from None
        except ValueError:
            raise invalid("Codes are written in hexadecimal digits only.") from None

    def _load(self) -> None:
        from scdh.runs.folder import RunFolder

        self._report(f"Loading the model {self.settings.model} …")
        hasher = RunFolder(self.settings.model).load_model()
        ranking = hasher.method.ranking
        by_tables = ranking != HAMMING
        if by_tables and is_engine_address(self.settings.index):
            name = hasher.config.method.name
            raise ConfigError(
                f"The method {name} ranks by {ranking}, which search engines cannot; serve an index file."
            )
        self._report(f"Opening the index {self.settings.index} …")
        tables = hasher.distance_tables if by_tables else None
        self.collection = Collection(
            self.settings.index, self.settings.names, hasher.fingerprint(), hasher.bits, ranking, tables
        )
        if not is_engine_address(self.settings.index):
            self._compilers = compile_search(self.collection.bits, BY_TABLES if by_tables else BY_BITS)
            if not by_tables and len(self.collection.now.index) >= FEWEST_ROWS:
                self._compilers += compile_search(self.collection.bits, OF_MANY)
        self.pictures = None if self.settings.images is None else Pictures(self.settings.images, self.settings.limits)
        measures = self.measures
        self.encoder = Encoder(
            hasher,
            self.settings.limits,
            measures.batches.labels("images").observe,
            measures.queue.labels("images").set,
            self.settings.engine,
            self.collection.bits,
        )
        self._model = self.encoder.describe()
        self._report("Preparing the network, which takes a minute the first time a model is served here …")
        self.encoder.warm()
        self._wait_for_compilers()
        warm_search(self.collection.now)
        self._count_items()

    def _wait_for_compilers(self) -> None:
        """Wait until the other processes have compiled; this process compiles the rest."""
        for done, compiler in enumerate(self._compilers):
            try:
                compiler.wait(1.0)
            except subprocess.TimeoutExpired:
                count = len(self._compilers)
                self._report(f"Compiling the search loops, once per machine; {done} of {count} parts are done …")
                compiler.wait()

    def _find_now(self, requests: list[SearchRequest]) -> list[list[QueryHits] | BaseException]:
        return [self._hidden(answer) for answer in find_all(self.collection.now, requests)]

    def _change_now(self, changes: list[Change]) -> list[list[int] | BaseException]:
        try:
            results = [self._hidden(result) for result in self.collection.change(changes)]
        except RequestError:
            raise
        except (ScdhError, OSError) as error:
            raise self._hidden(error) from error
        with suppress(ScdhError, OSError):  # the changes are done, even if a search engine cannot count its items now
            self._count_items()
        return results

    def _hidden(self, result: Any) -> Any:
        """Errors other than the client's mistakes go to the log, as they may name files of the server."""
        if isinstance(result, ScdhError | OSError) and not isinstance(result, RequestError):
            self.measures.index_errors.inc()
            log("the index cannot be used", logging.ERROR, reason=str(result))
            return unusable_index()
        return result

    @contextmanager
    def hiding_index_errors(self) -> Iterator[None]:
        """Errors of the index in this block go to the log, and the client gets RequestError 503."""
        try:
            yield
        except RequestError:
            raise
        except (ScdhError, OSError) as error:
            raise self._hidden(error) from error

    def _count_items(self) -> None:
        self._items = len(self.collection.now.index)
        self.measures.items.set(self._items)

    async def _on_searcher(self, function: Any) -> Any:
        with self._searches.admit(), self.hiding_index_errors():
            return await asyncio.get_running_loop().run_in_executor(self._searcher, function)

    async def _follow_index(self) -> None:
        """Load each new state of the index file."""
        while True:
            await asyncio.sleep(self.settings.watch_seconds)
            await asyncio.get_running_loop().run_in_executor(self._changer, self._refresh)

    def _refresh(self) -> None:
        """A file that cannot be used is logged once, and the earlier state stays."""
        problem = ""
        try:
            if self.collection.refresh():
                self.measures.index_loads.inc()
                log("index taken up", items=len(self.collection.now.index))
            self._count_items()
        except Exception as error:
            problem = str(error) or type(error).__name__
            if problem != self._index_problem:
                self.measures.index_errors.inc()
                log("the new index is not loaded", logging.ERROR, reason=problem)
        self._index_problem = problem

"""What Prometheus reads at ``/metrics``; each service has a registry of its own."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Measures:
    """Counters of a service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("scdh_requests", "Requests answered.", ["route", "method", "status"], **own)
        self.seconds = Histogram("scdh_request_seconds", "Time to answer.", ["route"], buckets=SECONDS, **own)
        self.batches = Histogram("scdh_batch_size", "Inputs computed at once.", ["kind"], buckets=SIZES, **own)
        self.queue = Gauge("scdh_queue_length", "Inputs being computed or waiting for it.", ["kind"], **own)
        self.items = Gauge("scdh_items", "Items of the index.", **own)
        self.index_loads = Counter("scdh_index_loads", "New states of the index that were loaded.", **own)
        self.index_errors = Counter("scdh_index_errors", "Times the index could not be read or written.", **own)
        self.ready = Gauge("scdh_ready", "1 while model and index are warm.", **own)
        ProcessCollector(**own)  # memory, processor time and open files, under the usual names (on Linux)
        for kind in ("images", "searches", "changes"):
            self.queue.labels(kind).set(0)

    def text(self) -> bytes:
        return generate_latest(self.registry)

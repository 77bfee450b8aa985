"""Search in binary codes by Hamming distance."""

from scdh.index.hamming import HammingIndex
from scdh.index.hits import Hits, QueryHits, RaggedHits
from scdh.index.kernels.threads import set_threads, thread_count

__all__ = ["HammingIndex", "Hits", "QueryHits", "RaggedHits", "set_threads", "thread_count"]

"""Search in binary codes by Hamming distance."""

from scdh.index.exact import HammingIndex
from scdh.index.hits import Hits, RaggedHits
from scdh.index.threads import set_threads, thread_count

__all__ = ["HammingIndex", "Hits", "RaggedHits", "set_threads", "thread_count"]

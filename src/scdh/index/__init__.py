"""Search in binary codes by Hamming distance."""

from scdh.index.exact import HammingIndex
from scdh.index.hits import Hits, RaggedHits

__all__ = ["HammingIndex", "Hits", "RaggedHits"]

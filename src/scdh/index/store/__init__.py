"""An index on disk: one writer, many readers, and a complete state at every moment.

``format`` describes the file. Readers take no lock: data of a committed state are never overwritten, and a replaced
file stays readable for processes that have it open. The writer holds a lock on the file itself.
"""

from scdh.index.store.arrays import StoredArrays, StoredIndex
from scdh.index.store.writer import IndexWriter, has_torn_header, is_newer, read_index, write_index

__all__ = ["IndexWriter", "StoredArrays", "StoredIndex", "has_torn_header", "is_newer", "read_index", "write_index"]

"""An index on disk: one writer, many readers, and at every moment a whole state.

``format`` describes the file. Readers take no lock: what a state refers to is never overwritten, and a file that is
replaced stays readable for those who have it open. The writer holds a lock on the file itself.
"""

from scdh.index.store.arrays import StoredArrays, StoredIndex
from scdh.index.store.writer import IndexWriter, has_torn_header, is_newer, read_index, write_index

__all__ = ["IndexWriter", "StoredArrays", "StoredIndex", "has_torn_header", "is_newer", "read_index", "write_index"]

"""An index on a Milvus server or cluster, or in a local file: the same hits as those of ``HammingIndex``."""

from typing import ClassVar

from numpy.typing import ArrayLike

from scdh.codes import Codes
from scdh.codes.checks import check_hamming_codes
from scdh.index.engine_index import EngineIndex, choose_ids
from scdh.index.items import Items, check_items
from scdh.index.milvus.collection import MilvusCollection
from scdh.index.milvus.contents import BATCH_ROWS
from scdh.index.milvus.rankings import MOST_HITS
from scdh.index.milvus.uri import is_milvus_uri, parse_uri
from scdh.index.search_index import Abilities

__all__ = ["MilvusIndex", "is_milvus_uri"]


class MilvusIndex(EngineIndex):
    """An exact index in a Milvus collection; made by ``create``, ``open`` or ``create_or_open``.

    A context manager that closes the connection at its end. Every method may raise ``ConfigError`` (the server cannot
    be reached or rejects the password) and ``CodesError`` (it rejects the request). Addresses are
    ``milvus://host/photos`` and ``milvus:codes.db/photos``.
    """

    abilities = Abilities(lists_ids=False, counts=False, byte_tables=False, names=True)
    ENGINE = "Milvus"
    KIND = "collection"
    MOST_HITS: ClassVar[int | None] = MOST_HITS
    BATCH_ROWS = BATCH_ROWS

    @classmethod
    def _connect(cls, uri: str) -> MilvusCollection:
        return MilvusCollection(parse_uri(uri))

    def upsert(self, codes: Codes, ids: ArrayLike | None = None, items: Items | None = None) -> int:
        """As ``load``, but writes all codes without reading first, which takes half as long as writing.

        Args:
            codes, ids, items: as for ``load``. Codes are sent in batches, each of which is sent again while Milvus is
                busy or cannot be reached.

        Returns:
            The number of codes sent.
        """
        check_hamming_codes(codes, "The codes to write", self.bits)
        chosen = choose_ids(codes, ids, first=0)
        return self._write(codes, chosen, check_items(items, len(codes)), compare=False)

"""Encoding in shards: fixed parts of the data, one file of codes per part, merged into one file at the end.

Any number of processes or machines may encode shards of one folder. A shard's file appears whole or not at all, so a
kill loses at most the work on one shard. Shards start at multiples of the batch size: every batch is then the same as
in a single process, so the merged codes are equal to those of one process bit for bit.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from scdh.codes import Codes
from scdh.data.name_files import load_named_codes, save_named_codes
from scdh.data.row_names import RowNames, joined
from scdh.data.source import Source
from scdh.errors import CodesError, ConfigError
from scdh.storage.files import remove_abandoned

_KEYS = ("shard", "shards", "shard_rows", "shard_data")  # metadata of a shard that merged codes do not have
_LISTED = 10  # missing shards in a message
_NAME = re.compile(r"shard-(\d+)-of-(\d+)\.([0-9a-f]+)\.codes")
EncodeRows = Callable[[np.ndarray], tuple[Codes, RowNames]]


@dataclass(frozen=True)
class Shards:
    """How the rows of some data are divided."""

    folder: Path
    count: int
    model: str
    rows: np.ndarray
    data: str
    batch_size: int

    @classmethod
    def of(cls, folder: Path, count: int, model: str, source: Source, rows: np.ndarray, batch_size: int) -> "Shards":
        """Divide the rows of a source into ``count`` shards.

        Raises:
            ConfigError: if there are fewer batches than shards.
        """
        batches = -(-len(rows) // batch_size)
        if not 1 <= count <= batches:
            raise ConfigError(
                f"--shards must be from 1 to {batches:,}, the number of batches of {batch_size:,} rows, not {count:,}; "
                "a smaller --batch-size allows more."
            )
        digest = hashlib.sha256(f"{source.fingerprint()} {batch_size} ".encode())
        digest.update(np.ascontiguousarray(rows, "<i8").tobytes())
        return cls(folder, count, model, rows, digest.hexdigest()[:16], batch_size)

    def file(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:05}-of-{self.count:05}.{self.model}.codes"

    def rows_of(self, shard: int) -> np.ndarray:
        """int64, the rows of a shard: whole batches, but for the last one."""
        batches = -(-len(self.rows) // self.batch_size)
        first, last = (batches * n // self.count * self.batch_size for n in (shard, shard + 1))
        return self.rows[first:last]

    def is_done(self, shard: int) -> bool:
        """Whether the shard's file is whole.

        Raises:
            ConfigError: if it is a shard of other data.
        """
        file = self.file(shard)
        try:
            metadata = Codes.load(file).metadata if file.exists() else None
        except CodesError:
            return False
        if metadata is not None and metadata.get("shard_data") != self.data:
            raise ConfigError(f"{file} has codes of other data, parts or batches; choose another folder.")
        return metadata is not None

    def encode(self, shard: int, encode_rows: EncodeRows) -> int:
        """Encode one shard and write its file; returns the number of codes."""
        rows = self.rows_of(shard)
        codes, names = encode_rows(rows)
        values = (shard, self.count, len(rows), self.data)
        metadata = {**codes.metadata, **dict(zip(_KEYS, map(str, values), strict=True))}
        remove_abandoned(self.file(shard))
        save_named_codes(self.file(shard), codes.with_metadata(metadata), names)
        return len(codes)


def merge_shards(folder: Path) -> tuple[Codes, RowNames, int]:
    """Put the shards of a folder together.

    Returns:
        The codes, their names, and how many items were left out because their image could not be read.

    Raises:
        CodesError: if a shard is missing or damaged, or shards are of different models or data.
    """
    found = {file: match for file in sorted(folder.glob("shard-*.codes")) if (match := _NAME.fullmatch(file.name))}
    if not found:
        raise CodesError(f"{folder} contains no shards; `scdh encode … --out {folder} --shards N` writes them.")
    for number, what in ((3, "models"), (2, "divisions")):
        kinds = sorted({match[number] for match in found.values()})
        if len(kinds) > 1:
            raise CodesError(f"{folder} contains shards of different {what}: {', '.join(kinds)}; keep those of one.")
    files = {int(match[1]): file for file, match in found.items()}
    count = int(next(iter(found.values()))[2])
    # Names are untrusted: a number of shards above those that are there is only counted to.
    missing = list(islice((shard for shard in range(count) if shard not in files), _LISTED + 1))
    if missing:
        listed = ", ".join(map(str, missing[:_LISTED])) + (", …" if len(missing) > _LISTED else "")
        lacking = count - sum(shard < count for shard in files)
        raise CodesError(
            f"{folder} lacks {lacking:,} of {count:,} shards: {listed}; run `scdh encode` again to write them."
        )
    parts: list[tuple[Codes, RowNames]] = []
    rows = 0
    for shard in range(count):
        codes, names = load_named_codes(files[shard])
        known = tuple(codes.metadata.get(key) for key in ("shard", "shards", "model"))
        own_rows = codes.metadata.get("shard_rows", "")
        is_whole = re.fullmatch("[0-9]{1,18}", own_rows) is not None and int(own_rows) >= len(codes)
        if (
            names is None
            or codes.ids is None
            or not is_whole
            or known != (str(shard), str(count), found[files[shard]][3])
        ):
            raise CodesError(f"{files[shard]} is not the shard that its name says; delete it and encode it again.")
        if parts and codes.metadata.get("shard_data") != parts[0][0].metadata.get("shard_data"):
            raise CodesError(f"{files[shard]} has codes of other data than {files[0]}; keep the shards of one.")
        rows += int(own_rows)
        parts.append((codes, names))
    metadata = {key: value for key, value in parts[0][0].metadata.items() if key not in _KEYS}
    merged = Codes.concatenate([codes for codes, _ in parts]).with_metadata(metadata)
    assert merged.ids is not None  # each part has them
    return merged, joined([names for _, names in parts], merged.ids), rows - len(merged)

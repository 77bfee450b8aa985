"""``scdh index``: files of codes → one index to search in, in a file or in Milvus."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scdh.cli.options import Json
from scdh.cli.show import document, result
from scdh.errors import CodesError, ConfigError

if TYPE_CHECKING:
    from scdh.codes import Codes
    from scdh.data.row_names import RowNames
    from scdh.index import HammingIndex

EXAMPLES = (
    "scdh index digits.codes --out digits.index",
    "scdh index new.codes --out digits.index --append --renumber",
    "scdh index a.codes b.codes --renumber --out both.index --json",
    "scdh index digits.codes --to milvus://host:19530/digits",
    "scdh index --check digits.index",
)


def index(
    codes: Annotated[list[Path] | None, typer.Argument(help="Files that `scdh encode` wrote.")] = None,
    out: Annotated[Path | None, typer.Option(help="Index file to write.")] = None,
    to: Annotated[
        str | None,
        typer.Option(help="Milvus collection to load instead: milvus://host:port/collection, or milvus:FILE.db/NAME."),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", metavar="", help="Add to the index that OUT already holds.")
    ] = False,
    renumber: Annotated[
        bool, typer.Option("--renumber", metavar="", help="Give new ids to codes whose file is not the first.")
    ] = False,
    check: Annotated[Path | None, typer.Option(help="Only compare all checksums of this index file.")] = None,
    as_json: Json = False,
) -> None:
    """Put codes into an index file for `scdh search`, or into Milvus.

    An id may come only once. Codes of two data sets both count from 0, so putting them together needs --renumber, which
    counts on from the largest id present. Names and labels go into OUT.items.json. Killed at any moment, --append
    leaves the index as it was or with all of the new codes; a load into Milvus is continued by the same command.
    """
    if check is not None:
        if codes or out or to or append or renumber:
            raise ConfigError("--check takes no codes and writes nothing; leave the rest out.")
        return _check(check, as_json)
    if (out is None) == (to is None):
        raise ConfigError("Say where the codes go: --out FILE, or --to milvus://host:port/collection.")
    if not codes:
        raise ConfigError("Name at least one file of codes that `scdh encode` wrote.")
    loaded = _load(codes)
    if to is not None:
        if append:
            raise ConfigError("--to always adds to a collection that is there; leave --append out.")
        return _into_milvus(loaded, to, renumber, as_json)
    assert out is not None
    _into_file(loaded, out, append, renumber, as_json)


def _load(paths: list[Path]) -> "list[tuple[Path, Codes]]":
    """All codes, which must go together."""
    from scdh.cli.same_model import refuse_other_model
    from scdh.codes import Codes

    loaded = [(path, Codes.load(path)) for path in paths]
    first_path, first = loaded[0]
    for path, more in loaded[1:]:
        if more.bits != first.bits:
            raise CodesError(f"{path} holds codes of {more.bits} bits, but those before have {first.bits} bits.")
        refuse_other_model(first.metadata, more.metadata, str(first_path), str(path))
    return loaded


def _into_file(loaded: "list[tuple[Path, Codes]]", out: Path, append: bool, renumber: bool, as_json: bool) -> None:
    import numpy as np

    from scdh.cli.inputs import check_writable
    from scdh.cli.same_model import refuse_other_model
    from scdh.data.row_names import RowNames, joined
    from scdh.index import HammingIndex
    from scdh.index.store import IndexWriter

    check_writable(out)
    lock: Any = nullcontext()
    if append:
        bits = loaded[0][1].bits
        present = HammingIndex.load(out)
        if present.bits != bits:
            raise CodesError(f"{loaded[0][0]} holds codes of {bits} bits, but those of {out} have {present.bits} bits.")
        refuse_other_model(present.metadata, loaded[0][1].metadata, str(out), str(loaded[0][0]))
        lock = IndexWriter(out)
    with lock as writer:
        built = HammingIndex.load(out) if append else None
        parts = []
        if built is not None:
            parts.append((out, built.ids, RowNames.load(out, built.ids, len(built), may_have_more=True)))
        added = []
        for path, more in loaded:
            if built is None:
                built = HammingIndex(more)
                ids = built.ids if more.ids is None else more.ids
            else:
                ids = _add(built, more, path, renumber)
            added.append((more, ids))
            parts.append((path, ids, RowNames.load(path, more.ids, len(more))))
        assert built is not None
        together = None
        if any(items is not None for _, _, items in parts):
            known = [_named(path, len(ids), items) for path, ids, items in parts]
            together = joined(known, np.concatenate([ids for _, ids, _ in parts]))
        if append:
            # The items go first: a search passes over items that the index does not have, but needs those it has.
            if together is not None:
                together.save(out)
            writer.add_all(added)
        else:
            with _without_names(out):
                built.save(out)
            if together is not None:
                together.save(out)
    size = out.stat().st_size
    if as_json:
        document({"index": str(out), "items": len(built), "bits": built.bits, "bytes": size})
        return
    result(f"{out}: {len(built):,} codes of {built.bits} bits, {size:,} bytes.")
    result(f"Next:\n  scdh search {out} --row {built.ids[0] if len(built) else 0}")


@contextmanager
def _without_names(out: Path) -> Iterator[None]:
    """Put the names of the old index aside; at no moment may an index have the names of another one."""
    from scdh.data.row_names import row_names_file

    names = row_names_file(out)
    aside = names.with_name(f".{names.name}.old")
    if names.exists():
        names.replace(aside)
    try:
        yield
    except BaseException:
        if aside.exists():
            aside.replace(names)
        raise
    aside.unlink(missing_ok=True)


def _add(built: "HammingIndex", more: "Codes", path: Path, renumber: bool) -> Any:
    """Add codes in memory; gives their ids."""
    ids = None
    if renumber:
        first = int(built.ids.max()) + 1 if len(built) else 0
        ids = range(first, first + len(more))
    try:
        return built.add(more, ids)
    except CodesError as error:
        if "already holds" not in str(error):
            raise
        raise CodesError(f"{str(error).rstrip('.')}, from {path}; --renumber gives new ids.") from None


def _into_milvus(loaded: "list[tuple[Path, Codes]]", to: str, renumber: bool, as_json: bool) -> None:
    from scdh.cli.same_model import refuse_other_model
    from scdh.index import HammingIndex
    from scdh.index.milvus import MilvusIndex

    first = loaded[0][1]
    # Ids depend on the files alone, so the same command after an interruption sends the same ids.
    local = HammingIndex(first)
    ids = [local.ids if first.ids is None else first.ids]
    ids += [_add(local, more, path, renumber) for path, more in loaded[1:]]
    with MilvusIndex.create_or_open(to, first.bits, first.metadata) as there:
        shown = there.shown
        refuse_other_model(there.metadata, first.metadata, shown, str(loaded[0][0]))
        sent = sum(there.load(more, numbers) for (_, more), numbers in zip(loaded, ids, strict=True))
        total = len(there)
    if as_json:
        document({"index": shown, "items": total, "bits": first.bits, "sent": sent})
        return
    result(f"{shown}: {total:,} codes of {first.bits} bits, {sent:,} of them sent now.")
    result(f"Next:\n  scdh search --index {shown} --row {ids[0][0] if len(first) else 0} --names {loaded[0][0]}")


def _check(path: Path, as_json: bool) -> None:
    from scdh.index import HammingIndex
    from scdh.index.store import has_torn_header

    sound = HammingIndex.load(path, verify=True)
    torn = has_torn_header(path)
    if as_json:
        document({"index": str(path), "items": len(sound), "bits": sound.bits, "sound": True, "torn_header": torn})
        return
    state = "one of its two headers is torn, which the next --append repairs" if torn else "all checksums match"
    result(f"{path} is sound: {len(sound):,} codes of {sound.bits} bits; {state}.")


def _named(path: Path, count: int, items: "RowNames | None") -> "RowNames":
    """Rows of a file without names are called by the file and their number."""
    import numpy as np

    from scdh.data.row_names import RowNames

    if items is not None:
        return items
    names = [f"{path.name} row {row}" for row in range(count)]
    return RowNames(np.arange(count), names, np.full(count, -1), [])

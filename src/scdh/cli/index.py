"""``scdh index``: files of codes → one index to search in, in a file or in Milvus."""

from pathlib import Path
from typing import Annotated

import typer

from scdh.cli.options import Json, Replace
from scdh.cli.output import print_json, print_line
from scdh.errors import ConfigError

EXAMPLES = (
    "scdh index digits.codes --out digits.index",
    "scdh index digits.codes --out digits.index --replace",
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
    replace: Replace = False,
    renumber: Annotated[
        bool, typer.Option("--renumber", metavar="", help="Give new ids to codes whose file is not the first.")
    ] = False,
    check: Annotated[Path | None, typer.Option(help="Only compare all checksums of this index file.")] = None,
    as_json: Json = False,
) -> None:
    """Put codes into an index file for `scdh search`, or into Milvus.

    An id may come only once. Codes of two data sets both count from 0, so putting them together needs --renumber, which
    counts on from the largest id present. Names and labels go into a file OUT.items-… beside OUT. Killed at any moment,
    the command leaves the index as it was, or complete with its names; a load into Milvus is continued by the same
    command. An existing file is never replaced unless --replace says so.
    """
    if check is not None:
        if codes or out or to or append or replace or renumber:
            raise ConfigError("--check takes no codes and writes nothing; leave the rest out.")
        return _check(check, as_json)
    if (out is None) == (to is None):
        raise ConfigError("Say where the codes go: --out FILE, or --to milvus://host:port/collection.")
    if append and replace:
        raise ConfigError("Either --append or --replace, not both.")
    if not codes:
        raise ConfigError("Name at least one file of codes that `scdh encode` wrote.")
    if out is not None:
        return _write_file(codes, out, append, replace, renumber, as_json)
    if append or replace:
        option = "--append" if append else "--replace"
        raise ConfigError(f"--to always adds to an existing collection; leave {option} out.")
    _load_into_milvus(codes, to or "", renumber, as_json)


def _write_file(paths: list[Path], out: Path, append: bool, replace: bool, renumber: bool, as_json: bool) -> None:
    from scdh.cli.index_file import write_index
    from scdh.cli.inputs import check_file_writable, check_not_there
    from scdh.codes import HAMMING
    from scdh.index.milvus.uri import is_milvus_uri

    if is_milvus_uri(str(out)):
        raise ConfigError("--out is a file; codes go into a Milvus collection with --to.")

    check_file_writable(out)
    if not append:
        check_not_there(out, replace, ", and --append adds to it")
    built = write_index(paths, out, append=append, renumber=renumber)
    size = out.stat().st_size
    if as_json:
        print_json({"index": str(out), "items": len(built), "bits": built.bits, "bytes": size})
        return
    print_line(f"{out}: {len(built):,} codes of {built.bits} bits, {size:,} bytes.")
    model = "" if built.ranking == HAMMING else " --model RUN"
    print_line(f"Next:\n  scdh search {out}{model} --row {built.ids[0] if len(built) else 0}")


def _load_into_milvus(paths: list[Path], uri: str, renumber: bool, as_json: bool) -> None:
    from scdh.cli.index_file import add_codes, load_codes
    from scdh.code_checks import check_same_model
    from scdh.codes import HAMMING
    from scdh.errors import CodesError
    from scdh.index import HammingIndex
    from scdh.index.milvus import MilvusIndex

    loaded = load_codes(paths)
    first = loaded[0][1]
    if first.ranking != HAMMING:
        ranked = f"{paths[0]} is ranked by {first.ranking}, not by {HAMMING}"
        raise CodesError(f"{ranked}, which is all that Milvus knows; --out FILE writes an index file of it.")
    # Ids depend on the files alone, so the same command after an interruption sends the same ids.
    local = HammingIndex(first)
    ids = [local.ids if first.ids is None else first.ids]
    ids += [add_codes(local, codes, path, renumber) for path, codes, _ in loaded[1:]]
    with MilvusIndex.create_or_open(uri, first.bits, first.metadata) as collection:
        name = collection.shown
        check_same_model(collection.metadata, first.metadata, name, str(paths[0]))
        sent = sum(collection.load(codes, numbers) for (_, codes, _), numbers in zip(loaded, ids, strict=True))
        total = len(collection)
    if as_json:
        print_json({"index": name, "items": total, "bits": first.bits, "sent": sent})
        return
    print_line(f"{name}: {total:,} codes of {first.bits} bits, {sent:,} of them sent now.")
    print_line(f"Next:\n  scdh search --index {name} --row {ids[0][0] if len(first) else 0} --names {paths[0]}")


def _check(path: Path, as_json: bool) -> None:
    from scdh.index import HammingIndex
    from scdh.index.store import has_torn_header

    checked = HammingIndex.load(path, verify=True)
    torn = has_torn_header(path)
    if as_json:
        print_json(
            {"index": str(path), "items": len(checked), "bits": checked.bits, "sound": True, "torn_header": torn}
        )
        return
    state = "one of its two headers is torn, which the next --append repairs" if torn else "all checksums match"
    print_line(f"{path} is sound: {len(checked):,} codes of {checked.bits} bits; {state}.")

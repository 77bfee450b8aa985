"""``scdh index``: put files of codes into one index, in a file or in a search engine."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from scdh.cli.options import Json, Replace
from scdh.cli.output import print_json, print_line, print_note
from scdh.errors import ConfigError

EXAMPLES = (
    "scdh index digits.codes --out digits.index",
    "scdh index digits.codes --out digits.index --replace",
    "scdh index new.codes --out digits.index --append --renumber",
    "scdh index a.codes b.codes --renumber --out both.index --json",
    "scdh index digits.codes --bits 12 --out short.index",
    "scdh index vectors.codes --out vectors.index --keep-vectors int8",
    "scdh index digits.codes --to milvus://host:19530/digits",
    "scdh index digits.codes --to postgresql://ann@host/shop/digits",
    "scdh index digits.codes --to lance:vectors/digits",
    "scdh index new.codes --out shop.index --append --renumber --on-duplicate replace",
    "scdh index --out shop.index --remove 17 --remove SKU-4",
    "scdh index --check digits.index",
)


def index(
    codes: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Files that `scdh encode` wrote; or packed codes of other programs: .npy (uint8 \\[n, bytes]), or "
            ".txt with one hexadecimal hash per line and a name after it."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Index file to write.")] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Search engine to load instead: milvus://host/collection, milvus:FILE.db/collection, "
            "postgresql://host/database/table, or lance:FOLDER/table."
        ),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", metavar="", help="Add to the index that OUT already holds.")
    ] = False,
    replace: Replace = False,
    renumber: Annotated[
        bool, typer.Option("--renumber", metavar="", help="Give new ids to codes whose file is not the first.")
    ] = False,
    on_duplicate: Annotated[
        Literal["skip", "replace", "error"] | None,
        typer.Option(
            help="What to do with an item that the index already has: by id, or with --renumber by name (an id is an "
            "error, a name is reported).",
            show_default=False,
        ),
    ] = None,
    keep_vectors: Annotated[
        Literal["int8", "float16"] | None,
        typer.Option(
            help="Keep the vectors of `scdh encode --vectors`, rounded, for `scdh search --rank vectors`.",
            show_default=False,
        ),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            help="Keep only the first N bits of each code, such as of nested codes (all).", show_default=False
        ),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(help="Remove this item from OUT, by id or name; repeatable.")
    ] = None,
    remove_from: Annotated[
        Path | None, typer.Option(help="Remove the items in this text file from OUT, one id or name per line.")
    ] = None,
    check: Annotated[Path | None, typer.Option(help="Only verify all checksums of this index file.")] = None,
    as_json: Json = False,
) -> None:
    """Put codes into an index file for `scdh search`, or into a search engine; or remove items.

    Ids are unique. Codes of two data sets both count from 0, so they need --renumber, which continues after the largest
    id. Names and labels go into a file OUT.items-… next to OUT; move both files together. A search engine stores them
    with the codes. If the command is killed, the index is unchanged or complete with its names; the same command
    continues a load into an engine. An existing file is replaced only with --replace.
    """
    adds = codes or append or replace or renumber or on_duplicate or keep_vectors or bits is not None
    if check is not None:
        if adds or out or to or remove or remove_from:
            raise ConfigError("--check takes no codes and writes nothing; leave the rest out.")
        return _check(check, as_json)
    if remove or remove_from is not None:
        if adds or (out is None) == (to is None):
            raise ConfigError("--remove needs the index alone: --out FILE, or --to milvus://host/collection.")
        return _remove(out, to or "", remove or [], remove_from, as_json)
    if (out is None) == (to is None):
        from scdh.index.engines import ADDRESSES

        raise ConfigError(f"Say where the codes go: --out FILE, or --to {ADDRESSES}.")
    if append and replace:
        raise ConfigError("Either --append or --replace, not both.")
    if not codes:
        raise ConfigError("Name at least one file of codes that `scdh encode` wrote.")
    if out is not None:
        return _write_file(codes, out, append, replace, renumber, on_duplicate, keep_vectors, bits, as_json)
    if keep_vectors is not None:
        raise ConfigError("--keep-vectors is for index files; search engines rank by codes alone.")
    if on_duplicate is not None:
        raise ConfigError("--to always replaces items with the same id; leave --on-duplicate out.")
    if append or replace:
        option = "--append" if append else "--replace"
        raise ConfigError(f"--to always adds to what exists; leave {option} out.")
    _load_into_engine(codes, to or "", renumber, bits, as_json)


def _write_file(
    paths: list[Path],
    out: Path,
    append: bool,
    replace: bool,
    renumber: bool,
    on_duplicate: Literal["skip", "replace", "error"] | None,
    keep_vectors: Literal["int8", "float16"] | None,
    bits: int | None,
    as_json: bool,
) -> None:
    from scdh.cli.index_file import write_index
    from scdh.cli.inputs import check_file_writable, check_not_there
    from scdh.codes import HAMMING
    from scdh.index.engines import is_engine_address

    if is_engine_address(str(out)):
        raise ConfigError("--out is a file; codes go into a search engine with --to.")

    check_file_writable(out)
    if not append:
        check_not_there(out, replace, ", and --append adds to it")
    written = write_index(
        paths, out, append=append, renumber=renumber, on_duplicate=on_duplicate, keep_vectors=keep_vectors, bits=bits
    )
    built = written.index
    size = out.stat().st_size
    if as_json:
        about = {"index": str(out), "items": len(built), "bits": built.bits, "bytes": size}
        print_json({**about, "already_present": written.present})
        return
    if written.present:
        print_note(_present_text(written.present, written.action))
    print_line(f"{out}: {len(built):,} codes of {built.bits} bits, {size:,} bytes.")
    options = "" if built.ranking == HAMMING else " --model RUN"
    if built.vector_kind is not None:
        options += " --rank vectors"
    print_line(f"Next:\n  scdh search {out}{options} --row {built.ids[0] if len(built) else 0}")


def _present_text(count: int, action: str) -> str:
    items = "1 item was" if count == 1 else f"{count:,} items were"
    done = {
        "skip": "skipped",
        "replace": "replaced",
        "add": "added again under new ids; --on-duplicate skip or replace prevents that",
    }[action]
    return f"{items} in the index already and {done}."


def _remove(out: Path | None, uri: str, items: list[str], file: Path | None, as_json: bool) -> None:
    from scdh.cli.index_file import read_lines, remove_items

    items = [*items, *([] if file is None else read_lines(file))]
    if not items:
        raise ConfigError(f"{file} names no items to remove.")
    if out is not None:
        removed, left = remove_items(out, items)
    else:
        from scdh.cli.engine_names import rows_called
        from scdh.cli.search_queries import id_of_row
        from scdh.index.engines import engine_of

        with engine_of(uri).open(uri) as engine:
            shown = engine.shown
            ids = sorted({id_of_row(item, rows_called(engine, item), shown, option="--remove") for item in items})
            engine.remove(ids)
            removed, left = len(ids), len(engine)
            uri = engine.shown
    name = uri if out is None else str(out)
    if as_json:
        print_json({"index": name, "removed": removed, "items": left})
        return
    print_line(f"{name}: {removed:,} item{'' if removed == 1 else 's'} removed, {left:,} left.")


def _load_into_engine(paths: list[Path], uri: str, renumber: bool, bits: int | None, as_json: bool) -> None:
    from scdh.cli.engine_names import items_of
    from scdh.cli.index_file import add_codes, load_codes
    from scdh.codes import HAMMING
    from scdh.codes.checks import check_same_model
    from scdh.errors import CodesError
    from scdh.index import HammingIndex
    from scdh.index.engines import engine_of

    loaded = load_codes(paths, bits)
    first = loaded[0][1]
    if first.ranking != HAMMING:
        ranked = f"{paths[0]} is ranked by {first.ranking}, not by {HAMMING}"
        raise CodesError(f"{ranked}, which is all that search engines know; --out FILE writes an index file of it.")
    # Ids depend on the files alone, so the same command after an interruption sends the same ids.
    local = HammingIndex(first)
    ids = [local.ids if first.ids is None else first.ids]
    ids += [add_codes(local, codes, path, renumber) for path, codes, _ in loaded[1:]]
    with engine_of(uri).create_or_open(uri, first.bits, first.metadata) as engine:
        name = engine.shown
        check_same_model(engine.metadata, first.metadata, name, str(paths[0]))
        parts = zip(loaded, ids, strict=True)
        sent = sum(engine.load(codes, numbers, items_of(names)) for (_, codes, names), numbers in parts)
        total = len(engine)
    if as_json:
        print_json({"index": name, "items": total, "bits": first.bits, "sent": sent})
        return
    print_line(f"{name}: {total:,} codes of {first.bits} bits, {sent:,} of them written now.")
    print_line(f"Next:\n  scdh search --index {shlex.quote(name)} --row {ids[0][0] if len(first) else 0}")


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

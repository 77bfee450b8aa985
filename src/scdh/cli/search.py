"""``scdh search``: find the nearest items for images, codes, or an item of the index."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from scdh.cli.options import Device, EngineName, Json, PictureData, use_device
from scdh.cli.output import print_json, print_line, print_note
from scdh.errors import CodesError, ConfigError

if TYPE_CHECKING:
    from scdh.data.row_names import RowNames
    from scdh.index.search_index import SearchEngine, SearchIndex

EXAMPLES = (
    "scdh search digits.index --row 0",
    "scdh search shop.index --row SKU-17 -k 5",
    "scdh search digits.index --codes queries.codes -k 5 --json",
    "scdh search photos.index --model runs/shop apple.jpg --radius 3",
    "scdh search photos.index --model runs/shop apple.jpg --rank outputs",
    "scdh search photos.index --model runs/shop apple.jpg --rank vectors",
    "scdh search dqn.index --model runs/dqn --row 0",
    "scdh search photos.index --row 0 --label pear --label apple",
    "scdh search photos.index --codes queries.codes --html hits.html",
    "scdh search shop.index --row 0 --html hits.html --data shop.parquet",
    "scdh search --index milvus://host:19530/digits --codes queries.codes",
    "scdh search --index postgresql://ann@host/shop/photos --row SKU-17 --label pear",
)
PRINTED_QUERIES = 20


def search(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INDEX] [IMAGE]...",
            help="File that `scdh index` wrote; then, with --model, image files, or data as for `scdh train`.",
        ),
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="The index by name: a file, or an address as of `scdh index --to`.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model that made the index; it encodes queries, and computes distances if its method has its own."
        ),
    ] = None,
    codes: Annotated[Path | None, typer.Option(help="File of codes to use as queries.")] = None,
    row: Annotated[
        list[str] | None,
        typer.Option(help="Use this item as query, by id or name; it is left out of the hits."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Nearest items to show (10, or all within --radius).")] = None,
    radius: Annotated[int | None, typer.Option(help="Only items at most this many bits away.")] = None,
    rank: Annotated[
        Literal["bits", "outputs", "vectors"],
        typer.Option(
            help="By bits that differ; with --model by the query's real outputs, which gains with few bits and can "
            "lose with 32 and more; or by the vectors of `scdh index --keep-vectors` (see docs/search.md)."
        ),
    ] = "bits",
    label: Annotated[list[str] | None, typer.Option(help="Only items with this label; repeatable.")] = None,
    names: Annotated[
        Path | None, typer.Option(help="Codes or index file whose names are shown (default: those of the index).")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also write the hits into this HTML file, with pictures.", show_default=False)
    ] = None,
    data: PictureData = None,
    device: Device = None,
    engine: EngineName = "auto",
    as_json: Json = False,
) -> None:
    """Find the nearest items, by Hamming distance or by a distance of the model's own.

    The query's own item comes first. Items at the same distance are ordered by the query's real outputs if --model
    encodes it, otherwise by id. Codes mean "same label", not "looks most alike".

    If a list ends within a tie, a line below it gives the number of further items at that distance. --html writes the
    hits as a page with pictures of items whose names are image files, or of the rows of --data. --rank outputs sums the
    absolute values of the query's real outputs over the bits that differ; search engines rank the nearest candidates
    only. --rank vectors ranks the 4·k nearest items by the cosine of their outputs and the query's. An index of a
    method with a distance of its own (DQN, Cls-onehot) needs --model, also with --row and --codes.
    """
    use_device(device)
    index_name, inputs = _split_arguments(index, arguments or [])
    _check_query(inputs, model, codes, row)
    _check_one_row(row)
    if k is not None and k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, got {k}.")
    if rank == "outputs" and (model is None or radius is not None):
        given = "--radius counts bits" if model is not None else "codes alone have none"
        raise ConfigError(f"--rank outputs needs the real outputs of queries that --model encodes; {given}.")
    if rank == "vectors" and radius is not None:
        raise ConfigError("--rank vectors ranks the nearest items; leave out --radius, which counts bits.")
    _check_page(html, data)
    from scdh.cli.engine_names import row_names_of, rows_called
    from scdh.cli.search_hits import SearchRequest, describe_hits, print_hits
    from scdh.cli.search_queries import (
        encoded_queries,
        id_of_row,
        ids_with_labels,
        queries_of_file,
        query_of_index,
        ranked_by_model,
    )
    from scdh.index.rescoring import RESCORE

    searched, row_names = _open_index(index_name, names)
    _check_ranking(searched, index_name, model, inputs, radius, rank)
    # The engine whose own names are shown; None: those of a file, or none.
    name_store = cast("SearchEngine", searched) if row_names is None and searched.abilities.names else None
    row_id = None
    if row:
        asked = row_names if name_store is None else rows_called(name_store, row[0])
        row_id = id_of_row(row[0], asked, index_name)
        queries = query_of_index(searched, row_id, asked)
    elif codes is not None:
        queries = queries_of_file(codes, searched, index_name)
    else:
        queries = encoded_queries(model or "", inputs, searched, index_name, rank=rank, engine=engine)
    if model is not None and not inputs:
        queries = ranked_by_model(queries, model, searched, index_name)
    if row_id is None:
        own_items = row_names if name_store is None else row_names_of(name_store, name_store.named(queries.names))
        queries = replace(queries, items=own_items)
    allowed: Any = None
    if label:
        own = None if name_store is None else name_store.with_labels(label)
        allowed = own or ids_with_labels(row_names, label, index_name)
    search_for = SearchRequest(searched, k, radius, allowed, row_id, RESCORE if rank == "vectors" else None)
    found = search_for.find(queries)
    if name_store is not None:
        row_names = row_names_of(name_store, (item_id for ids, _ in found for item_id in ids.tolist()))
    if html is not None:
        from scdh.cli.search_page import write_hits

        write_hits(html, index_name, search_for, queries, found, row_names, data)
    hits = [describe_hits(ids, distances, row_names) for ids, distances in found]
    if as_json:
        titled = zip(queries.names, hits, strict=True)
        print_json(
            {
                "index": index_name,
                "items": len(searched),
                "bits": searched.bits,
                "queries": [{"query": title, "hits": per_query} for title, per_query in titled],
                **({} if html is None else {"html": str(html)}),
            }
        )
        return
    for n, title in enumerate(queries.names[:PRINTED_QUERIES]):
        print_hits(title, hits[n], search_for.note(queries, n, found[n][1]))
    if len(hits) > PRINTED_QUERIES:
        print_note(f"These are the first {PRINTED_QUERIES} of {len(hits)} queries; --json gives all.")
    if html is not None:
        print_line(f"The hits as a page are in {html}.")


def _check_page(html: Path | None, data: str | None) -> None:
    """Check before the search that the page can be written."""
    if html is None:
        if data is not None:
            raise ConfigError("--data is for the pictures of --html; give that too.")
        return
    from importlib.util import find_spec

    from scdh.cli.inputs import check_file_writable

    if find_spec("jinja2") is None:
        raise ConfigError("--html needs jinja2: pip install jinja2.")
    check_file_writable(html, "--html")


def _split_arguments(index: str | None, arguments: list[str]) -> tuple[str, list[str]]:
    """The name of the index, and the inputs to encode: without --index the first argument is the index."""
    if index is not None:
        return index, arguments
    if not arguments:
        raise ConfigError("Name the index to search in: a file that `scdh index` wrote, or --index milvus://….")
    return arguments[0], arguments[1:]


def _check_query(inputs: list[str], model: str | None, codes: Path | None, row: list[str] | None) -> None:
    kinds = ("an image", inputs or None), ("--codes", codes), ("--row", row or None)
    given = [name for name, value in kinds if value is not None]
    if inputs and model is None:
        came = f", but came with {given[1]}" if len(given) > 1 else ""
        raise ConfigError(f"{inputs[0]!r} needs --model, the model that made the index, to encode it{came}.")
    if not given and model is not None:
        raise ConfigError("--model needs an image to encode (or, for a distance of its own, --row or --codes).")
    if len(given) != 1:
        got = f"Give one query, not {' and '.join(given)}" if given else "Give a query"
        raise ConfigError(f"{got}: an image with --model RUN, a file with --codes, or an item with --row ID.")


def _check_one_row(row: list[str] | None) -> None:
    if row and len(row) > 1:
        raise ConfigError(f"--row takes one item, got {' and '.join(map(repr, row))}; --codes takes many queries.")


def _check_ranking(
    index: "SearchIndex",
    name: str,
    model: str | None,
    inputs: list[str],
    radius: int | None,
    rank: str,
) -> None:
    """Check --model and --radius: a distance of the method's own needs the model for every query, and has no radius."""
    from scdh.codes import HAMMING, ranking_of
    from scdh.index.engines import is_engine_address

    if rank == "vectors" and is_engine_address(name):
        raise ConfigError(f"--rank vectors needs an index file that keeps vectors, and {name} is a search engine.")
    ranking = ranking_of(index.metadata)
    if ranking == HAMMING:
        if model is not None and not inputs:
            raise ConfigError(f"The codes of {name} need no model for ranking; --model is for images, so leave it out.")
        return
    if model is None:
        raise ConfigError(f"{name} is ranked by {ranking}, computed by the model that made it: give --model RUN.")
    if radius is not None or rank != "bits":
        option = "--radius" if radius is not None else f"--rank {rank}"
        raise ConfigError(f"{name} is ranked by {ranking}, for which there is no {option}.")


def _open_index(name: str, names: Path | None) -> "tuple[SearchIndex, RowNames | None]":
    """The index, and the names of its rows if there are any."""
    from scdh.data.name_files import index_names_file, is_missing_names, load_names, names_of_index
    from scdh.index.engines import is_engine_address, open_index

    index = open_index(name)
    row_names = None
    if names is None and not is_engine_address(name):
        row_names = names_of_index(Path(name), index)
        if is_missing_names(Path(name), index.metadata):
            file = index_names_file(Path(name), index.metadata).name
            print_note(f"The names and labels of {name} are missing: there is no file {file} next to it.")
    if names is not None:
        row_names = load_names(names)
        if row_names is None:
            missing = "holds none" if names.exists() else "is missing"
            raise CodesError(f"There are no names for --names: {names} {missing}.")
    return index, row_names

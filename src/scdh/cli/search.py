"""``scdh search``: the nearest items of an index for images, codes, or an item of the index itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scdh.cli.options import Device, Json, use_device
from scdh.cli.output import print_json, print_line, print_note, print_table
from scdh.errors import CodesError, ConfigError, unknown_name

if TYPE_CHECKING:
    import numpy as np

    from scdh.codes import Codes
    from scdh.data.row_names import RowNames
    from scdh.index import HammingIndex
    from scdh.index.milvus import MilvusIndex

EXAMPLES = (
    "scdh search digits.index --row 0",
    "scdh search digits.index --codes queries.codes -k 5 --json",
    "scdh search photos.index --model runs/shop apple.jpg --radius 3",
    "scdh search photos.index --row 0 --label pear --label apple",
    "scdh search --index milvus://host:19530/digits --codes queries.codes --names digits.codes",
)
PRINTED_QUERIES, DEFAULT_K = 20, 10


def search(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INDEX] [IMAGE]...",
            help="File that `scdh index` wrote; then, with --model, image files, or data as for `scdh train`.",
        ),
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="The index by name: a file, or a Milvus collection milvus://host/collection.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model that encodes the images; the one that made the index.")
    ] = None,
    codes: Annotated[Path | None, typer.Option(help="File of codes to take as queries.")] = None,
    row: Annotated[
        int | None, typer.Option(help="Take the item of this id as query; it is left out of the hits.")
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Nearest items to show (10, or all within --radius).")] = None,
    radius: Annotated[int | None, typer.Option(help="Only items at most this many bits away.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Only items with this label; may be given several times.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="Codes or index file whose names are shown (default: those of the index).")
    ] = None,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Find the nearest items by Hamming distance; ties are ordered by id."""
    use_device(device)
    index_name, inputs = _split_arguments(index, arguments or [])
    _check_query(inputs, model, codes, row)
    if k is not None and k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, got {k}.")
    searched, row_names = _open_index(index_name, names)
    positions = {} if row_names is None else {row_id: n for n, row_id in enumerate(row_names.ids.tolist())}
    if row is not None:
        queries = searched.codes_of([row])
        titles = [f"id {row}" if row_names is None or row not in positions else row_names.names[positions[row]]]
    elif codes is not None:
        queries, titles = _load_queries(codes, searched, index_name)
    else:
        queries, titles = _encode_queries(model or "", inputs, searched, index_name)
    allowed = None if not label else _ids_with_labels(row_names, label, index_name)
    hits = [
        _describe_hits(ids, distances, row_names, positions)
        for ids, distances in _find_hits(searched, queries, k, radius, allowed, left_out=row)
    ]
    if as_json:
        print_json(
            {
                "index": index_name,
                "items": len(searched),
                "bits": searched.bits,
                "queries": [{"query": title, "hits": per_query} for title, per_query in zip(titles, hits, strict=True)],
            }
        )
        return
    for title, per_query in list(zip(titles, hits, strict=True))[:PRINTED_QUERIES]:
        _print_hits(title, per_query)
    if len(titles) > PRINTED_QUERIES:
        print_note(f"These are the first {PRINTED_QUERIES} of {len(titles)} queries; --json gives all.")


def _split_arguments(index: str | None, arguments: list[str]) -> tuple[str, list[str]]:
    """The name of the index, and the inputs to encode: without --index the first argument is the index."""
    if index is not None:
        return index, arguments
    if not arguments:
        raise ConfigError("Name the index to search in: a file that `scdh index` wrote, or --index milvus://….")
    return arguments[0], arguments[1:]


def _check_query(inputs: list[str], model: str | None, codes: Path | None, row: int | None) -> None:
    given = [name for name, value in (("--model", model), ("--codes", codes), ("--row", row)) if value is not None]
    if inputs and not given:
        raise ConfigError(f"{inputs[0]!r} needs --model, the model that made the index, to encode it.")
    if len(given) != 1:
        raise ConfigError(f"The query is one of --model, --codes and --row, not {' and '.join(given) or 'none'}.")
    if inputs and model is None:
        raise ConfigError(f"Images need --model to encode them, but {inputs[0]!r} came with {given[0]}.")
    if model is not None and not inputs:
        raise ConfigError("--model needs at least one image to encode.")


def _open_index(name: str, names: Path | None) -> "tuple[HammingIndex | MilvusIndex, RowNames | None]":
    """The index, and the names of its rows if there are any."""
    from scdh.data.row_names import RowNames, row_names_file
    from scdh.index import HammingIndex
    from scdh.index.milvus.uri import is_milvus_uri

    index: Any
    row_names = None
    if is_milvus_uri(name):
        from scdh.index.milvus import MilvusIndex

        index = MilvusIndex.open(name)
    else:
        index = HammingIndex.load(name)
        if names is None:
            row_names = RowNames.load(Path(name), index.ids, len(index), may_have_more=True)
    if names is not None:
        row_names = RowNames.read(row_names_file(names))
        if row_names is None:
            raise CodesError(f"There are no names beside {names}: {row_names_file(names)} is missing.")
    return index, row_names


def _load_queries(codes: Path, index: "HammingIndex | MilvusIndex", index_name: str) -> tuple["Codes", list[str]]:
    """Queries of a file of codes, and their names."""
    from scdh.cli.same_model import check_same_model
    from scdh.codes import Codes
    from scdh.data.row_names import RowNames

    queries = Codes.load(codes)
    check_same_model(index.metadata, queries.metadata, index_name, str(codes))
    row_names = RowNames.load(codes, queries.ids, len(queries))
    ids = range(len(queries)) if queries.ids is None else queries.ids
    return queries, [f"id {row_id}" for row_id in ids] if row_names is None else row_names.names


def _encode_queries(
    model: str, inputs: list[str], index: "HammingIndex | MilvusIndex", index_name: str
) -> tuple["Codes", list[str]]:
    """Queries encoded by a model, and their names."""
    import numpy as np

    from scdh.cli.inputs import open_inputs
    from scdh.cli.same_model import check_same_model
    from scdh.runs.encoding import encode_rows
    from scdh.runs.folder import RunFolder

    source = open_inputs(inputs)
    hasher = RunFolder(model).load_model()
    check_same_model(index.metadata, {"model": hasher.fingerprint()}, index_name, model)
    codes, row_names = encode_rows(hasher, source, np.arange(len(source)), workers=0)
    return codes, row_names.names


def _ids_with_labels(row_names: "RowNames | None", labels: list[str], index_name: str) -> "np.ndarray":
    """Ids of the items that have one of these labels."""
    import numpy as np

    if row_names is None or not row_names.labelled:
        raise ConfigError(f"--label needs items with labels, and there are none for {index_name}.")
    unknown = [label for label in labels if label not in row_names.label_names]
    if unknown:
        raise ConfigError(unknown_name("label", unknown[0], row_names.label_names))
    wanted = [row_names.label_names.index(label) for label in labels]
    if row_names.labels.ndim == 1:
        return row_names.ids[np.isin(row_names.labels, wanted)]
    return row_names.ids[row_names.labels[:, wanted].any(axis=1)]


def _find_hits(
    index: "HammingIndex | MilvusIndex",
    queries: "Codes",
    k: int | None,
    radius: int | None,
    allowed: "np.ndarray | None",
    left_out: int | None,
) -> "list[tuple[np.ndarray, np.ndarray]]":
    """Ids and distances of the hits of each query."""
    from scdh.index import HammingIndex
    from scdh.index.search.rounds import ROUND

    # A progress bar for many queries; Milvus has none, because its hits come in batches from a server.
    options: dict[str, Any] = {"progress": True} if isinstance(index, HammingIndex) and len(queries) > ROUND else {}
    if radius is not None:
        limit = k
        hits: Any = index.within(queries, radius, only=allowed, **options)
    else:
        limit = k or DEFAULT_K
        hits = index.search(queries, limit + (left_out is not None), only=allowed, **options)
    per_query = []
    for query_hits in hits:
        ids, distances = query_hits.ids, query_hits.distances
        others = slice(None) if left_out is None else ids != left_out
        per_query.append((ids[others][:limit], distances[others][:limit]))
    return per_query


def _describe_hits(
    ids: "np.ndarray", distances: "np.ndarray", row_names: "RowNames | None", positions: dict[int, int]
) -> list[dict[str, Any]]:
    """Rank, distance, id and, if known, name and label of one query's hits; ``positions`` are those in row_names."""
    hits: list[dict[str, Any]] = []
    for rank, (row_id, distance) in enumerate(zip(ids.tolist(), distances.tolist(), strict=True), start=1):
        hit: dict[str, Any] = {"rank": rank, "distance": distance, "id": row_id}
        if row_names is not None:
            position = positions.get(row_id)
            hit["name"] = "" if position is None else row_names.names[position]
            if row_names.labelled:
                hit["label"] = "" if position is None else row_names.label(position)
        hits.append(hit)
    return hits


def _print_hits(title: str, hits: list[dict[str, Any]]) -> None:
    if not hits:
        print_line(f"{title}: nothing is that near.")
        return
    rows = [list(hit.values()) for hit in hits]
    print_table(list(hits[0]), rows, title=title, right=("rank", "distance", "id"))

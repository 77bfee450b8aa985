"""``scdh search``: the nearest items of an index for images, codes, or an item of the index itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scdh.cli.options import Json
from scdh.cli.show import document, remark, result, table
from scdh.errors import CodesError, ConfigError, unknown_name

if TYPE_CHECKING:
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
SHOWN = 20


def search(
    words: Annotated[
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
    codes: Annotated[Path | None, typer.Option(help="File of codes to ask with.")] = None,
    row: Annotated[int | None, typer.Option(help="Ask with the item of this id; it is left out of the answer.")] = None,
    k: Annotated[int | None, typer.Option("-k", help="Nearest items to show (10, or all within --radius).")] = None,
    radius: Annotated[int | None, typer.Option(help="Only items at most this many bits away.")] = None,
    label: Annotated[
        list[str] | None, typer.Option(help="Only items with this label; may be given several times.")
    ] = None,
    names: Annotated[
        Path | None, typer.Option(help="Codes or index file whose names are shown (default: those of the index).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Find the nearest items by Hamming distance; ties are ordered by id."""
    place, queries = _place(index, words or [])
    given = [name for name, value in (("--model", model), ("--codes", codes), ("--row", row)) if value is not None]
    if queries and not given:
        raise ConfigError(f"{queries[0]!r} needs --model, the model that made the index, to encode it.")
    if len(given) != 1:
        raise ConfigError(f"Ask with one of --model, --codes and --row, not with {' and '.join(given) or 'none'}.")
    if queries and model is None:
        raise ConfigError(f"Images need --model to encode them, but {queries[0]!r} came with {given[0]}.")
    if k is not None and k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, got {k}.")
    found, items = _open(place, names)
    known = {} if items is None else {number: at for at, number in enumerate(items.ids.tolist())}
    if row is not None:
        asked = found.codes_of([row])
        titles = [items.names[known[row]] if items is not None and row in known else f"id {row}"]
    elif codes is not None:
        asked, titles = _from_file(codes, found, place)
    else:
        asked, titles = _encode(model or "", queries, found, place)
    only = None if not label else _labelled(items, label, place)
    labelled = items is not None and items.labelled
    answers = [
        _hits(ids, distances, items, labelled, known)
        for ids, distances in _answers(found, asked, k, radius, only, leave_out=row)
    ]
    if as_json:
        document(
            {
                "index": place,
                "items": len(found),
                "bits": found.bits,
                "queries": [{"query": name, "hits": hits} for name, hits in zip(titles, answers, strict=True)],
            }
        )
        return
    for name, hits in list(zip(titles, answers, strict=True))[:SHOWN]:
        _print(name, hits)
    if len(titles) > SHOWN:
        remark(f"These are the first {SHOWN} of {len(titles)} queries; --json gives all.")


def _place(index: str | None, words: list[str]) -> tuple[str, list[str]]:
    """Where the index is, and what to encode: without --index the first word names the index."""
    if index is not None:
        return index, words
    if not words:
        raise ConfigError("Name the index to search in: a file that `scdh index` wrote, or --index milvus://….")
    return words[0], words[1:]


def _open(place: str, names: Path | None) -> "tuple[HammingIndex | MilvusIndex, RowNames | None]":
    from scdh.data.row_names import RowNames, row_names_file
    from scdh.index import HammingIndex
    from scdh.index.milvus.uri import is_milvus_uri

    if is_milvus_uri(place):
        from scdh.index.milvus import MilvusIndex

        found: Any = MilvusIndex.open(place)
        items = None
    else:
        found = HammingIndex.load(place)
        items = RowNames.load(Path(place), found.ids, len(found), may_have_more=True) if names is None else None
    if names is not None:
        items = RowNames.read(row_names_file(names))
        if items is None:
            raise CodesError(f"There are no names beside {names}: {row_names_file(names)} is missing.")
    return found, items


def _from_file(codes: Path, index: "HammingIndex | MilvusIndex", place: str) -> tuple["Codes", list[str]]:
    from scdh.cli.same_model import refuse_other_model
    from scdh.codes import Codes
    from scdh.data.row_names import RowNames

    asked = Codes.load(codes)
    refuse_other_model(index.metadata, asked.metadata, place, str(codes))
    known = RowNames.load(codes, asked.ids, len(asked))
    numbers = range(len(asked)) if asked.ids is None else asked.ids
    return asked, [f"id {number}" for number in numbers] if known is None else known.names


def _encode(
    model: str, queries: list[str], index: "HammingIndex | MilvusIndex", place: str
) -> tuple["Codes", list[str]]:
    if not queries:
        raise ConfigError("--model needs at least one image to encode.")
    import numpy as np

    from scdh.cli.inputs import open_inputs
    from scdh.cli.same_model import refuse_other_model
    from scdh.runs.encoding import encode_part, load_model

    source = open_inputs(queries)
    hasher = load_model(model)
    refuse_other_model(index.metadata, {"model": hasher.fingerprint()}, place, model)
    codes, items = encode_part(hasher, source, np.arange(len(source)), title="encoding", workers=0)
    return codes, items.names


def _labelled(items: "RowNames | None", labels: list[str], place: str) -> Any:
    """Ids of the items that have one of these labels."""
    import numpy as np

    if items is None or not items.labelled:
        raise ConfigError(f"--label needs items with labels, and there are none for {place}.")
    unknown = [label for label in labels if label not in items.label_names]
    if unknown:
        raise ConfigError(unknown_name("label", unknown[0], items.label_names))
    wanted = [items.label_names.index(label) for label in labels]
    chosen = np.isin(items.labels, wanted) if items.labels.ndim == 1 else items.labels[:, wanted].any(axis=1)
    return items.ids[chosen]


def _answers(
    index: "HammingIndex | MilvusIndex",
    asked: "Codes",
    k: int | None,
    radius: int | None,
    only: Any,
    leave_out: int | None,
) -> list[tuple[Any, Any]]:
    """Ids and distances of each query."""
    from scdh.index import HammingIndex
    from scdh.index.search.rounds import ROUND

    limit = k if radius is not None else k or 10
    # A bar for those who wait; Milvus has none to show, its answers come batch by batch from elsewhere.
    options: dict[str, Any] = {"progress": True} if isinstance(index, HammingIndex) and len(asked) > ROUND else {}
    if radius is not None:
        hits: Any = index.within(asked, radius, only=only, **options)
    else:
        hits = index.search(asked, (limit or 10) + (leave_out is not None), only=only, **options)
    answers = []
    for query_hits in hits:
        ids, distances = query_hits.ids, query_hits.distances
        others = slice(None) if leave_out is None else ids != leave_out
        answers.append((ids[others][:limit], distances[others][:limit]))
    return answers


def _hits(
    ids: Any, distances: Any, items: "RowNames | None", labelled: bool, known: dict[int, int]
) -> list[dict[str, Any]]:
    """The answer to one query; ``known`` says where an id stands in ``items``."""
    hits: list[dict[str, Any]] = []
    for rank, (number, distance) in enumerate(zip(ids.tolist(), distances.tolist(), strict=True), start=1):
        hit: dict[str, Any] = {"rank": rank, "distance": distance, "id": number}
        if items is not None:
            at = known.get(number)
            hit["name"] = "" if at is None else items.names[at]
            if labelled:
                hit["label"] = "" if at is None else items.label(at)
        hits.append(hit)
    return hits


def _print(name: str, hits: list[dict[str, Any]]) -> None:
    if not hits:
        result(f"{name}: nothing is that near.")
        return
    rows = [list(hit.values()) for hit in hits]
    table(list(hits[0]), rows, title=name, right=("rank", "distance", "id"))

"""``scdh search``: the nearest items of an index for images, codes, or an item of the index itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scdh.cli.options import Json
from scdh.cli.show import document, remark, result, table
from scdh.errors import CodesError, ConfigError

if TYPE_CHECKING:
    from scdh.codes import Codes
    from scdh.data.sidecar import Items
    from scdh.index import HammingIndex

EXAMPLES = (
    "scdh search digits.index --row 0",
    "scdh search digits.index --codes queries.codes -k 5 --json",
    "scdh search photos.index --model runs/shop apple.jpg --radius 3",
)
SHOWN = 20


def search(
    index: Annotated[Path, typer.Argument(help="File that `scdh index` wrote.")],
    queries: Annotated[
        list[str] | None,
        typer.Argument(metavar="IMAGE", help="With --model: image files, or data as for `scdh train`."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model that encodes the images; the one that made the index.")
    ] = None,
    codes: Annotated[Path | None, typer.Option(help="File of codes to ask with.")] = None,
    row: Annotated[int | None, typer.Option(help="Ask with the item of this id; it is left out of the answer.")] = None,
    k: Annotated[int | None, typer.Option("-k", help="Nearest items to show (10, or all within --radius).")] = None,
    radius: Annotated[int | None, typer.Option(help="Only items at most this many bits away.")] = None,
    as_json: Json = False,
) -> None:
    """Find the nearest items by Hamming distance; ties are ordered by id."""
    from scdh.cli.same_model import refuse_other_model
    from scdh.codes import Codes
    from scdh.data.sidecar import Items
    from scdh.index import HammingIndex

    given = [name for name, value in (("--model", model), ("--codes", codes), ("--row", row)) if value is not None]
    if queries and not given:
        raise ConfigError(f"{queries[0]!r} needs --model, the model that made the index, to encode it.")
    if len(given) != 1:
        raise ConfigError(f"Ask with one of --model, --codes and --row, not with {' and '.join(given) or 'none'}.")
    if queries and model is None:
        raise ConfigError(f"Images need --model to encode them, but {queries[0]!r} came with {given[0]}.")
    if k is not None and k < 1:
        raise ConfigError(f"k must be a whole number of at least 1, got {k}.")
    found = HammingIndex.load(index)
    items = Items.load(index, found.ids, len(found))
    if row is not None:
        asked, names = _own_item(found, items, row)
    elif codes is not None:
        asked = Codes.load(codes)
        refuse_other_model(found.codes.metadata, asked.metadata, str(index), str(codes))
        known = Items.load(codes, asked.ids, len(asked))
        numbers = range(len(asked)) if asked.ids is None else asked.ids
        names = [f"id {number}" for number in numbers] if known is None else known.names
    else:
        asked, names = _encode(model or "", queries or [], found, str(index))
    rows = {number: at for at, number in enumerate(found.ids.tolist())}
    answers = [
        _hits(ids, distances, items, rows)
        for ids, distances in _answers(found, asked, k, radius, leave_out=row)
    ]
    if as_json:
        document(
            {
                "index": str(index),
                "items": len(found),
                "bits": found.bits,
                "queries": [
                    {"query": name, "hits": hits} for name, hits in zip(names, answers, strict=True)
                ],
            }
        )
        return
    for name, hits in list(zip(names, answers, strict=True))[:SHOWN]:
        _print(name, hits)
    if len(names) > SHOWN:
        remark(f"These are the first {SHOWN} of {len(names)} queries; --json gives all.")


def _own_item(index: "HammingIndex", items: "Items | None", row: int) -> tuple["Codes", list[str]]:
    import numpy as np

    at = np.flatnonzero(index.ids == row)
    if not len(at):
        raise CodesError(f"The index holds no id {row}; its {len(index)} ids go from {_span(index)}.")
    return index.codes[at], [f"id {row}" if items is None else items.names[at[0]]]


def _span(index: "HammingIndex") -> str:
    return f"{index.ids.min()} to {index.ids.max()}" if len(index) else "nowhere to nowhere"


def _encode(model: str, queries: list[str], index: "HammingIndex", name: str) -> tuple["Codes", list[str]]:
    if not queries:
        raise ConfigError("--model needs at least one image to encode.")
    import numpy as np

    from scdh.cli.inputs import open_inputs
    from scdh.cli.runs import encode_part, load_model
    from scdh.cli.same_model import refuse_other_model

    source = open_inputs(queries)
    hasher = load_model(model)
    refuse_other_model(index.codes.metadata, {"model": hasher.fingerprint()}, name, model)
    codes, items = encode_part(hasher, source, np.arange(len(source)), title="encoding", workers=0)
    return codes, items.names


def _answers(
    index: "HammingIndex", asked: "Codes", k: int | None, radius: int | None, leave_out: int | None
) -> list[tuple[Any, Any]]:
    """Ids and distances of each query."""
    limit = k if radius is not None else k or 10
    if radius is not None:
        hits: Any = index.within(asked, radius)
    else:
        hits = index.search(asked, (limit or 10) + (leave_out is not None))
    answers = []
    for query in range(len(asked)):
        ids, distances = hits.of(query)
        others = slice(None) if leave_out is None else ids != leave_out
        answers.append((ids[others][:limit], distances[others][:limit]))
    return answers


def _hits(ids: Any, distances: Any, items: "Items | None", rows: dict[int, int]) -> list[dict[str, Any]]:
    """The answer to one query; ``rows`` says where an id stands in ``items``."""
    hits: list[dict[str, Any]] = []
    for rank, (number, distance) in enumerate(zip(ids.tolist(), distances.tolist(), strict=True), start=1):
        hit: dict[str, Any] = {"rank": rank, "distance": distance, "id": number}
        if items is not None:
            hit["name"] = items.names[rows[number]]
            if items.labelled:
                hit["label"] = items.label(rows[number])
        hits.append(hit)
    return hits


def _print(name: str, hits: list[dict[str, Any]]) -> None:
    if not hits:
        result(f"{name}: nothing is that near.")
        return
    rows = [list(hit.values()) for hit in hits]
    table(list(hits[0]), rows, title=name, right=("rank", "distance", "id"))

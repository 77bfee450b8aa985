"""``scdh export``: codes in the formats of other programs."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Literal

import typer

from scdh.cli.options import Json, Replace
from scdh.cli.output import print_json, print_line

EXAMPLES = (
    "scdh export photos.index --to parquet --out photos.parquet",
    "scdh export photos.codes --to faiss --out photos.faiss",
    "scdh export photos.index --to elasticsearch --out photos.ndjson",
)


def export(
    source: Annotated[Path, typer.Argument(metavar="INDEX|CODES", help="Index file, or file of codes.")],
    to: Annotated[
        Literal["parquet", "arrow", "npy", "faiss", "elasticsearch", "opensearch", "vespa"],
        typer.Option(help="The format."),
    ],
    out: Annotated[Path, typer.Option(help="File to write.")],
    replace: Replace = False,
    as_json: Json = False,
) -> None:
    """Write codes, ids, names and labels in a format that other programs load.

    parquet and arrow have the columns id, code (a list of bytes), name and labels. npy is the array of packed rows.
    faiss is a binary index file, with ids if they are not 0, 1, 2, …. elasticsearch, opensearch and vespa are files of
    JSON lines for their bulk loaders. The line that loads the file is printed; docs/search.md describes the field that
    an engine needs first.
    """
    from scdh.cli.inputs import check_file_writable, check_not_there, open_codes
    from scdh.codes.checks import check_hamming_codes
    from scdh.data.exports import export_codes

    check_file_writable(out)
    check_not_there(out, replace)
    index, names = open_codes(source)
    codes = index.codes
    check_hamming_codes(codes, f"The codes of {source}", codes.bits)
    export_codes(out, to, codes, names)
    size = out.stat().st_size
    if as_json:
        print_json({"file": str(out), "format": to, "items": len(codes), "bits": codes.bits, "bytes": size})
        return
    print_line(f"{out}: {len(codes):,} codes of {codes.bits} bits, {size:,} bytes.")
    print_line(f"Load it:\n  {_loader(to, str(out))}")


def _loader(kind: str, file: str) -> str:
    """The line that loads a file of a format."""
    bulk = f"curl -H 'Content-Type: application/x-ndjson' --data-binary {quote(f'@{file}')} localhost:9200/photos/_bulk"
    lines = {
        "parquet": f"pyarrow.parquet.read_table({file!r})",
        "arrow": f"pyarrow.ipc.open_file({file!r}).read_all()",
        "npy": f"numpy.load({file!r})",
        "faiss": f"faiss.read_index_binary({file!r})",
        "vespa": f"vespa feed {quote(file)}",
    }
    return lines.get(kind, bulk)

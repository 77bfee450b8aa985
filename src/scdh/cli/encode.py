"""``scdh encode``: a model and data → a file of codes, with the names and labels of its rows."""

import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from scdh.cli.completion import complete_data
from scdh.cli.options import (
    BatchSize,
    Device,
    From,
    IdColumn,
    ImageColumn,
    Json,
    LabelColumn,
    Labels,
    LabelSeparator,
    OnBadImage,
    Replace,
    Root,
    VectorColumn,
    Workers,
    use_device,
)
from scdh.cli.output import print_json, print_line
from scdh.errors import ConfigError
from scdh.printable import counted
from scdh.progress import track

if TYPE_CHECKING:
    from scdh.codes import Codes
    from scdh.runs.shards import Shards

EXAMPLES = (
    "scdh encode runs/digits digits --out digits.codes",
    "scdh encode runs/digits digits --part query --out queries.codes",
    "scdh encode runs/taught digits --from student --out student.codes",
    "scdh encode runs/shop photos/ --out photos.codes --on-bad-image skip",
    "scdh encode runs/items items.parquet --vector-column embedding --id-column asin --out items.codes",
    "scdh encode runs/digits digits --vectors --out vectors.codes",
    "scdh encode runs/shop photos/ --out shards/ --shards 64 --shard 7",
    "scdh encode runs/shop photos/ --out shards/ --engine ray --address auto",
    "scdh encode --merge shards/ --out photos.codes",
    "scdh encode hf:owner/model-on-the-hub one.jpg two.jpg --out two.codes",
)


def encode(
    model: Annotated[
        str | None, typer.Argument(help="Model or run folder, or hf:owner/name on the hub.", show_default=False)
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Data as for `scdh train`, or image files.", autocompletion=complete_data),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="File of codes to write; with --shards, the folder of the shards.")],
    shards: Annotated[
        int | None,
        typer.Option(help="Number of shards of the data, each a file in OUT.", show_default=False),
    ] = None,
    shard: Annotated[
        int | None, typer.Option(help="Encode this shard only, from 0 (default: all in turn).", show_default=False)
    ] = None,
    merge: Annotated[
        Path | None, typer.Option(help="Write the shards of this folder into one file OUT.", show_default=False)
    ] = None,
    part: Annotated[
        Literal["all", "query", "database", "train", "validation"],
        typer.Option(help="Only these rows of the split that the run was trained with."),
    ] = "all",
    network: From = None,
    root: Root = None,
    image_column: ImageColumn = None,
    vector_column: VectorColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    id_column: IdColumn = None,
    labels: Labels = None,
    on_bad_image: OnBadImage = "fail",
    batch_size: BatchSize = 128,
    workers: Workers = None,
    vectors: Annotated[
        bool,
        typer.Option("--vectors", metavar="", help="Keep the real outputs too, for `scdh index --keep-vectors`."),
    ] = False,
    replace: Replace = False,
    device: Device = None,
    engine: Annotated[
        Literal["auto", "torch", "openvino", "ray"],
        typer.Option(
            help="Engine for codes of images on a CPU; auto: openvino if it saves time; ray: all shards on a Ray "
            "cluster, with auto."
        ),
    ] = "auto",
    address: Annotated[
        str | None,
        typer.Option(help="For --engine ray: a running cluster (default: a new one here).", show_default=False),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(help="For --engine ray: cores of each copy of the model (at most 4).", min=1, show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Turn images or embeddings into binary codes.

    The ids of the codes are the row numbers of the data. Names and labels of the rows go into OUT with the codes;
    `index`, `search` and `evaluate` read them there. Features of these data that a run with a frozen network kept are
    read, not recomputed. An existing file is replaced only with --replace.

    With --shards, finished shards are skipped, so that the same command continues after a kill and any number of
    machines can share the work. --merge checks that all shards exist and come from one model and one data set.
    """
    from scdh.cli.inputs import check_file_writable, check_folder_writable, check_not_there, open_inputs

    if merge is not None:
        if model is not None or shards is not None or shard is not None:
            raise ConfigError("--merge takes only a folder of shards; leave out MODEL, DATA, --shards and --shard.")
        check_file_writable(out)
        check_not_there(out, replace)
        _merge(merge, out, as_json)
        return
    if model is None or not data:
        raise ConfigError("Give a model and data, or --merge FOLDER.")
    if engine != "ray" and (address is not None or cores is not None):
        raise ConfigError("--address and --cores are for --engine ray.")
    if engine == "ray" and (shard is not None or device is not None):
        raise ConfigError("--engine ray distributes all shards over its devices; leave out --shard and --device.")
    if shard is not None and (shards is None or not 0 <= shard < shards):
        raise ConfigError(f"--shard must be from 0 to the number of --shards minus 1, not {shard}.")
    import numpy as np

    from scdh.data.name_files import save_named_codes
    from scdh.runs.encoding import encode_rows, hash_outputs_of_rows
    from scdh.runs.folder import RunFolder
    from scdh.runs.shards import Shards
    from scdh.runs.source_features import SourceFeatures

    use_device(device)
    if shards is None and engine != "ray":
        check_file_writable(out)
        check_not_there(out, replace)
    else:
        check_folder_writable(out)
    open_source = partial(
        open_inputs,
        data,
        root=root,
        image_column=image_column,
        vector_column=vector_column,
        label_column=label_column,
        label_separator=label_separator,
        id_column=id_column,
        labels=labels,
    )
    source = open_source()
    run = RunFolder.of_model(model)
    rows = np.arange(len(source)) if part == "all" else run.part_rows(source, part)
    load_model = partial(RunFolder(model).load_model, network)
    hasher = load_model()
    if engine == "ray":
        from scdh.runs.ray_encoding import Work, encode_on_ray, shard_count

        count = shards or shard_count(len(rows), batch_size, out)
        divided = Shards.of(out, count, hasher.fingerprint(), source, rows, batch_size)
        options = {"workers": workers, "on_bad_image": on_bad_image, "engine": "auto", "vectors": vectors}
        work = Work(open_source, load_model, divided, options, os.getcwd())
        _encode_on_ray(divided, partial(encode_on_ray, work, address=address, cores=cores), as_json)
        return
    encode_these = partial(
        encode_rows,
        hasher,
        source,
        batch_size=batch_size,
        workers=workers,
        on_bad_image=on_bad_image,
        engine=engine,
        vectors=vectors,
    )
    if shards is not None:
        divided = Shards.of(out, shards, hasher.fingerprint(), source, rows, batch_size)
        # Stored features may have been computed in other batches, so all shards run the whole network.
        hash_outputs = partial(hash_outputs_of_rows, images=len(rows))
        _encode_shards(divided, shard, partial(encode_these, hash_outputs=hash_outputs), as_json)
        return
    started = time.perf_counter()
    kept = SourceFeatures(source, run.feature_folder(), stores=False)
    codes, row_names = encode_these(rows, hash_outputs=kept.hash_outputs)
    seconds = time.perf_counter() - started
    save_named_codes(out, codes, row_names)
    _print_codes(out, codes, len(rows) - len(codes), seconds, as_json)


def _encode_shards(shards: "Shards", only: int | None, encode_rows: Callable[..., Any], as_json: bool) -> None:
    """Encode one shard, or all that are not done."""
    done = left = 0
    for shard in range(shards.count) if only is None else [only]:
        if shards.is_done(shard):
            left += 1
            continue
        count = shards.encode(shard, partial(encode_rows, title=f"shard {shard} of {shards.count}"))
        done += 1
        if not as_json:
            print_line(f"{shards.file(shard)}: {count:,} codes.")
    _print_shards(shards, done, left, as_json)


def _print_shards(shards: "Shards", done: int, left: int, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(shards.folder), "shards": shards.count, "encoded": done, "skipped": left})
        return
    print_line(f"{counted(done, 'shard')} encoded; done before: {left:,}.")
    print_line(f"When all {shards.count:,} are done:\n  scdh encode --merge {shards.folder} --out all.codes")


def _encode_on_ray(shards: "Shards", encode: Callable[[list[int]], Iterator[int]], as_json: bool) -> None:
    todo = [shard for shard in range(shards.count) if not shards.is_done(shard)]
    done = sum(1 for _ in track(encode(todo), len(todo), "encoding", "shards")) if todo else 0
    _print_shards(shards, done, shards.count - len(todo), as_json)


def _merge(folder: Path, out: Path, as_json: bool) -> None:
    from scdh.data.name_files import save_named_codes
    from scdh.runs.shards import merge_shards

    started = time.perf_counter()
    codes, row_names, left_out = merge_shards(folder)
    save_named_codes(out, codes, row_names)
    _print_codes(out, codes, left_out, time.perf_counter() - started, as_json)


def _print_codes(out: Path, codes: "Codes", left_out: int, seconds: float, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "codes": str(out),
                "items": len(codes),
                "left_out": left_out,
                "bits": codes.bits,
                "seconds": round(seconds, 3),
            }
        )
        return
    rate = len(codes) / max(seconds, 1e-9)
    print_line(f"{out}: {len(codes):,} codes of {codes.bits} bits ({seconds:.1f} s, {rate:,.0f} items/s).")
    print_line(f"Next:\n  scdh index {out} --out {out.with_suffix('.index')}")

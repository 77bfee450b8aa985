"""``scdh encode``: a model and data → a file of codes, with the names and labels of its rows."""

import time
from pathlib import Path
from typing import Annotated, Literal

import typer

from scdh.cli.completion import complete_data
from scdh.cli.options import (
    BatchSize,
    Device,
    EngineName,
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

EXAMPLES = (
    "scdh encode runs/digits digits --out digits.codes",
    "scdh encode runs/digits digits --part query --out queries.codes",
    "scdh encode runs/taught digits --from student --out student.codes",
    "scdh encode runs/shop photos/ --out photos.codes --on-bad-image skip",
    "scdh encode runs/items items.parquet --vector-column embedding --id-column asin --out items.codes",
    "scdh encode hf:owner/model-on-the-hub one.jpg two.jpg --out two.codes",
)


def encode(
    model: Annotated[str, typer.Argument(help="Model or run folder, or hf:owner/name on the hub.")],
    data: Annotated[
        list[str],
        typer.Argument(help="Data as for `scdh train`, or image files.", autocompletion=complete_data),
    ],
    out: Annotated[Path, typer.Option(help="File of codes to write.")],
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
    replace: Replace = False,
    device: Device = None,
    engine: EngineName = "auto",
    as_json: Json = False,
) -> None:
    """Turn images or embeddings into binary codes.

    The ids of the codes are the row numbers of the data. Names and labels of the rows go into OUT with the codes;
    `index`, `search` and `evaluate` read them there. Features that a run with a frozen network kept of these data are
    read, not computed again. An existing file is never replaced unless --replace says so.
    """
    import numpy as np

    from scdh.cli.inputs import check_file_writable, check_not_there, open_inputs
    from scdh.data.name_files import save_named_codes
    from scdh.runs.encoding import encode_rows
    from scdh.runs.folder import RunFolder
    from scdh.runs.source_features import SourceFeatures

    use_device(device)
    check_file_writable(out)
    check_not_there(out, replace)
    source = open_inputs(
        data,
        root=root,
        image_column=image_column,
        vector_column=vector_column,
        label_column=label_column,
        label_separator=label_separator,
        id_column=id_column,
        labels=labels,
    )
    run = RunFolder.of_model(model)
    rows = np.arange(len(source)) if part == "all" else run.part_rows(source, part)
    hasher = RunFolder(model).load_model(network)
    started = time.perf_counter()
    kept = SourceFeatures(source, run.feature_folder(), stores=False)
    codes, row_names = encode_rows(
        hasher,
        source,
        rows,
        batch_size=batch_size,
        workers=workers,
        on_bad_image=on_bad_image,
        hash_outputs=kept.hash_outputs,
        engine=engine,
    )
    seconds = time.perf_counter() - started
    save_named_codes(out, codes, row_names)
    if as_json:
        print_json(
            {
                "codes": str(out),
                "items": len(codes),
                "left_out": len(rows) - len(codes),
                "bits": codes.bits,
                "seconds": round(seconds, 3),
            }
        )
        return
    rate = len(codes) / max(seconds, 1e-9)
    print_line(f"{out}: {len(codes):,} codes of {codes.bits} bits ({seconds:.1f} s, {rate:,.0f} items/s).")
    print_line(f"Next:\n  scdh index {out} --out {out.with_suffix('.index')}")

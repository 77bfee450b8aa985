"""``scdh quantise``: make an INT8 model from a float32 model, and measure the difference."""

from pathlib import Path
from shlex import join
from typing import Annotated, Literal

import typer

from scdh.cli.completion import complete_data
from scdh.cli.options import (
    Device,
    From,
    ImageColumn,
    Json,
    LabelColumn,
    LabelSeparator,
    Root,
    Workers,
    use_device,
)
from scdh.cli.output import print_json, print_line

EXAMPLES = (
    "scdh quantise runs/shop --out runs/shop/int8",
    "scdh quantise runs/shop --out runs/shop/int8 --images 512 --replace",
    "scdh quantise hf:owner/model-on-the-hub photos/ --out int8-model",
)


def quantise(
    model: Annotated[str, typer.Argument(help="Run or model folder of images, or hf:owner/name on the hub.")],
    data: Annotated[
        str | None,
        typer.Argument(
            help="Images to calibrate on, or the new location of the run's data (default: its training rows).",
            autocompletion=complete_data,
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder of the INT8 model to write.")],
    images: Annotated[int, typer.Option(min=1, help="Number of images to calibrate on.")] = 128,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw of these images.")] = 0,
    network: From = None,
    root: Root = None,
    image_column: ImageColumn = None,
    label_column: LabelColumn = None,
    label_separator: LabelSeparator = None,
    on_bad_image: Annotated[
        Literal["fail", "skip"] | None,
        typer.Option(help="What to do with an image that cannot be read (default: as in training, else fail)."),
    ] = None,
    workers: Workers = None,
    replace: Annotated[bool, typer.Option("--replace", metavar="", help="Replace the model in OUT.")] = False,
    device: Device = None,
    as_json: Json = False,
) -> None:
    """Make an INT8 model: faster with OpenVINO on CPUs, with slightly different codes.

    The input range of each layer is recorded on some images; the new model rounds inputs and weights to 8 bits. The
    codes of other images are compared: the share of bits that differ and, if there are labels, the MAP of both models.
    Queries of a run are never used.

    `encode`, `search`, `index` and `serve` accept the new model like any other. Its codes have a fingerprint of their
    own, and cannot be mixed with those of the float32 model. docs/encode.md has measurements.
    """
    from scdh.cli.inputs import check_folder_writable, open_inputs
    from scdh.errors import ConfigError
    from scdh.model.description import read_description
    from scdh.model.folder import reject_other_content
    from scdh.model.hub import has_model
    from scdh.nets.quantisation import INT8
    from scdh.runs.data_paths import data_options
    from scdh.runs.folder import RunFolder
    from scdh.runs.quantising import choose_rows, quantise_and_compare
    from scdh.runs.run_data import open_run_data

    use_device(device)
    check_folder_writable(out)
    if has_model(out) and read_description(out).get("precision") != INT8:
        raise ConfigError(f"{str(out)!r} holds a float32 model, which --out never replaces; choose another folder.")
    if has_model(out) and not replace:
        raise ConfigError(f"{str(out)!r} holds an INT8 model already; --replace replaces it.")
    reject_other_content(out)
    run, hasher = RunFolder.of_model(model), RunFolder(model).load_model(network)
    options = {
        "root": root,
        "image_column": image_column,
        "label_column": label_column,
        "label_separator": label_separator,
    }
    if data is not None:
        source, words = open_inputs([data], **options), [data, *data_options(options)]
    elif run.protocol_file.exists():
        for option, value in options.items():
            if value is not None and option != "root":
                raise ConfigError(f"--{option.replace('_', '-')} is for DATA, which is not given.")
        opened = open_run_data(run, root=root)
        settings = opened.config.data
        on_bad_image = on_bad_image or settings.on_bad_image
        source, words = opened.source, [settings.source, *data_options(settings.model_dump())]
    else:
        raise ConfigError(
            f"{model!r} is not in a run folder, so its data are unknown; name images to calibrate on after it."
        )
    chosen = choose_rows(run, source, images, seed)
    quantised, found = quantise_and_compare(
        hasher, source, chosen, workers=workers, on_bad_image=on_bad_image or "fail"
    )
    quantised.save(out)
    if as_json:
        print_json({"model": str(out), "fingerprint": quantised.fingerprint(), **vars(found)})
        return
    print_line(
        f"{out}: an INT8 model of {quantised.bits}-bit codes, calibrated on {found.calibration_images:,} "
        f"{chosen.calibration_name}."
    )
    if found.differing_bits is None:
        print_line("There are no other images to compare its codes on; take fewer with --images.")
    else:
        print_line(
            f"On {found.compared_images:,} {chosen.compared_name}, {found.differing_bits:.2%} of the bits differ from "
            f"float32{_scores(found.map, found.float32_map)}."
        )
    if found.speed is not None:
        print_line(f"OpenVINO computes {found.speed:.1f} times as many images per CPU second as in float32.")
    print_line(
        "Its codes must not be mixed with those of the float32 model: encode all images again.\nNext:\n  "
        + join(["scdh", "encode", str(out), *words, "--out", "int8.codes"])
    )


def _scores(int8: float | None, float32: float | None) -> str:
    return "" if int8 is None or float32 is None else f"; MAP {int8:.4f}, in float32 {float32:.4f}"

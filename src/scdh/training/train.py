"""The front door: from labelled data of any kind to a model, in one call."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from scdh.config import RunConfig, length_settings, load_config
from scdh.data.arrays.loose import IN_MEMORY, given_source
from scdh.data.pairs import pairs_of, read_pairs
from scdh.data.source import Source
from scdh.errors import ConfigError
from scdh.model.hasher import Hasher
from scdh.nets.device import on_device
from scdh.runs.folder import RunFolder
from scdh.training.plan import plan_run
from scdh.training.processes import is_first_process
from scdh.training.run import run_plan

# Settings that `scdh train` has an option for; their short names are the same here.
SHORT_NAMES = {
    **{
        name: f"data.{name}"
        for name in (
            "root",
            "image_column",
            "vector_column",
            "label_column",
            "label_separator",
            "id_column",
            "on_bad_image",
        )
    },
    "seed": "seed",
    "epochs": "train.epochs",
}


def train(
    data: Any,
    bits: int | Sequence[int] = 32,
    method: str = "scdh",
    out: str | Path | None = None,
    *,
    labels: Any = None,
    pairs: Any = None,
    trials: bool = True,
    refit: bool = False,
    resume: bool = False,
    feature_cache: str | Path | None = None,
    device: str | None = None,
    quiet: bool = False,
    **settings: Any,
) -> Hasher:
    """Learn codes from labelled images or embeddings; ``scdh train`` with the same arguments gives the same weights.

    Settings that are not given suit the data, and learning rate, epochs and α are found by short runs on validation
    rows (docs/defaults.md). ``model.config`` has all of them.

    Args:
        data: everything that ``--data`` accepts: a folder of images, a .parquet, .csv, .npy or .npz file,
            "hf:owner/name", or a name of ``scdh datasets``. Or data in memory: embeddings, float [n, d]; images, uint8
            [n, H, W] or [n, H, W, C]; a list of image paths, bytes of image files, PIL images or arrays; or a
            :class:`scdh.data.Source`.
        bits: length of the codes; or several lengths, for nested codes of the largest (``method.nested``).
        method: name of ``scdh methods``.
        out: run folder that receives settings, split, logs, checkpoints and model; None: nothing is written.
        labels: of data in memory: a number or a name per item, 0/1 [n, C], or a list of labels per item; −1, None or ""
            means no label. For an .npy file: the path of the .npy file with its labels.
        pairs: what to learn from in place of labels (docs/pairs.md): the path of a table with the columns a, b and
            similar; of data in memory also a list of (item, item, similar), items by row number. Labels are then for
            scoring only.
        trials: whether settings may be found by short runs.
        refit: with the settings found, train on the validation rows too.
        resume: continue the run in ``out``; the other arguments are those it was started with, or more ``epochs``.
        feature_cache: folder that keeps a frozen network's features for other runs.
        device: "cpu", "cuda", "cuda:1" … or "mps"; None: a GPU if there is one.
        quiet: no progress bars and no lines of epochs.
        settings: any other setting, with ``__`` for the dot: ``net__hidden=[256]``, ``train__batch_size=32``,
            ``method__alpha=0.3``. The options of ``scdh train`` have their short names: ``seed``, ``epochs``, ``root``,
            ``label_column`` and so on.

    Returns:
        The model: ``model.encode(items)`` gives codes.

    Raises:
        ConfigError: a setting is unknown or out of range.
        DataError: the data cannot be read, or do not suit the method.
        TrainingError: ``out`` holds another run, or training diverged.

    >>> import numpy as np
    >>> X, y = np.random.default_rng(0).normal(size=(60, 8)), np.arange(60) % 3
    >>> model = train(X, bits=16, labels=y, epochs=2, quiet=True)
    >>> len(model.encode(X[:5]))
    5
    """
    lengths = [bits] if isinstance(bits, int | np.integer) else bits
    if (
        not isinstance(lengths, list | tuple)
        or not all(isinstance(b, int | np.integer) for b in lengths)
        or not lengths
    ):
        raise ConfigError(
            f"bits must be a whole number, got {type(bits).__name__}; labels have a name: scdh.train(data, labels=…)."
        )
    given = {**length_settings(map(int, lengths)), "method.name": method, **_dotted(settings)}
    source = None
    is_file = isinstance(pairs, str | os.PathLike)
    if pairs is not None:
        given["data.pairs"] = os.fspath(pairs) if is_file else IN_MEMORY
    if isinstance(data, str | os.PathLike):
        given["data.source"] = os.fspath(data)
        if labels is not None:
            if not isinstance(labels, str | os.PathLike):
                raise ConfigError("labels of data on disk are the path of an .npy file, not values.")
            given["data.labels"] = os.fspath(labels)
        if pairs is not None and not is_file:
            raise ConfigError("pairs of data on disk are the path of a table, not values.")
    else:
        source = given_source(data, labels)
        given["data.source"] = IN_MEMORY
        if pairs is not None:
            source.pairs = read_pairs(pairs, source) if is_file else pairs_of(pairs, source)
    return train_config(
        load_config(overrides=given),
        out,
        source=source,
        trials=trials,
        refit=refit,
        resume=resume,
        feature_cache=feature_cache,
        device=device,
        quiet=quiet,
    )


def train_config(
    config: RunConfig,
    out: str | Path | None = None,
    *,
    source: Source | None = None,
    trials: bool = True,
    refit: bool = False,
    resume: bool = False,
    feature_cache: str | Path | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> Hasher:
    """As :func:`train`, with the settings of a config; ``source`` is its data, if they are already open."""
    folder = None if out is None else Path(out)
    if folder is None and resume:
        raise ConfigError("resume=True needs the folder of the run.")
    with on_device(device):
        if folder is not None:
            if is_first_process():  # which holds the folder for the others
                RunFolder(folder).check_idle()
            RunFolder(folder).reject_earlier_run(resume=resume)
        cache = None if feature_cache is None else Path(feature_cache)
        resumed = folder if resume else None
        plan = plan_run(
            config, resumed=resumed, trials=trials, refit=refit, source=source, feature_cache=cache, quiet=quiet
        )
        return run_plan(plan, folder, resume=resume, feature_cache=cache, quiet=quiet)


def _dotted(settings: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments as settings by dotted key."""
    for name in settings.keys() - SHORT_NAMES.keys():
        is_key = "." in name or "__" in name
        if not is_key and (near := get_close_matches(name, signature(train).parameters, n=1)):
            raise ConfigError(f"scdh.train has no argument {name!r}; did you mean {near[0]!r}?")
    return {SHORT_NAMES.get(name, name.replace("__", ".", 1)): value for name, value in settings.items()}

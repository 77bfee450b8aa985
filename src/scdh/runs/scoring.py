"""Score a run: codes of its queries and database (kept for reuse), their scores, and everything these depend on."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scdh.codes import HAMMING, Codes
from scdh.config import RunConfig
from scdh.data.name_files import load_named_codes, save_named_codes
from scdh.data.protocol import Protocol
from scdh.data.source import Source
from scdh.errors import CodesError, DataError
from scdh.evaluation import evaluate, evaluate_outputs
from scdh.label_arrays import is_labelled
from scdh.model.hasher import Hasher
from scdh.runs.encoding import HashOutputs, KeptOutputs, MeasuredOutputs, named_codes
from scdh.runs.floats import FeaturesOfRows, advice_against_floats, score_floats, why_no_floats
from scdh.runs.folder import NetworkName, RunFolder
from scdh.runs.ranking import score_ranking
from scdh.runs.run_data import open_run_data
from scdh.runs.run_scores import RunScores
from scdh.runs.score_options import ScoreOptions, scored_labels
from scdh.runs.source_features import SourceFeatures


@dataclass(frozen=True, eq=False)
class _EncodedPart:
    """Codes of a part of the split; real outputs ``u`` only where the method's distance needs them."""

    codes: Codes
    l_q: float | None
    u: np.ndarray | None = None

    @property
    def rows(self) -> np.ndarray:
        assert self.codes.ids is not None  # codes of a run carry row numbers
        return self.codes.ids


def score_run(
    run: RunFolder,
    part: str = "query",
    options: ScoreOptions = ScoreOptions(),  # noqa: B008 (it is frozen)
    *,
    network: NetworkName | None = None,
    on_bad_image: Any = None,
    source: Source | None = None,
    protocol: Protocol | None = None,
    hasher: Hasher | None = None,
    hash_outputs: HashOutputs | None = None,
    floats: bool = False,
    outputs: bool = False,
) -> RunScores:
    """Encode the rows of a run's split, score them, and write the scores into its folder.

    The validation rows are scored among themselves, each left out of its own ranking: none of them was trained on.

    Args:
        run: the run's folder.
        part: "query" or "validation".
        options: definitions of the scores.
        network: for a run with a teacher, whose codes to score (None: the teacher's); or "last", the last epoch's.
        on_bad_image: "fail" or "skip"; None: as in training.
        source: the run's data, if they are already open.
        protocol: the split to score; None: the run's.
        hasher: the run's model, if it is already loaded.
        hash_outputs: gives (rows, u) batches as :func:`hash_outputs_of_rows` does; None: from the features that the
            run kept, and the model runs for the rest.
        floats: also score the float vectors that the codes were made of, by cosine.
        outputs: also score the ranking of the same codes by the queries' real outputs; queries are then encoded again.
    """
    config = run.config() if hasher is None else hasher.config
    if source is None:
        opened = open_run_data(run)
        source, protocol = opened.source, opened.protocol
    protocol = run.protocol(source) if protocol is None else protocol
    hasher = run.load_model(network) if hasher is None else hasher
    is_validation = part == "validation"
    rows = protocol.validation if is_validation else protocol.query
    if not len(rows):
        raise DataError(f"The run in {str(run)!r} has no {part} rows to score{_why_none(config, source, part)}.")
    if source.pairs is not None and (is_validation or not source.labelled[rows].any()):
        raise DataError(f"The {part} rows of {str(run)!r} have pairs, not labels; `scdh evaluate` scores these.")
    loading: dict[str, Any] = {
        "batch_size": config.train.batch_size,
        "workers": config.train.workers,
        "on_bad_image": on_bad_image or config.data.on_bad_image,
    }
    features = SourceFeatures(source, run.feature_folder())
    give_outputs = hash_outputs or features.hash_outputs

    def encoded(name: str, part_rows: np.ndarray, keep: bool) -> _EncodedPart:
        encode = partial(give_outputs, hasher, source, part_rows, progress=f"encoding {name}", **loading)
        return _encode_or_reuse(hasher, source, protocol, len(part_rows), run.codes(name, network), encode, keep)

    started = time.perf_counter()
    queries = encoded(part, rows, keep=outputs)
    database = queries if is_validation else encoded("database", protocol.database, keep=False)
    encoding_seconds = round(time.perf_counter() - started, 3)
    started = time.perf_counter()
    labels, _ = scored_labels(source, options.label_column)
    query_labels, item_labels = labels[queries.rows], labels[database.rows]
    definition = {"leave_one_out": is_validation, **options.for_evaluate(source.name)}
    scores = score_ranking(
        hasher, queries.codes, queries.u, query_labels, database.codes, item_labels, progress=True, **definition
    )
    nested = {
        bits: evaluate(
            queries.codes.truncate(bits), query_labels, database.codes.truncate(bits), item_labels, **definition
        )
        for bits in sorted({*config.method.own.get("nested", [])} - {hasher.bits})
    }
    by_outputs = None
    if outputs and queries.u is not None and hasher.method.ranking == HAMMING:
        del definition["radius"]
        by_outputs = evaluate_outputs(
            queries.codes, queries.u, query_labels, database.codes, item_labels, progress=True, **definition
        )
    result = RunScores(
        run=run,
        part=part,
        network=network,
        scores=scores,
        outputs=by_outputs,
        nested=nested,
        protocol=protocol,
        source_name=source.name,
        config=config,
        l_q=queries.l_q,
        left_out=len(rows) - len(queries.codes),
        unlabelled_items=int((~is_labelled(item_labels)).sum()) or None,
        model=hasher.fingerprint(),
        label_column=options.label_column,
        seconds={"encoding": encoding_seconds, "scoring": round(time.perf_counter() - started, 3)},
    )
    if floats:
        of_rows = partial(features.of_rows, hasher, progress="features", **loading)
        result = _with_floats(result, hasher, source, queries.rows, database.rows, of_rows, options)
    result.save(queries.rows)
    return result


def _why_none(config: RunConfig, source: Source, part: str) -> str:
    if not source.labelled.any():
        return f": {source.name} has no labels, which tell what is relevant"
    if part == "validation" and config.data.train_on_validation:
        return ": they train too; train one without --refit (data.train_on_validation) for that"
    setting = "data.validation_per_class" if part == "validation" else "data.query_per_class (not data.split=all)"
    return f"; train one with {setting} for that"


def _with_floats(
    result: RunScores,
    hasher: Hasher,
    source: Source,
    query_rows: np.ndarray,
    database_rows: np.ndarray,
    features_of_rows: FeaturesOfRows,
    options: ScoreOptions,
) -> RunScores:
    reason = why_no_floats(hasher, len(database_rows))
    if reason is not None:
        return replace(result, no_floats=reason)
    floats = score_floats(
        source,
        query_rows,
        database_rows,
        features_of_rows,
        options,
        leave_one_out=result.part == "validation",
        progress=True,
    )
    advice = advice_against_floats(result.scores, floats, hasher.method, source.labels[database_rows], result.outputs)
    return replace(result, floats=floats, advice=advice)


def _encode_or_reuse(
    hasher: Hasher,
    source: Source,
    protocol: Protocol,
    count: int,
    file: Path,
    encode: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]],
    keep: bool,
) -> _EncodedPart:
    """Codes from an earlier scoring, if the same model made them for the same split and no row was left out; otherwise
    new ones. ``keep`` also keeps the real outputs, which an earlier scoring does not have.
    """
    metadata = {"model": hasher.fingerprint(), "protocol": protocol.fingerprint}
    is_by_bits = hasher.method.ranking == HAMMING
    known = _kept_codes(file, metadata, count, "l_q" if _has_l_q(hasher) else "model") if is_by_bits else None
    if known is not None and not keep:
        return _EncodedPart(known, float(known.metadata["l_q"]) if _has_l_q(hasher) else None)
    kept = KeptOutputs(hasher, encode(), always=keep)
    measured = MeasuredOutputs(kept, hasher.method.quantization_norm)
    codes, names = named_codes(hasher, source, measured)
    metadata |= {"l_q": f"{measured.l_q:.6f}"} if _has_l_q(hasher) else {}
    codes = codes.with_metadata({**codes.metadata, **metadata})
    if known != codes:
        save_named_codes(file, codes, names)
    return _EncodedPart(codes, float(metadata["l_q"]) if _has_l_q(hasher) else None, kept.u)


def _has_l_q(hasher: Hasher) -> bool:
    """Whether l_q is meaningful: outputs of a fitted projection are not pulled towards ±1."""
    return hasher.method.learns_by_gradient


def _kept_codes(file: Path, metadata: dict[str, str], count: int, needed_key: str) -> Codes | None:
    try:
        codes, names = load_named_codes(file)
    except CodesError:
        return None
    is_same = all(codes.metadata.get(key) == value for key, value in metadata.items())
    return codes if is_same and names is not None and len(codes) == count and needed_key in codes.metadata else None

"""An encoder on any suites: each unique sentence encoded once, each finished part recorded at once."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sentemb._files import check_writable
from sentemb.data.locate import MissingDataError
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.resolve import FunctionEncoder
from sentemb.errors import InputError
from sentemb.evaluation.joining import joined
from sentemb.evaluation.naming import record_name
from sentemb.evaluation.record import check_free, load_predictions, read_record, write_record
from sentemb.evaluation.retrieval.searchers import Searcher
from sentemb.evaluation.runner.entries import LOADERS, load_suites
from sentemb.evaluation.runner.suite import Loaded, Options, RunnableSuite
from sentemb.evaluation.schema import Record

# Texts between two lines on the progress; vectors are kept on disk as often.
_TEXTS_PER_LINE = 8192

Announce = Callable[[str], None]


@dataclass(frozen=True)
class EvaluationResult:
    """One encoder on all suites.

    Attributes:
        model: The encoder's name.
        fingerprint: The encoder's fingerprint.
        records: The record of each suite.
        reused: Suites whose records were complete before.
        missing: Why data sets were skipped.
        sentences: Unique sentences that were needed.
        seconds: Wall time of `encode` and of each suite that was evaluated.
    """

    model: str
    fingerprint: str
    records: Mapping[str, Record]
    reused: tuple[str, ...]
    missing: tuple[MissingDataError, ...]
    sentences: int
    seconds: Mapping[str, float]


def evaluate_all(
    encoder: TextEncoder | str | Path | Any,
    *,
    suites: Sequence[str] = tuple(LOADERS),
    preset: str = "simcse-fast",
    data_dir: str | Path | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    allow_missing: bool = False,
    announce: Announce | None = None,
) -> EvaluationResult:
    """Evaluate an encoder on STS, other languages, geometry, transfer tasks and retrieval, from one encoding.

    Whatever `output` already holds for this encoder and these settings is skipped, so that an interrupted run
    resumes where it was.

    Args:
        encoder: Anything that `load_encoder` takes.
        suites: Some of `sts`, `multilingual`, `geometry`, `transfer` and `retrieval`.
        preset: Of the classifiers of transfer tasks. The default is SimCSE's "fasttest", which is SentEval's
            "prototyping" setting: five folds and short training. Papers' tables have `simcse` or `sg-bert`,
            and accuracies of different presets do not compare.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        output: Folder for records; None writes none.
        overwrite: Evaluate again what is there.
        allow_missing: Skip data sets that are missing.
        announce: Takes lines on the progress.

    Returns:
        The records.

    Raises:
        InputError: The encoder, a suite, the data or a place for a record cannot be used.
        UndefinedScoreError: The encoder's vectors are not finite, or all alike.

    Example:
        >>> result = evaluate_all("sg-bert-mini", data_dir="data", output="records")  # doctest: +SKIP
        >>> result.records["sts"].average()  # doctest: +SKIP
    """
    loaded = load_suites(suites, Options(data_dir=data_dir, preset=preset), allow_missing=allow_missing)
    folder = None if output is None else Path(output)
    return run_suites(load_encoder(encoder), loaded, output=folder, overwrite=overwrite, announce=announce)


def run_suites(
    encoder: TextEncoder | Searcher,
    loaded: Loaded,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    command: Sequence[str] | None = None,
    announce: Announce | None = None,
) -> EvaluationResult:
    """Evaluate an encoder on suites whose data are read, or a searcher on retrieval."""
    tell = announce or (lambda _: None)
    records: dict[str, Record] = {}
    if output is not None:
        check_writable(output)
        found = {one.label: _find(one, output, encoder, overwrite=overwrite) for one in loaded.suites}
        records = {label: record for label, record in found.items() if record is not None}
    todo = {one.label: _todo(one, records.get(one.label)) for one in loaded.suites}
    reused = tuple(label for label, names in todo.items() if not names)
    for label in reused:
        tell(f"  {label}: already evaluated")
    texts = list(
        dict.fromkeys(text for one in loaded.suites for name in todo[one.label] for text in one.texts[name])
    )
    seconds = {}
    with shared_vectors(encoder, output) as shared:
        if texts:
            seconds["encode"] = _encode(shared, texts, tell)
        for suite in loaded.suites:
            if suite.label in reused:
                continue
            began = time.perf_counter()
            for record, line in suite.evaluate(shared, todo[suite.label]):
                record = joined(records.get(suite.label), record, command)
                records[suite.label] = record
                if output is not None:
                    write_record(record, *load_predictions(record), output, overwrite=True)
                tell(f"  {suite.label}: {line}")
            seconds[suite.label] = time.perf_counter() - began
    in_order = {one.label: records[one.label] for one in loaded.suites}
    return EvaluationResult(
        encoder.name, encoder.fingerprint, in_order, reused, loaded.missing, len(texts), seconds
    )


def _find(
    suite: RunnableSuite, folder: Path, encoder: TextEncoder | Searcher, *, overwrite: bool
) -> Record | None:
    """The record to which the suite's data sets are added, if there is one of the same settings."""
    path = folder / record_name(
        encoder.name, suite.name, protocol=suite.protocol, seed=suite.seed(encoder.name)
    )
    if not path.exists():
        return None
    check_free(path, encoder.fingerprint, overwrite=True)
    if overwrite:
        return None
    record = read_record(path)
    known = suite.checksums
    if (
        isinstance(encoder, FunctionEncoder)
        or _precision(record.encoder) != _precision(encoder.describe())
        or any(known.get(one.name, one.sha256) != one.sha256 for one in record.datasets)
    ):
        raise InputError(
            f"{path} already exists, with other data or other settings",
            "add --overwrite (overwrite=True) to replace it, or choose another output folder",
        )
    return record


def _todo(suite: RunnableSuite, record: Record | None) -> list[str]:
    done = {one.name for one in record.datasets} if record is not None else set()
    return [name for name in suite.checksums if name not in done]


def _precision(described: Mapping[str, Any]) -> Any:
    # What was asked for: under `reduced` each process finds out for itself which kernel is faster.
    return described.get("precision_asked", described.get("precision"))


@contextmanager
def shared_vectors(encoder: Any, output: Path | None) -> Iterator[Any]:
    """Keep an encoder's vectors on disk while suites take turns with them.

    Beside records they outlive an interruption and are removed when all suites are evaluated. Elsewhere, and
    of a function, which may compute something else tomorrow, they are gone in any case. An encoder that keeps
    its vectors in a cache folder does so here too. What only searches is handed through.
    """
    if isinstance(encoder, CachedEncoder) or not hasattr(encoder, "encode"):
        yield encoder
    elif output is None or isinstance(encoder, FunctionEncoder):
        with tempfile.TemporaryDirectory(prefix="sentemb-") as folder:
            yield CachedEncoder(encoder, Path(folder))
    else:
        key = hashlib.sha256(encoder.fingerprint.encode()).hexdigest()[:16]
        vectors = output / f".vectors-{key}"
        yield CachedEncoder(encoder, vectors)
        shutil.rmtree(vectors, ignore_errors=True)


def _encode(encoder: TextEncoder, texts: Sequence[str], tell: Announce) -> float:
    tell(f"  {len(texts):,} unique sentences")
    began = time.perf_counter()
    for start in range(0, len(texts), _TEXTS_PER_LINE):
        encoder.encode(texts[start : start + _TEXTS_PER_LINE])
        done = min(start + _TEXTS_PER_LINE, len(texts))
        tell(f"  encoded {done:,} of {len(texts):,}, {time.perf_counter() - began:.0f} s")
    return time.perf_counter() - began

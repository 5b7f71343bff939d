"""Run suites on an encoder: each unique sentence is encoded once, each finished part recorded at once."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sentemb._files import check_writable
from sentemb.data.locate import MissingDataError
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.resolve import FunctionEncoder
from sentemb.errors import InputError
from sentemb.evaluation.record import check_free, join_records, load_predictions, read_record, write_record
from sentemb.evaluation.retrieval.searchers import Searcher
from sentemb.evaluation.schema import Record, record_name
from sentemb.evaluation.suites import SUITES, Loaded, LoadedSuite
from sentemb.evaluation.suites import Options as Options

# Texts between two lines on the progress; vectors are kept on disk as often.
_TEXTS_PER_LINE = 8192

Announce = Callable[[str], None]


@dataclass(frozen=True)
class EvaluationResult:
    """The results of one encoder on all suites."""

    model: str  # the encoder's name
    fingerprint: str
    records: Mapping[str, Record]  # of each suite
    reused: tuple[str, ...]  # suites whose records were complete before
    missing: tuple[MissingDataError, ...]  # why data sets were skipped
    sentences: int  # number of unique sentences that were needed
    seconds: Mapping[str, float]  # wall time of `encode` and of each suite that was evaluated


def evaluate_all(
    encoder: TextEncoder | str | Path | Any,
    *,
    suites: Sequence[str] | None = None,
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
        suites: Some of `sts`, `multilingual`, `geometry`, `transfer` and `retrieval`; all by default.
        preset: Of the classifiers of transfer tasks. The default is SimCSE's "fasttest"; papers' tables have
            `simcse` or `sg-bert`, and accuracies of different presets do not compare.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        output: Folder for records; None writes none.
        overwrite: Evaluate again what is there.
        allow_missing: Skip data sets that are missing.
        announce: Called with lines on the progress.

    Returns:
        The result, with `records` by suite and the sets that are `missing`.

    Raises:
        InputError: The encoder, a suite, the data or a place for a record cannot be used.
        UndefinedScoreError: The encoder's vectors are not finite, or all alike.

    Example:
        >>> result = evaluate_all("sg-bert-mini", data_dir="data", output="records")  # doctest: +SKIP
        >>> result.records["sts"].average()  # doctest: +SKIP
    """
    names = [name for name, suite in SUITES.items() if suite.module] if suites is None else suites
    loaded = load_suites(names, Options(data_dir=data_dir, preset=preset), allow_missing=allow_missing)
    folder = None if output is None else Path(output)
    return run_suites(load_encoder(encoder), loaded, output=folder, overwrite=overwrite, announce=announce)


def load_suites(names: Sequence[str], options: Options, *, allow_missing: bool = False) -> Loaded:
    """Read the data of suites, and raise InputError that names all missing sets unless these are allowed.

    Sets of retrieval that were not named are skipped anyway, since most of them cannot be fetched.
    """
    known = [name for name, suite in SUITES.items() if suite.module]
    if isinstance(names, str) or not names:
        raise InputError("the list of suites is empty", f"choose among {', '.join(known)}")
    for name in names:
        if name not in known:
            raise InputError(f"unknown suite {name!r}", f"choose among {', '.join(known)}")
        if list(names).count(name) > 1:
            raise InputError(f"the suite {name} is listed twice", "list each suite once")
    chosen = [SUITES[name] for name in known if name in names]
    loaded: list[Loaded] = [import_module(suite.module).load(suite, options) for suite in chosen]
    missing = tuple(error for one in loaded for error in one.missing)
    suites = tuple(suite for one in loaded for suite in one.suites)
    if not suites or not (allow_missing or all(one.optional for one in loaded if one.missing)):
        others = list(dict.fromkeys(error.name for error in missing if error.name != missing[0].name))
        message = f"{missing[0].message}{', nor ' if others else ''}{', '.join(others)}"
        if suites and len(names) > 1:
            raise InputError(message, "add --allow-missing (allow_missing=True) to skip them")
        raise InputError(message, "set the folder of the data with --data-dir, or choose other sets")
    return Loaded(suites, missing)


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
        found = {one.title: _find_record(one, output, encoder, overwrite=overwrite) for one in loaded.suites}
        records = {title: record for title, record in found.items() if record is not None}
    todo: dict[str, list[str]] = {}
    for suite in loaded.suites:
        done = {one.name for one in records[suite.title].datasets} if suite.title in records else ()
        todo[suite.title] = [name for name in suite.checksums if name not in done]
    reused = tuple(title for title, names in todo.items() if not names)
    for title in reused:
        tell(f"  {title}: already evaluated")
    needed = (text for one in loaded.suites for name in todo[one.title] for text in one.texts[name])
    texts = list(dict.fromkeys(needed))
    seconds = {}
    with shared_vectors(encoder, output) as shared:
        if texts:
            began = time.perf_counter()
            tell(f"  {len(texts):,} unique sentences")
            for start in range(0, len(texts), _TEXTS_PER_LINE):
                shared.encode(texts[start : start + _TEXTS_PER_LINE])
                done_ = min(start + _TEXTS_PER_LINE, len(texts))
                tell(f"  encoded {done_:,} of {len(texts):,}, {time.perf_counter() - began:.0f} s")
            seconds["encode"] = time.perf_counter() - began
        for suite in loaded.suites:
            if suite.title in reused:
                continue
            began = time.perf_counter()
            for record, line in suite.evaluate(shared, todo[suite.title]):
                record = join_records(records.get(suite.title), record, command)
                records[suite.title] = record
                if output is not None:
                    write_record(record, *load_predictions(record), output, overwrite=True)
                tell(f"  {suite.title}: {line}")
            seconds[suite.title] = time.perf_counter() - began
    in_order = {one.title: records[one.title] for one in loaded.suites}
    return EvaluationResult(
        encoder.name, encoder.fingerprint, in_order, reused, loaded.missing, len(texts), seconds
    )


def _find_record(
    suite: LoadedSuite, folder: Path, encoder: TextEncoder | Searcher, *, overwrite: bool
) -> Record | None:
    """Return the record to which the suite's data sets are added, if there is one of the same settings."""
    seed = suite.seed(encoder.name)
    path = folder / record_name(encoder.name, suite.name, protocol=suite.protocol, seed=seed)
    if not path.exists():
        return None
    check_free(path, encoder.fingerprint, overwrite=True)
    if overwrite:
        return None
    record = read_record(path)
    if (
        isinstance(encoder, FunctionEncoder)
        or _precision(record.encoder) != _precision(encoder.describe())
        or any(suite.checksums.get(one.name, one.sha256) != one.sha256 for one in record.datasets)
    ):
        raise InputError(
            f"{path} already exists, with other data or other settings",
            "add --overwrite (overwrite=True) to replace it, or choose another output folder",
        )
    return record


def _precision(described: Mapping[str, Any]) -> Any:
    # The requested one: under `reduced` each process finds out for itself which kernel is faster.
    return described.get("precision_asked", described.get("precision"))


@contextmanager
def shared_vectors(encoder: Any, output: Path | None) -> Iterator[Any]:
    """Keep an encoder's vectors on disk while suites take turns with them.

    Next to records they outlive an interruption and are removed when all suites are evaluated. Elsewhere, and
    for a function, which may compute something else tomorrow, they are always temporary. An encoder with a
    cache folder keeps its vectors there. A searcher is returned as it is.
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

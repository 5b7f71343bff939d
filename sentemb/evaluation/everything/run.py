"""An encoder on all suites: each different sentence encoded once, each finished part kept at once."""

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

from sentemb._tables import Table
from sentemb.data.locate import MissingDataError
from sentemb.encoding import TextEncoder, load_encoder
from sentemb.encoding.cache import CachedEncoder
from sentemb.encoding.function import FunctionEncoder
from sentemb.evaluation.everything.suite import Loaded, Options, Suite
from sentemb.evaluation.everything.table import SUITES, load_suites, missing_names
from sentemb.evaluation.record_files import prepare_folder

# Texts between two lines on the progress; vectors are kept on disk as often.
_TEXTS_PER_LINE = 8192

Say = Callable[[str], None]


@dataclass(frozen=True)
class Judgement:
    """One encoder on all suites.

    Attributes:
        model: The encoder's name.
        fingerprint: The encoder's fingerprint.
        records: The record of each suite: a `ResultRecord`, a `GeometryRecord` or a `TransferReport`.
        reused: Suites whose records were complete before.
        missing: Why sets were left out.
        sentences: Different sentences that were needed.
        seconds: Wall time of `encode` and of each suite that was judged.
    """

    model: str
    fingerprint: str
    records: Mapping[str, Any]
    reused: tuple[str, ...]
    missing: tuple[MissingDataError, ...]
    sentences: int
    seconds: Mapping[str, float]


def evaluate_all(
    encoder: TextEncoder | str | Path | Any,
    *,
    suites: Sequence[str] = tuple(SUITES),
    preset: str = "simcse-fast",
    data_dir: str | Path | None = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    allow_missing: bool = False,
    say: Say | None = None,
) -> Judgement:
    """Judge an encoder by STS, other languages, geometry and transfer tasks, from one encoding.

    What lies in `output` already for this encoder and these settings is not judged again, so that a run that
    was interrupted goes on where it was.

    Args:
        encoder: Anything that `load_encoder` takes.
        suites: Names of `SUITES`.
        preset: Of the classifiers of transfer tasks. The default is SimCSE's "fasttest", which is SentEval's
            "prototyping" setting: five folds and short training. Papers' tables have `simcse` or `sg-bert`,
            and accuracies of different presets do not compare.
        data_dir: The folder of data; `SENTEMB_DATA` by default.
        output: Folder for records; None writes none.
        overwrite: Judge anew what is there.
        allow_missing: Leave sets out that are not there.
        say: Takes lines on the progress.

    Returns:
        The records.

    Raises:
        InputError: The encoder, a suite, the data or a place for a record cannot be used.
        UndefinedScoreError: The encoder's vectors are not finite, or all alike.

    Example:
        >>> judgement = evaluate_all("sg-bert-mini", data_dir="data", output="records")  # doctest: +SKIP
        >>> judgement.records["sts"].average("all").spearman  # doctest: +SKIP
    """
    options = Options(data_dir=data_dir, preset=preset)
    loaded = load_suites(suites, options, allow_missing=allow_missing)
    folder = None if output is None else Path(output)
    return judge_all(load_encoder(encoder), loaded, output=folder, overwrite=overwrite, say=say)


def judge_all(
    encoder: TextEncoder,
    loaded: Loaded,
    *,
    output: Path | None = None,
    overwrite: bool = False,
    say: Say | None = None,
) -> Judgement:
    """Judge an encoder by suites whose data are read.

    Args:
        encoder: The encoder.
        loaded: The suites.
        output: Folder for records; None writes none.
        overwrite: Judge anew what is there.
        say: Takes lines on the progress.

    Returns:
        The records.

    Raises:
        InputError: A place for a record is taken.
        UndefinedScoreError: The encoder's vectors are not finite, or all alike.
    """
    tell = say or (lambda _: None)
    records: dict[str, Any] = {}
    if output is not None:
        prepare_folder(output)
        found = {one.name: one.find(output, encoder, overwrite=overwrite) for one in loaded.suites}
        records = {name: record for name, record in found.items() if record is not None}
    needed = {one.name: list(dict.fromkeys(one.texts(records.get(one.name)))) for one in loaded.suites}
    left = [one for one in loaded.suites if needed[one.name]]
    reused = tuple(one.name for one in loaded.suites if not needed[one.name])
    for name in reused:
        tell(f"  {name}: recorded already")
    texts = list(dict.fromkeys(text for some in needed.values() for text in some))
    seconds = {}
    with shared_vectors(encoder, output) as shared:
        if texts:
            seconds["encode"] = _encode(shared, texts, tell)
        for suite in left:
            began = time.perf_counter()
            for record, told in suite.judge(shared, records.get(suite.name)):
                records[suite.name] = record
                if output is not None:
                    suite.write(record, output)
                tell(f"  {suite.name}: {told}")
            seconds[suite.name] = time.perf_counter() - began
    in_order = {one.name: records[one.name] for one in loaded.suites}
    return Judgement(encoder.name, encoder.fingerprint, in_order, reused, loaded.missing, len(texts), seconds)


@contextmanager
def shared_vectors(encoder: TextEncoder, output: Path | None) -> Iterator[TextEncoder]:
    """Keep an encoder's vectors on disk while suites take turns with them.

    Beside records they outlive an interruption and are removed when all suites are judged. Elsewhere, and
    of a function, which may compute something else tomorrow, they are gone in any case. An encoder that keeps
    its vectors in a cache folder goes on doing so.
    """
    if isinstance(encoder, CachedEncoder):
        yield encoder
    elif output is None or isinstance(encoder, FunctionEncoder):
        with tempfile.TemporaryDirectory(prefix="sentemb-") as folder:
            yield CachedEncoder(encoder, Path(folder))
    else:
        key = hashlib.sha256(encoder.fingerprint.encode()).hexdigest()[:16]
        vectors = output / f".vectors-{key}"
        yield CachedEncoder(encoder, vectors)
        shutil.rmtree(vectors, ignore_errors=True)


def _encode(encoder: TextEncoder, texts: Sequence[str], tell: Say) -> float:
    tell(f"  {len(texts):,} different sentences")
    began = time.perf_counter()
    for start in range(0, len(texts), _TEXTS_PER_LINE):
        encoder.encode(texts[start : start + _TEXTS_PER_LINE])
        done = min(start + _TEXTS_PER_LINE, len(texts))
        tell(f"  encoded {done:,} of {len(texts):,}, {time.perf_counter() - began:.0f} s")
    return time.perf_counter() - began


def summary_lines(judgements: Sequence[Judgement]) -> list[str]:
    """What was not judged, and how long the rest took."""
    missing = missing_names(judgements[0].missing)
    lines = [f"left out, since they are not there: {', '.join(missing)}"] if missing else []
    for one in judgements:
        if one.reused:
            lines.append(f"{one.model}: {', '.join(one.reused)} recorded already, not judged again")
        if one.seconds:
            took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in one.seconds.items())
            lines.append(f"{one.model}: {one.sentences:,} different sentences; {took}")
    return lines


def tables_of(judgements: Sequence[Judgement], suites: Sequence[Suite]) -> list[Table]:
    """The encoders side by side, suite by suite."""
    return [table for one in suites for table in one.tables([each.records[one.name] for each in judgements])]

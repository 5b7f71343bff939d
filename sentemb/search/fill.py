"""An index in LanceDB straight from what `sentemb encode` wrote, by any number of writers."""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sentemb import __version__
from sentemb._files import held, writing
from sentemb.data.keywords import RULES
from sentemb.data.language import language_of
from sentemb.encoding.roles import for_role
from sentemb.encoding.shards import ShardFolder, refuse_repeated_ids
from sentemb.encoding.workers import Workers
from sentemb.errors import InputError
from sentemb.search.address import SCHEME
from sentemb.search.calibration import Calibration, calibrate, draw
from sentemb.search.documents import as_documents
from sentemb.search.encoders import facts_of
from sentemb.search.keywords import AUTO, SAMPLE
from sentemb.search.lancedb_table import Filling, batch_of, fill
from sentemb.search.lancedb_view import open_lance_view
from sentemb.search.manifest import Manifest, Recall
from sentemb.search.plan import Metric
from sentemb.search.prepared import Prepared
from sentemb.search.rescoring import metric_of
from sentemb.search.shards import Progress
from sentemb.search.stored import StoredVectors, checked_encoder, documents_of, stored_documents
from sentemb.search.vectors import comparable

_CHUNK = 1024
_ROUNDS = 3  # until every shard is there once
_LOCK = ".sentemb.lock"


def fill_lancedb(
    shards: ShardFolder,
    address: str,
    encoder: str | Path | None = None,
    *,
    metric: Metric | None = None,
    language: str = AUTO,
    workers: int = 1,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Manifest:
    """Write the documents and vectors that `sentemb encode` wrote to LanceDB.

    A shard is one version of the table, so it is there as a whole or not at all. Until every shard is there
    and indexed, nobody can open the table; the same call resumes it.

    Args:
        shards: The folder.
        address: `lancedb:` and a folder or URI.
        encoder: Where its model is now; by default where it was.
        metric: How vectors are compared; by default the similarity that the model was trained for.
        language: Code of the documents' language.
        workers: Processes that write; one writes in this process.
        progress: Called with `(stage, done, total)`.
        say: Told when a worker ended and its shard is tried again.

    Returns:
        What is known of the index.

    Raises:
        InputError: A damaged folder, another encoder, an id given twice, or another index at the address.
    """
    report = progress or (lambda stage, done, total: None)
    source, loaded = checked_encoder(shards, encoder, metric=metric, language=language)
    metric = metric or metric_of(loaded)
    spoken = _checked(shards, language, report)
    stored = StoredVectors(shards, for_role(loaded, "document"))
    facts = Manifest(
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        encoder=facts_of(stored, source.model, source),
        dimension=loaded.dimension,
        metric=metric,
        kind="flat",
        factory="Flat",
        reason="LanceDB chooses the kind of its index itself",
        effort=0,
        recall=Recall(None, 0, 0, None),
        documents=len(shards),
        vectors=len(shards),
        left_out=0,
        versions={"sentemb": __version__, "numpy": np.__version__},
        files={},
        calibration=_calibrated(shards, metric),
        language=spoken,
        keyword_rules=RULES,
    )
    with _alone(address), writing(address.removeprefix(SCHEME)):
        filling = Filling(address, facts, json.dumps([shards.content, metric, spoken, RULES]))
        try:
            _fill(filling, _ShardFiller(shards.path, address, facts), shards, workers, report, say)
            report("train", 0, 1)
            filling.finish()
        except BaseException:
            if not any(filling.counts(_ends(shards))):
                filling.drop()
            raise
    return open_lance_view(address).manifest


@dataclass(frozen=True)
class _ShardFiller:
    """Writes the rows of a shard, given by its place and the number of its first document."""

    folder: Path
    address: str
    facts: Manifest

    def __call__(self, task: tuple[int, int]) -> int:
        shard, first = task
        fill(self.address, self.facts, self._batches(shard, first))
        return shard

    def _batches(self, shard: int, first: int) -> Iterator[pa.RecordBatch]:
        shards = ShardFolder(self.folder)
        for batch in shards.batches(_CHUNK, shard=shard):
            documents = [Prepared(one) for one in documents_of(batch, shards)]
            yield batch_of(self.facts, documents, first, comparable(batch.vectors, self.facts.metric))
            first += len(documents)


def _fill(
    filling: Filling,
    filler: _ShardFiller,
    shards: ShardFolder,
    workers: int,
    report: Progress,
    say: Callable[[str], None],
) -> None:
    """Write the shards that are not there.

    A worker may die after its shard was written and before it said so, and one whose parent was killed may
    write one more; so what is there counts, and not what was said.
    """
    ends = _ends(shards)
    for _ in range(_ROUNDS):
        missing = _missing(filling, ends)
        done = len(shards) - sum(_size(ends, shard) for shard in missing)
        if not missing:
            return
        if done:
            report("resume", done, len(shards))
        tasks = ((shard, ends[shard] - _size(ends, shard)) for shard in missing)
        with contextlib.ExitStack() as stack:
            if workers == 1:
                written: Iterator[int] = map(filler, tasks)
            else:
                make = functools.partial(_same, filler)
                written = stack.enter_context(Workers(make, count=workers, say=say)).run(tasks)
            for shard in written:
                done += _size(ends, shard)
                report("index", done, len(shards))
    if _missing(filling, ends):
        raise InputError(
            f"other processes write to {filler.address}",
            "let a single process build it, and run its command again",
        )


def _missing(filling: Filling, ends: Sequence[int]) -> list[int]:
    """The shards that are not there; what is there of one more than once, or in part, is taken out."""
    missing = []
    for shard, count in enumerate(filling.counts(ends)):
        size = _size(ends, shard)
        if count not in (0, size):
            filling.remove(ends[shard] - size, ends[shard])
        if count != size:
            missing.append(shard)
    return missing


def _checked(shards: ShardFolder, language: str, report: Progress) -> str:
    """Refuse ids that are given twice; returns the language, where it is to be found out."""
    step = max(1, len(shards) // SAMPLE)
    some: list[str] = []
    for number, document in enumerate(refuse_repeated_ids(as_documents(stored_documents(shards)))):
        if number % step == 0:
            some.append(document.text)
        if number % _CHUNK == 0:
            report("read", number, len(shards))
    return language_of(some) if language == AUTO else language


def _calibrated(shards: ShardFolder, metric: Metric) -> Calibration | None:
    numbers = draw(len(shards))
    if numbers is None:
        return None
    found, first = [], 0
    for batch in shards.batches():
        start, stop = np.searchsorted(numbers, [first, first + len(batch.ids)])
        found.append(batch.vectors[numbers[start:stop] - first])
        first += len(batch.ids)
    return calibrate(comparable(np.concatenate(found), metric))


def _ends(shards: ShardFolder) -> list[int]:
    return list(itertools.accumulate(shards.rows))


def _size(ends: Sequence[int], shard: int) -> int:
    return ends[shard] - (ends[shard - 1] if shard else 0)


def _same(filler: _ShardFiller, threads: int) -> _ShardFiller:
    """What a worker does with a shard; LanceDB has threads of its own."""
    return filler


@contextlib.contextmanager
def _alone(address: str) -> Iterator[None]:
    """Keep other fills out of a folder; in object storage nothing can."""
    place = address.removeprefix(SCHEME)
    if "://" in place:
        yield
        return
    lock, made = Path(place) / _LOCK, not Path(place).exists()
    with held(lock, f"another process is building {address}", "wait until it has finished"):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            if made and not any(Path(place).iterdir()):
                Path(place).rmdir()

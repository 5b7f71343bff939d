"""Compaction: the vector index that a fresh build of the live documents makes, and their space given back."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from sentemb.data.keywords import RULES
from sentemb.data.language import UNKNOWN
from sentemb.encoding.encoder import Vectors
from sentemb.search.cache import build_cache, calibration_of, place_cache, plan_again
from sentemb.search.encoded import SHARD_TEXTS, Progress, encode_to_shards
from sentemb.search.folder import WORK, disk_errors
from sentemb.search.keywords import AUTO, create_keywords
from sentemb.search.local import LocalStore
from sentemb.search.manifest import Manifest
from sentemb.search.plan import Kind
from sentemb.search.rescoring import encodes_again
from sentemb.search.snapshot import LocalSnapshot
from sentemb.search.vectors import Numbers, normalize_for
from sentemb.search.writer import seal, transaction, write_facts

_BLOCK = 8_192
# Free pages of the database for which it is written again, as a share of all.
_FREE = 0.1


def compact(
    store: LocalStore, kind: Kind | Literal["auto"] | None, memory_budget: int | None, progress: Progress
) -> None:
    """Build the vector index of a folder again; the caller is its only writer.

    Readers keep the old file, which is gone when the last of them has seen the new one.

    Args:
        store: The folder.
        kind: The kind of the vector index; see `SearchIndex.compact`.
        memory_budget: Bytes it may take.
        progress: Called with `(stage, done, total)`.
    """
    with store.snapshot() as snapshot:
        facts, whole = snapshot.manifest, snapshot.state.whole
        cached = snapshot.state.cache is not None or not facts.vectors
        unchanged = cached and whole.alive is None and not len(whole.recent) and facts.has_keywords
        if unchanged and kind in (None, facts.kind) and memory_budget is None:
            return
        chunks = snapshot.all_chunks()
        policy = ("never" if facts.keeps_vectors else "texts") if facts.kind == "ivfpq" else "auto"
        again = encodes_again(policy, facts.encoder.details)  # type: ignore[arg-type]
        plan = plan_again(facts, len(chunks), kind, memory_budget, again=again)
        rows = _rows(store, snapshot, chunks, progress)
        built = build_cache(plan, facts.dimension, chunks, rows, progress)
        new = replace(
            facts,
            kind=plan.kind,
            factory=plan.factory,
            reason=plan.reason,
            asked=facts.asked if kind is None else kind != "auto",
            asked_factory=facts.asked_factory if kind is None and memory_budget is None else "",
            keeps_vectors=not (plan.kind == "ivfpq" and again),
            calibration=facts.calibration or calibration_of(len(chunks), rows),
            keyword_rules=RULES,
            **place_cache(store.folder, built, len(chunks)),
        )
        with transaction(store.database) as connection:
            _keep_vectors(connection, facts, new, chunks, rows)
            if facts.language == UNKNOWN or not facts.has_keywords:
                language = AUTO if facts.language == UNKNOWN else facts.language
                new = replace(new, language=create_keywords(connection, language))
            else:
                connection.execute("INSERT INTO keywords (keywords) VALUES ('optimize')")
            connection.execute("DELETE FROM deleted")
            write_facts(connection, new.dump(store.folder))
            connection.execute("UPDATE state SET version = version + 1")
    shutil.rmtree(store.folder / WORK, ignore_errors=True)
    _vacuum(store)


def _rows(
    store: LocalStore, snapshot: LocalSnapshot, chunks: Numbers, progress: Progress
) -> Callable[[Numbers], Vectors]:
    """Return what gives the vectors of chunks by their places; texts without vectors are encoded first."""
    facts = snapshot.manifest
    if facts.keeps_vectors:
        return lambda places: snapshot.stored(chunks[places])

    def texts() -> Iterator[list[str]]:
        for start in range(0, len(chunks), SHARD_TEXTS):
            yield snapshot.texts_of(chunks[start : start + SHARD_TEXTS])

    folder = store.folder / WORK
    folder.mkdir(exist_ok=True)
    encoded = encode_to_shards(texts(), len(chunks), store.documents_encoder(), folder, progress)
    return lambda places: normalize_for(facts.metric, encoded.rows(places))


def _keep_vectors(
    connection: sqlite3.Connection,
    before: Manifest,
    after: Manifest,
    chunks: Numbers,
    rows: Callable[[Numbers], Vectors],
) -> None:
    """Remove the vectors that are computed again when they are needed, or write those that were not kept."""
    if not after.keeps_vectors:
        connection.execute("DELETE FROM vectors")
    elif not before.keeps_vectors:
        for start in range(0, len(chunks), _BLOCK):
            places = np.arange(start, min(start + _BLOCK, len(chunks)))
            sealed = zip(chunks[places].tolist(), map(seal, rows(places)), strict=True)
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", sealed)


def _vacuum(store: LocalStore) -> None:
    """Give the space of deleted rows back to the disk."""
    connection = sqlite3.connect(store.database, isolation_level=None, timeout=60)
    with contextlib.closing(connection), disk_errors(store.database):
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        if free > _FREE * pages:
            connection.execute("VACUUM")
        with contextlib.suppress(
            sqlite3.OperationalError
        ):  # a reader needs the log; a later change merges it
            connection.executescript("PRAGMA busy_timeout=0; PRAGMA wal_checkpoint(TRUNCATE)")

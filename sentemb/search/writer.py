"""Changing the documents of an index: one transaction, which alone decides what is alive."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sentemb.data.keywords import document_text
from sentemb.encoding.encoder import Vectors
from sentemb.errors import InputError
from sentemb.search.checks import sealed
from sentemb.search.documents import LARGE_ID, Document, as_documents, next_id_after
from sentemb.search.folder import changing, place
from sentemb.search.keyword_checks import seal, watch
from sentemb.search.living import free_id, make_room, write_living
from sentemb.search.manifest import Manifest, Role, StoredFile
from sentemb.search.prepared import Prepared
from sentemb.search.rows import WHOLE, given_twice, insert
from sentemb.search.shards import SHARD_TEXTS, Progress
from sentemb.search.store import DocumentStore, disk_errors, readable
from sentemb.search.vectors import comparable

# Ids given in this call, and texts that a document has lost in it.
_SCRATCH = """
CREATE TEMP TABLE places (id NOT NULL UNIQUE, location TEXT NOT NULL);
CREATE TEMP TABLE lost (number INTEGER PRIMARY KEY);
"""
# What is lost and has no other document is dead.
_BURY = """
DELETE FROM lost WHERE EXISTS (SELECT 1 FROM documents WHERE documents.text = lost.number);
DELETE FROM lost WHERE EXISTS (SELECT 1 FROM passages WHERE passages.text = lost.number);
DELETE FROM texts WHERE number IN (SELECT number FROM lost);
DELETE FROM vectors WHERE number IN (SELECT number FROM lost);
INSERT INTO dead (number) SELECT number FROM lost;
"""

logger = logging.getLogger(__name__)

Encode = Callable[[Sequence[int], Sequence[str]], Vectors]
"""Vectors (n, dim) of some new texts; the numbers say at which place each was given."""
Prepare = Callable[[Iterator[Document]], Iterator[Prepared]]
"""Documents as they are indexed, in their order."""
Done = TypeVar("Done")


class Changed(NamedTuple):
    """What a call has done to the documents of an index.

    Args:
        added: Documents with a new id.
        replaced: Documents that took the place of the one with their id.
        left_out: Blank documents; one that had an id of the index has removed that document.
        split: Those of the documents added or replaced that are indexed in passages.
        cut: Those of which the model reads no more than the beginning.

    Example:
        >>> index = SearchIndex.build(["a cat sat", "birds fly"], "static-mini")
        >>> index.add([("id-20", "a dog runs")]).added
        1
    """

    added: int
    replaced: int
    left_out: int
    split: int = 0
    cut: int = 0

    @property
    def given(self) -> int:
        """How many documents the call was given."""
        return self.added + self.replaced + self.left_out


def change(path: Path, line: str | None, work: Callable[[Writer], Done]) -> Done:
    """Run `work` in one transaction on an index folder, and make it a living one if it is not yet."""
    Manifest.read(path)  # a place without an index gets no lock
    with changing(path):
        manifest = Manifest.read(path)
        if line is not None and manifest.line != line:
            raise InputError(f"{path} was replaced by another index after it was opened", "open it again")
        if manifest.living is not None:
            return _transact(path / manifest.living, manifest, work, published=True)
        done = []

        def write(partial: Path) -> None:
            with contextlib.closing(DocumentStore(path / manifest.files["documents"].name)) as store:
                write_living(partial, manifest, store.copy_to)
            done.append(_transact(partial, manifest, work, published=False))

        files: dict[Role, StoredFile] = {"vectors": manifest.files["vectors"], **manifest.kept}
        place(path, replace(manifest, files=files, lineage=manifest.line), {"living": write})
        return done[0]


def _transact(path: Path, manifest: Manifest, work: Callable[[Writer], Done], *, published: bool) -> Done:
    connection = sqlite3.connect(path, isolation_level=None, timeout=60)
    with contextlib.closing(connection), readable(path), disk_errors(path):
        connection.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {_SCRATCH}")
        connection.execute("BEGIN IMMEDIATE")
        make_room(connection)
        writer = Writer(connection, manifest)
        done = work(writer)
        writer.finish()
        connection.execute("COMMIT")
        try:
            # Do not wait for readers. What they keep in the log is moved by a later change.
            connection.executescript("PRAGMA busy_timeout=0; PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.OperationalError as error:
            if not published:  # a file that is about to be renamed leaves its log behind
                raise
            # The change is on the disk. Reporting it as failed would make the caller repeat it.
            logger.warning(
                "%s: the change is saved, but its write-ahead log could not be merged (%s); the next change "
                "retries this",
                path,
                error,
            )
    return done


class Writer:
    """The changes of one transaction."""

    def __init__(self, connection: sqlite3.Connection, manifest: Manifest) -> None:
        self._connection = connection
        self._run = connection.execute
        self._manifest = manifest
        row = self._run("SELECT version, next_text, next_id, left_out FROM state").fetchone()
        self._version, self._next_text, next_id, self._left_out = row
        self._next_id = free_id(connection, next_id) if next_id > LARGE_ID else next_id
        self._has_keywords = manifest.has_keywords
        if self._has_keywords:
            watch(connection)
        else:  # terms of earlier rules would have to be deleted by these
            self._run("DROP TABLE IF EXISTS keywords")
            self._run("DROP TABLE IF EXISTS keyword_checks")
        self._next_document = self._run("SELECT MAX(number) FROM documents").fetchone()[0] or 0

    def add(
        self, items: Iterable[Any], prepare: Prepare, encode: Encode, *, replacing: bool, progress: Progress
    ) -> Changed:
        """Add documents; where `replacing`, instead of those that have their ids."""
        added = replaced = left_out = split = cut = 0
        documents = enumerate(prepare(as_documents(items, first=None if replacing else self._next_id)))
        while chunk := list(islice(documents, SHARD_TEXTS)):
            fresh: list[tuple[int, str]] = []
            for position, prepared in chunk:
                document = prepared.document
                self._claim(document)
                known = replacing and self._remove(document.id)
                if not document.text.strip():
                    left_out += 1
                    continue
                fresh += [(position, text) for text in self._insert(prepared)]
                added, replaced = added + (not known), replaced + known
                split, cut = split + prepared.split, cut + prepared.cut
            self._keep(fresh, encode)
            progress("encode", chunk[-1][0] + 1, 0)
        self._left_out += left_out
        return Changed(added, replaced, left_out, split, cut)

    def delete(self, ids: Iterable[str | int]) -> int:
        """Delete documents; returns how many of the ids there were."""
        return sum(self._remove(identifier) for identifier in ids)

    def finish(self) -> None:
        """Bury the texts that no document has any more, and let readers know."""
        for statement in _BURY.strip().split("\n"):
            self._run(statement)
        self._run(
            "UPDATE state SET version = ?, next_text = ?, next_id = ?, left_out = ?",
            (self._version + 1, self._next_text, self._next_id, self._left_out),
        )
        if self._has_keywords:
            seal(self._connection)

    def _claim(self, document: Document) -> None:
        try:
            self._run("INSERT INTO places VALUES (?, ?)", (document.id, document.location))
        except sqlite3.IntegrityError:
            before = self._run("SELECT location FROM places WHERE id = ?", (document.id,)).fetchone()[0]
            raise given_twice(document, before) from None
        if isinstance(document.id, int):
            self._next_id = next_id_after(document.id, self._next_id)

    def _insert(self, prepared: Prepared) -> list[str]:
        """Insert a document; returns the texts that are new and need a vector."""
        self._next_document += 1
        try:
            new = insert(self._run, prepared, self._next_document, self._next_text)
        except sqlite3.IntegrityError:
            document = prepared.document
            raise InputError(
                f"{document.location}: the id {document.id!r} is already in the index",
                "use update to replace the document",
            ) from None
        self._next_text += len(new)
        if self._has_keywords:
            terms = document_text(prepared.document.text)
            self._run("INSERT INTO keywords (rowid, text) VALUES (?, ?)", (self._next_document, terms))
        return new

    def _keep(self, fresh: Sequence[tuple[int, str]], encode: Encode) -> None:
        """Store the vectors of the texts that came last."""
        number = self._next_text - len(fresh)
        for first in range(0, len(fresh), SHARD_TEXTS):
            positions, texts = zip(*fresh[first : first + SHARD_TEXTS], strict=True)
            for row in comparable(encode(positions, texts), self._manifest.metric):
                self._run("INSERT INTO vectors VALUES (?, ?)", (number, sealed(row)))
                number += 1

    def _remove(self, identifier: str | int | None) -> bool:
        found = self._run(f"{WHOLE} WHERE documents.id = ?", (identifier,)).fetchone()
        if found is None:
            return False
        number, whole, *_ = found
        if self._has_keywords:
            forget = "INSERT INTO keywords (keywords, rowid, text) VALUES ('delete', ?, ?)"
            self._run(forget, (number, document_text(whole)))
        self._run("INSERT OR IGNORE INTO lost SELECT text FROM documents WHERE number = ?", (number,))
        self._run("INSERT OR IGNORE INTO lost SELECT text FROM passages WHERE document = ?", (number,))
        self._run("DELETE FROM documents WHERE number = ?", (number,))
        self._run("DELETE FROM passages WHERE document = ?", (number,))
        self._run("DELETE FROM bodies WHERE document = ?", (number,))
        return True

"""The rows of a document: its texts, which have a vector each, and where they lie in it."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable

from sentemb.data.tables import IDS_HINT
from sentemb.errors import InputError
from sentemb.search.checks import checksum_of
from sentemb.search.documents import Document
from sentemb.search.prepared import Prepared

# A text is kept once and owns one vector, whose number is the text's; documents point to it. The ids' column
# has no type, so that SQLite keeps the integer 1 and the string "1" apart.
SCHEMA = """
CREATE TABLE texts (number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, text TEXT NOT NULL);
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id NOT NULL UNIQUE, text INTEGER NOT NULL, metadata TEXT, checksum INTEGER
);
CREATE INDEX documents_of_text ON documents (text, number);
"""
# Of a document in passages, each is a text, `documents.text` is the first, and the whole is its body. Of one
# that the model cuts, the whole is its text, and its only passage is what the model reads.
PASSAGES = """
CREATE {temporary} TABLE IF NOT EXISTS passages (
    document INTEGER, start INTEGER, stop INTEGER, text INTEGER NOT NULL, PRIMARY KEY (document, start)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {schema}passages_of_text ON passages (text, document);
CREATE {temporary} TABLE IF NOT EXISTS bodies (document INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""
STORED_PASSAGES = PASSAGES.format(temporary="", schema="")

# The documents with their whole texts.
WHOLE = """
SELECT documents.number, COALESCE(
    (SELECT bodies.text FROM bodies WHERE bodies.document = documents.number), texts.text
) AS text, documents.id, documents.metadata
FROM documents JOIN texts ON texts.number = documents.text
"""

Run = Callable[..., sqlite3.Cursor]


def insert(run: Run, prepared: Prepared, number: int, next_text: int) -> list[str]:
    """Insert a document under its number.

    Args:
        run: Runs a statement.
        prepared: The document, not blank.
        number: Its number.
        next_text: The number of the next text that is new.

    Returns:
        The texts that are new and need a vector; they have the numbers from `next_text` on.

    Raises:
        sqlite3.IntegrityError: There is a document with its id.
        InputError: JSON cannot hold its metadata.
    """
    document, texts = prepared.document, prepared.texts
    digests = [digest_of(text) for text in texts]
    new: list[str] = []
    for text, digest in zip(texts, digests, strict=True):
        row = (next_text + len(new), digest, text)
        if run("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", row).rowcount:
            new.append(text)
    metadata = metadata_json(document)
    whole = digest_of(document.text) if prepared.split else digests[0]
    run(
        "INSERT INTO documents VALUES (?, ?, (SELECT number FROM texts WHERE digest = ?), ?, ?)",
        (number, document.id, digests[0], metadata, checksum_of(document.id, metadata, whole)),
    )
    for (start, stop), digest in zip(prepared.spans, digests if prepared.spans else (), strict=True):
        run(
            "INSERT INTO passages VALUES (?, ?, ?, (SELECT number FROM texts WHERE digest = ?))",
            (number, start, stop, digest),
        )
    if prepared.split:
        run("INSERT INTO bodies VALUES (?, ?)", (number, document.text))
    return new


def digest_of(text: str) -> bytes:
    """What a text is found by."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def metadata_json(document: Document) -> str | None:
    """A document's metadata as the store keeps it."""
    if not document.metadata:
        return None
    if odd := [name for name in document.metadata if not isinstance(name, str)]:
        raise InputError(
            f"{document.location}: the metadata key {odd[0]!r} is not a string", "convert it to a string"
        )
    try:
        return json.dumps(dict(document.metadata), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{document.location}: the metadata cannot be written as JSON: {error}") from None


def given_twice(document: Document, before: str) -> InputError:
    """The error of an id that two documents have."""
    return InputError(
        f"the id {document.id!r} occurs twice: in {before} and {document.location}",
        IDS_HINT,
    )

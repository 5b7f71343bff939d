"""Checksums of the full-text index in a database that changes: SQLite notices few flipped bits there.

The blocks that SQLite keeps the terms in are written anew as documents come and go. Triggers note which, so
that a change takes the time of what it changes.
"""

from __future__ import annotations

import sqlite3
import zlib

from sentemb.data.keywords import varints
from sentemb.search.keywords import LENGTHS

_SCHEMA = """
CREATE TABLE IF NOT EXISTS main.keyword_checks (id INTEGER PRIMARY KEY, checksum INTEGER NOT NULL);
CREATE TEMP TABLE touched (id INTEGER PRIMARY KEY);
CREATE TEMP TRIGGER block_written AFTER INSERT ON main.keywords_data
    BEGIN INSERT OR IGNORE INTO touched VALUES (NEW.id); END;
CREATE TEMP TRIGGER block_changed AFTER UPDATE ON main.keywords_data
    BEGIN INSERT OR IGNORE INTO touched VALUES (NEW.id); END;
CREATE TEMP TRIGGER block_deleted AFTER DELETE ON main.keywords_data
    BEGIN INSERT OR IGNORE INTO touched VALUES (OLD.id); END
"""
_UPDATE = """
DELETE FROM keyword_checks WHERE id IN (SELECT id FROM touched);
INSERT INTO keyword_checks
    SELECT id, checksum(block) FROM keywords_data WHERE id IN (SELECT id FROM touched);
INSERT OR REPLACE INTO keyword_checks VALUES ({pages}, ?)
"""
# The places of terms among the blocks are few; they are under a number that no block has.
_PAGES = -1
_ALL_PAGES = "SELECT segid, term, pgno FROM keywords_idx ORDER BY segid, term"
_ASTRAY = f"""
SELECT 1 FROM keywords_data LEFT JOIN keyword_checks USING (id) WHERE checksum IS NOT checksum(block)
UNION ALL SELECT 1 FROM keyword_checks WHERE id != {_PAGES} AND id NOT IN (SELECT id FROM keywords_data)
UNION ALL SELECT 1 FROM keywords_docsize WHERE id NOT IN (SELECT number FROM documents)
UNION ALL SELECT 1 FROM documents WHERE number NOT IN (SELECT id FROM keywords_docsize)
LIMIT 1
"""


def watch(connection: sqlite3.Connection) -> None:
    """Note from now on what changes; the connection has not touched the index yet."""
    connection.create_function("checksum", 1, _checksum, deterministic=True)
    for statement in _SCHEMA.split(";\nCREATE"):
        connection.execute(statement if statement.lstrip().startswith("CREATE") else f"CREATE{statement}")
    if connection.execute("SELECT 1 FROM keyword_checks LIMIT 1").fetchone() is None:
        connection.execute("INSERT INTO touched SELECT id FROM keywords_data")


def seal(connection: sqlite3.Connection) -> None:
    """Keep the checksums of what has changed, at the end of a transaction."""
    connection.execute("SAVEPOINT written")  # SQLite writes down what it has in memory
    connection.execute("RELEASE written")
    *statements, pages = _UPDATE.format(pages=_PAGES).split(";")
    for statement in statements:
        connection.execute(statement)
    connection.execute(pages, (_pages(connection),))


def keywords_fit(connection: sqlite3.Connection) -> bool:
    """Whether the full-text index, where there is one with checksums, is as it was written."""
    table = "SELECT 1 FROM sqlite_master WHERE name = 'keyword_checks'"
    if connection.execute(table).fetchone() is None:
        return True
    connection.create_function("checksum", 1, _checksum, deterministic=True)
    if connection.execute(_ASTRAY).fetchone() is not None:
        return False
    (kept,) = connection.execute("SELECT checksum FROM keyword_checks WHERE id = ?", (_PAGES,)).fetchone()
    # One block holds how many documents and terms there are in all.
    (totals,) = connection.execute("SELECT block FROM keywords_data WHERE id = 1").fetchone()
    lengths = varints(bytes.fromhex(connection.execute(LENGTHS).fetchone()[1] or ""))
    counted = varints(totals).tolist() or [0, 0]  # it is empty before the first document
    return bool(kept == _pages(connection) and counted == [len(lengths), lengths.sum()])


def _checksum(block: bytes) -> int | None:
    return zlib.crc32(block) if isinstance(block, bytes) else None


def _pages(connection: sqlite3.Connection) -> int:
    return zlib.crc32(repr(connection.execute(_ALL_PAGES).fetchall()).encode())

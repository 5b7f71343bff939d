"""Vectors kept on disk, found again by what made them: the encoder's fingerprint and the text."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from sentemb.encoding.encoder import Role, TextEncoder, Vectors, for_role, unique_texts
from sentemb.encoding.tokens import Tokens, tokens_of
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

_SCHEMA = "CREATE TABLE IF NOT EXISTS vectors (text BLOB PRIMARY KEY, sum INTEGER, vector BLOB) WITHOUT ROWID"
# The latter where SQLite's own message quotes damaged bytes.
_DAMAGED = (sqlite3.DatabaseError, UnicodeDecodeError)
_KEYS_PER_QUERY = 500  # SQLite's oldest limit on parameters is 999
_TEXTS_PER_COMMIT = 8192  # what a crash can lose


class VectorStore:
    """The vectors of one encoder in an SQLite file, which several processes may share.

    A row whose checksum fails counts as absent; a file that is not a database is renamed.
    """

    def __init__(self, folder: Path, key: str, *, dimension: int) -> None:
        self.path = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.sqlite"
        self._dimension = dimension
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._replaced_if_damaged() as connection:
                connection.execute(_SCHEMA)
                connection.execute("SELECT text, sum, vector FROM vectors LIMIT 1")
        except (OSError, sqlite3.OperationalError) as error:
            message = f"cannot use the cache folder {folder}: {error}"
            raise InputError(message, "choose another cache folder") from error

    def get(self, texts: Sequence[str]) -> dict[int, Vectors]:
        """Return the vectors that exist, by the place of their text."""
        places = {_hash(text): index for index, text in enumerate(texts)}
        hashes = list(places)
        found: dict[int, Vectors] = {}
        with self._replaced_if_damaged() as connection:
            for first in range(0, len(hashes), _KEYS_PER_QUERY):
                keys = hashes[first : first + _KEYS_PER_QUERY]
                query = f"SELECT * FROM vectors WHERE text IN ({','.join('?' * len(keys))})"
                for key, checksum, blob in connection.execute(query, keys):
                    # A damaged header may give it any other type.
                    fits = isinstance(blob, bytes) and len(blob) == 4 * self._dimension
                    if fits and zlib.crc32(blob) == checksum:
                        found[places[key]] = np.frombuffer(blob, dtype="<f4").astype(np.float32, copy=False)
        return found

    def put(self, texts: Iterable[str], vectors: Vectors) -> None:
        """Keep vectors; a full disk is a warning, since the vectors themselves exist."""
        blobs = (vector.astype("<f4", copy=False).tobytes() for vector in vectors)
        rows = [(_hash(text), zlib.crc32(blob), blob) for text, blob in zip(texts, blobs, strict=True)]
        try:
            with self._connection() as connection:
                connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)
        except _DAMAGED as error:
            logger.warning("vectors could not be cached in %s: %s", self.path, error)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=60.0)) as connection, connection:
            yield connection

    @contextmanager
    def _replaced_if_damaged(self) -> Iterator[sqlite3.Connection]:
        try:
            with self._connection() as connection:
                yield connection
        except sqlite3.OperationalError:
            raise
        except _DAMAGED as error:
            aside = self.path.with_suffix(".damaged")
            message = "the cache %s is damaged (%s) and starts empty; the damaged file was renamed to %s"
            logger.warning(message, self.path, error, aside.name)
            with suppress(FileNotFoundError):  # another process was first
                self.path.replace(aside)
            with self._connection() as connection:
                connection.execute(_SCHEMA)


class CachedEncoder:
    """An encoder that encodes only texts whose vectors are not on disk."""

    def __init__(self, encoder: TextEncoder, folder: Path) -> None:
        self.name, self.encoder = encoder.name, encoder
        self._folder = folder
        self._measured: set[int] = set()  # texts of which it is known whether the model truncates them

    def for_role(self, role: Role) -> CachedEncoder:
        """Return the encoder of queries or documents, with its vectors in the same folder."""
        own = for_role(self.encoder, role)
        return self if own is self.encoder else CachedEncoder(own, self._folder)

    @property
    def fingerprint(self) -> str:
        """The encoder's fingerprint."""
        return self.encoder.fingerprint

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.encoder.dimension

    @property
    def similarity(self) -> str:
        """Name of the encoder's similarity."""
        return str(getattr(self.encoder, "similarity", "cosine"))

    @property
    def tokens(self) -> Tokens | None:
        """The encoder's tokens."""
        return tokens_of(self.encoder)

    def describe(self) -> dict[str, Any]:
        """Describe how vectors are computed; see `TextEncoder.describe`."""
        return {**self.encoder.describe(), "cached": True}

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`."""
        unique, positions = unique_texts(texts)
        key = f"{self.fingerprint} {self.encoder.describe()['precision']}"
        store = VectorStore(self._folder, key, dimension=self.dimension)
        vectors = np.empty((len(unique), self.dimension), dtype=np.float32)
        found = store.get(unique)
        for index, vector in found.items():
            vectors[index] = vector
        missing = [index for index in range(len(unique)) if index not in found]
        for first in range(0, len(missing), _TEXTS_PER_COMMIT):
            some = missing[first : first + _TEXTS_PER_COMMIT]
            new = [unique[index] for index in some]
            vectors[some] = self.encoder.encode(new, progress=progress)
            store.put(new, vectors[some])
        self._measured.update(hash(unique[index]) for index in missing)
        cached = [unique[index] for index in found if hash(unique[index]) not in self._measured]
        if cached and self.tokens is not None:  # count those that the model truncates
            self._measured.update(map(hash, cached))
            self.tokens.note(cached)
        logger.info("%s: %d vectors from the cache, %d encoded", self.name, len(found), len(missing))
        return vectors[positions]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

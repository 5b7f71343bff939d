"""What back-translation needs of a translator, and the cache of its translations."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from sentemb._files import held
from sentemb.errors import InputError

Progress = Callable[[str, int, int], None]
"""Takes the translator's name, the number of translated texts and the number of all texts."""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS manifest (fingerprint TEXT, translator TEXT);
CREATE TABLE IF NOT EXISTS translations (draw INTEGER, text TEXT, translation TEXT, PRIMARY KEY (draw, text))
WITHOUT ROWID;
"""


class Translator(Protocol):
    """From texts to their translations.

    Attributes:
        name: What messages call it.
        fingerprint: A name for what it computes, which differs if some translation may differ.

    Example:
        >>> class Shouting:
        ...     name = "shouting"
        ...     fingerprint = "shouting 1"
        ...
        ...     def __call__(self, texts, *, draw=0):
        ...         return [text.upper() for text in texts]
        ...
        ...     def describe(self):
        ...         return {"name": self.name}
        >>> Shouting()(["a cat"])
        ['A CAT']
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    def __call__(self, texts: Sequence[str], *, draw: int = 0) -> list[str]: ...  # noqa: D102

    def describe(self) -> dict[str, Any]:
        """Describe for a manifest which translator this is and how it decodes, as JSON values."""


class TranslationStore:
    """Translations in a SQLite file, which one process at a time can have `opened`.

    The file is named by the translator's fingerprint. A batch is one transaction: a killed process loses at
    most one batch.
    """

    def __init__(self, folder: Path, translator: Translator) -> None:
        name = hashlib.sha256(translator.fingerprint.encode()).hexdigest()[:16]
        self.path = folder / f"{name}.sqlite"
        self._translator = translator
        self._database: sqlite3.Connection

    @contextmanager
    def opened(self) -> Iterator[Self]:
        """Hold the file, which no other process can then open."""
        busy = f"another process is translating into {self.path}"
        hint = "wait until it ends, or choose another folder"
        with (
            held(self.path.with_suffix(".lock"), busy, hint),
            closing(sqlite3.connect(self.path)) as self._database,
            self._explained(),
        ):
            self._open()
            yield self

    def find(self, texts: Sequence[str], *, draw: int) -> Mapping[str, str]:
        """Return the known translations of some texts."""
        query = "SELECT translation FROM translations WHERE draw = ? AND text = ?"
        found = {text: self._database.execute(query, (draw, text)).fetchone() for text in texts}
        return {text: row[0] for text, row in found.items() if row is not None}

    def add(self, texts: Sequence[str], translations: Sequence[str], *, draw: int) -> None:
        """Store the translations of a batch."""
        rows = ((draw, *pair) for pair in zip(texts, translations, strict=True))
        with self._database:
            self._database.executemany("INSERT OR REPLACE INTO translations VALUES (?, ?, ?)", rows)

    def _open(self) -> None:
        self._database.executescript(_SCHEMA)
        row = self._database.execute("SELECT fingerprint FROM manifest").fetchone()
        if row is None:
            described = json.dumps(self._translator.describe(), ensure_ascii=False)
            with self._database:
                manifest = (self._translator.fingerprint, described)
                self._database.execute("INSERT INTO manifest VALUES (?, ?)", manifest)
        elif row[0] != self._translator.fingerprint:
            raise InputError(
                f"{self.path} does not contain translations by {self._translator.name}",
                "delete the file, or choose another folder",
            )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{self.path} cannot be used: {error}", "delete the file; its texts are then translated again"
            ) from None

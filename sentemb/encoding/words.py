"""Word vectors from a text file (GloVe, word2vec, fastText): a sentence is the mean of its words."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sentemb._files import sha256_of
from sentemb.data.lines import read_lines
from sentemb.encoding.encoder import Vectors, unique_texts
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

SUFFIXES = (".txt", ".vec", ".gz")
_FORMAT = "write lines of `word v1 v2 ...`, as in the GloVe and word2vec text formats"

# Runs of letters and digits, with inner apostrophes and hyphens, or single other signs: "don't",
# "well-known", ",".
_TOKEN = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")


class WordVectorEncoder:
    """Mean of the vectors of a text's known words; a text without one is the zero vector.

    A token that the file does not hold is tried in lower case, then left out.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = path.name
        self._places, self._table = _read(path)
        self.dimension = int(self._table.shape[1])
        self._fingerprint: str | None = None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the file."""
        if self._fingerprint is None:
            self._fingerprint = sha256_of(self._path)
        return self._fingerprint

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Vectors:
        """Encode texts; see `TextEncoder.encode`. Too fast to need a progress bar."""
        unique, positions = unique_texts(texts)
        vectors = np.zeros((len(unique), self.dimension), dtype=np.float32)
        unknown = 0
        for row, text in enumerate(unique):
            places = [place for token in _TOKEN.findall(text) if (place := self._place(token)) is not None]
            if places:
                vectors[row] = self._table[places].mean(axis=0)
            else:
                unknown += 1
        if unknown:
            logger.warning(
                "%s: %d of %d texts do not contain a known word; their vectors are zero",
                self.name,
                unknown,
                len(unique),
            )
        return vectors[positions]

    def describe(self) -> dict[str, Any]:
        """Say how vectors are made; see `TextEncoder.describe`."""
        return {
            "encoder": "word vectors",
            "backend": "numpy",
            "precision": "float32",
            "words": len(self._places),
            "pooling": "mean of known words",
        }

    def _place(self, token: str) -> int | None:
        place = self._places.get(token)
        return self._places.get(token.lower()) if place is None else place


def _read(path: Path) -> tuple[dict[str, int], Vectors]:
    places: dict[str, int] = {}
    rows: list[Vectors] = []
    for number, line in read_lines(path):
        if not line.strip():
            continue
        fields = line.rstrip().split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue  # the header that word2vec and fastText write
        where = f"{path}, line {number}"
        dimension = rows[0].size if rows else len(fields) - 1
        if dimension < 2:
            raise InputError(f"{where}: {dimension} numbers after the word", _FORMAT)
        # A few words of the large GloVe files hold spaces: the numbers are counted from the end.
        word, numbers = " ".join(fields[:-dimension]), fields[-dimension:]
        try:
            vector = np.array(numbers, dtype=np.float32)
        except ValueError:
            raise InputError(f"{where}: expected {dimension} numbers after the word", _FORMAT) from None
        if not word or not np.isfinite(vector).all():
            raise InputError(f"{where}: the word is missing, or a number is not finite", _FORMAT)
        if word not in places:
            places[word] = len(rows)
            rows.append(vector)
    if not rows:
        raise InputError(f"{path} does not contain word vectors", _FORMAT)
    return places, np.stack(rows)

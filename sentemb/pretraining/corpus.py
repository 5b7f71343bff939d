"""The text of a run: what is trained on, what is held out, what is left out."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb.errors import InputError
from sentemb.pretraining.documents import Document, SentenceFilter, corpus_files, read_documents

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Corpus:
    """Text that was checked against the excluded sentences, in two parts.

    Attributes:
        files: The files.
        leaks: Path and line number of the lines left out.
        documents: Lines that remain.
        excluded_sentences: Sentences that were looked for.
        validation_share: Share of them that is held out, chosen by their text.
    """

    files: tuple[Path, ...]
    leaks: frozenset[tuple[Path, int]]
    documents: int
    excluded_sentences: int
    validation_share: float

    @classmethod
    def scan(cls, sources: Sequence[Path], exclude: Sequence[Path], *, validation_share: float) -> Corpus:
        """Read the corpus once and find the lines to leave out."""
        files = corpus_files(sources)
        excluded = SentenceFilter.from_files(exclude)
        leaks, kept = set(), 0
        for document in read_documents(files):
            if excluded.matches(document.text):
                leaks.add((document.path, document.line))
            else:
                kept += 1
        if exclude:
            lines = len(leaks) + kept
            logger.info(
                "%d of %d lines contain one of %d excluded sentences", len(leaks), lines, len(excluded)
            )
        if not kept:
            raise InputError("every line of the corpus is excluded", "check --exclude")
        return cls(tuple(files), frozenset(leaks), kept, len(excluded), validation_share)

    def texts(self, part: str | None = None) -> Iterator[str]:
        """Stream the lines that remain."""
        for document in read_documents(self.files):
            if (document.path, document.line) in self.leaks:
                continue
            if part is None or (part == "validation") == self._held_out(document):
                yield document.text

    def _held_out(self, document: Document) -> bool:
        return zlib.crc32(document.text.encode("utf-8")) < self.validation_share * 2**32

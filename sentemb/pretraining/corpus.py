"""The text of a run, one document per line: test sentences are excluded, and a part is held out."""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb.data.lines import read_lines
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

SUFFIXES = (".txt", ".txt.gz", ".txt.xz")
# A sentence of at least six words counts wherever it stands, a shorter one only as the whole line.
CONTAINED_WORDS = 6
# Shorter fields of test files are not sentences: genre names stand next to them.
SHORTEST_SENTENCE = 3
_WORD = re.compile(r"[^\W_]+")

Words = tuple[str, ...]
Document = tuple[Path, int, str]
"""The file, line number and stripped text of a line."""


@dataclass(frozen=True)
class Corpus:
    """Text without the lines that contain an excluded sentence, in two parts."""

    files: tuple[Path, ...]
    leaks: frozenset[tuple[Path, int]]  # file and line number of the skipped lines
    documents: int
    excluded_sentences: int
    validation_share: float

    @classmethod
    def scan(cls, sources: Sequence[Path], exclude: Sequence[Path], *, validation_share: float) -> Corpus:
        """Read the corpus once and find the lines to skip."""
        files, excluded = tuple(corpus_files(sources)), SentenceFilter.from_files(exclude)
        leaks, kept = set(), 0
        for path, line, text in read_documents(files):
            if excluded.matches(text):
                leaks.add((path, line))
            else:
                kept += 1
        if exclude:
            found = f"{len(leaks)} of {len(leaks) + kept} lines contain one of"
            logger.info("%s the %d excluded sentences and are skipped", found, len(excluded))
        if not kept:
            raise InputError("all lines of the corpus are excluded", "check --exclude")
        return cls(files, frozenset(leaks), kept, len(excluded), validation_share)

    def texts(self, part: str | None = None) -> Iterator[str]:
        """Stream the remaining lines, or those for `train` or `validation`."""
        for path, line, text in read_documents(self.files):
            # By the text, so that repeated lines are in one part.
            held_out = zlib.crc32(text.encode("utf-8")) < self.validation_share * 2**32
            if (path, line) not in self.leaks and (part is None or (part == "validation") == held_out):
                yield text


class SentenceFilter:
    """Recognizes lines that contain an excluded sentence; case and punctuation do not count."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._whole: set[Words] = set()
        self._by_start: dict[Words, set[Words]] = {}
        for sentence in sentences:
            words = _words(sentence)
            if len(words) >= CONTAINED_WORDS:
                self._by_start.setdefault(words[:CONTAINED_WORDS], set()).add(words)
            elif len(words) >= SHORTEST_SENTENCE:
                self._whole.add(words)

    @classmethod
    def from_files(cls, files: Sequence[Path]) -> SentenceFilter:
        """Read sentences from text or tab-separated files: every field may be one."""
        return cls(field for path in files for _, line in read_lines(path) for field in line.split("\t"))

    def __len__(self) -> int:
        return len(self._whole) + sum(len(group) for group in self._by_start.values())

    def matches(self, text: str) -> bool:
        """Return whether a line contains one of the sentences."""
        words = _words(text)
        return words in self._whole or any(
            words[start : start + len(sentence)] == sentence
            for start in range(len(words) - CONTAINED_WORDS + 1)
            for sentence in self._by_start.get(words[start : start + CONTAINED_WORDS], ())
        )


def _words(text: str) -> Words:
    return tuple(_WORD.findall(text.lower()))


def corpus_files(sources: Sequence[Path]) -> list[Path]:
    """Return the text files of files and folders."""
    hint = f"use files that end in {', '.join(SUFFIXES)}"
    files: list[Path] = []
    for source in sources:
        found = [source]
        if source.is_dir():
            found = sorted(path for path in source.iterdir() if path.name.endswith(SUFFIXES))
            if not found:
                raise InputError(f"{source} does not contain a text file", hint)
        elif not source.exists():
            raise InputError(f"no such file: {source}", "check --corpus")
        elif not source.name.endswith(SUFFIXES):
            raise InputError(f"{source} is not a plain text file", hint)
        files.extend(found)
    return files


def read_documents(files: Iterable[Path]) -> Iterator[Document]:
    """Stream the lines that are not blank."""
    for path in files:
        found = False
        for line, text in read_lines(path):
            if text := text.strip():
                found = True
                yield path, line, text
        if not found:
            raise InputError(f"{path} does not contain text", "add text to it, or remove it from --corpus")

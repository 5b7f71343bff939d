"""The text of a run, one document a line: test sentences are kept out, and a part is held out."""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sentemb.data.lines import read_lines
from sentemb.errors import InputError

logger = logging.getLogger(__name__)

SUFFIXES = (".txt", ".txt.gz", ".txt.xz")
# A sentence of at least six words counts wherever it stands, a shorter one only as the whole line.
CONTAINED_WORDS = 6
# Shorter fields of test files are no sentences: genre names stand beside them.
SHORTEST_SENTENCE = 3
_WORD = re.compile(r"[^\W_]+")


class Document(NamedTuple):
    """One line of a corpus, without white space at its ends."""

    path: Path
    line: int
    text: str


@dataclass(frozen=True)
class Corpus:
    """Text without the lines that hold an excluded sentence, in two parts."""

    files: tuple[Path, ...]
    leaks: frozenset[tuple[Path, int]]  # path and line number of the lines left out
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
                "%d of %d lines contain one of the %d excluded sentences and are skipped",
                len(leaks),
                lines,
                len(excluded),
            )
        if not kept:
            raise InputError("all lines of the corpus are excluded", "check --exclude")
        return cls(tuple(files), frozenset(leaks), kept, len(excluded), validation_share)

    def texts(self, part: str | None = None) -> Iterator[str]:
        """Stream the lines that remain."""
        for document in read_documents(self.files):
            if (document.path, document.line) in self.leaks:
                continue
            # By the text, so that repeated lines are in one part.
            held_out = zlib.crc32(document.text.encode("utf-8")) < self.validation_share * 2**32
            if part is None or (part == "validation") == held_out:
                yield document.text


class SentenceFilter:
    """Recognises lines that contain an excluded sentence; case and punctuation do not count."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self._whole: set[tuple[str, ...]] = set()
        self._by_start: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for sentence in sentences:
            words = tuple(_WORD.findall(sentence.lower()))
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
        """Whether a line contains one of the sentences."""
        words = tuple(_WORD.findall(text.lower()))
        if words in self._whole:
            return True
        return any(
            words[start : start + len(sentence)] == sentence
            for start in range(len(words) - CONTAINED_WORDS + 1)
            for sentence in self._by_start.get(words[start : start + CONTAINED_WORDS], ())
        )


def corpus_files(sources: Sequence[Path]) -> list[Path]:
    """The text files that files and folders stand for."""
    files: list[Path] = []
    for source in sources:
        if source.is_dir():
            found = sorted(path for path in source.iterdir() if path.name.endswith(SUFFIXES))
            if not found:
                raise InputError(
                    f"{source} does not contain a text file", f"use files that end in {', '.join(SUFFIXES)}"
                )
            files.extend(found)
        elif not source.exists():
            raise InputError(f"no such file: {source}", "check --corpus")
        elif not source.name.endswith(SUFFIXES):
            raise InputError(
                f"{source} is not a plain text file", f"use files that end in {', '.join(SUFFIXES)}"
            )
        else:
            files.append(source)
    return files


def read_documents(files: Iterable[Path]) -> Iterator[Document]:
    """Stream the lines that are not blank."""
    for path in files:
        found = False
        for line, text in read_lines(path):
            if text := text.strip():
                found = True
                yield Document(path, line, text)
        if not found:
            raise InputError(f"{path} does not contain text", "add text to it, or remove it from --corpus")

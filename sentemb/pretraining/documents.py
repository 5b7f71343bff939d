"""Plain text for pre-training: one document a line, compressed or not, with test sentences kept out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentemb.data.lines import read_lines
from sentemb.errors import InputError

SUFFIXES = (".txt", ".txt.gz", ".txt.xz")
# A sentence of at least six words counts wherever it stands, a shorter one only as the whole line.
CONTAINED_WORDS = 6
SHORTEST_SENTENCE = 3
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Document:
    """One line of a corpus.

    Attributes:
        path: The file.
        line: Its line number, from 1.
        text: The line without white space at its ends.
    """

    path: Path
    line: int
    text: str


def corpus_files(sources: Sequence[Path]) -> list[Path]:
    """The text files that files and folders stand for."""
    files: list[Path] = []
    for source in sources:
        if source.is_dir():
            found = sorted(path for path in source.iterdir() if path.name.endswith(SUFFIXES))
            if not found:
                raise InputError(f"no text file in {source}", f"name files that end in {', '.join(SUFFIXES)}")
            files.extend(found)
        elif not source.exists():
            raise InputError(f"no such file: {source}", "check --corpus")
        elif not source.name.endswith(SUFFIXES):
            raise InputError(f"{source} is not plain text", f"name files that end in {', '.join(SUFFIXES)}")
        else:
            files.append(source)
    return files


def read_documents(files: Iterable[Path]) -> Iterator[Document]:
    """Stream the lines that are not blank.

    Args:
        files: From `corpus_files`.

    Yields:
        One document a line.

    Raises:
        InputError: A file is not UTF-8, is damaged, or holds nothing but blank lines.
    """
    for path in files:
        found = False
        for line, text in read_lines(path):
            if text := text.strip():
                found = True
                yield Document(path, line, text)
        if not found:
            raise InputError(f"{path} holds no text", "remove it from --corpus or fill it")


class SentenceFilter:
    """Recognises lines that contain a sentence which must not be trained on, such as a test sentence.

    Case and punctuation do not count. A sentence of six or more words is found anywhere in a line, across
    sentence ends too; a shorter one only when it is the whole line.

    Args:
        sentences: The sentences; those of fewer than three words are ignored, because fields such as genre
            names stand beside the sentences of test files.
    """

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
        """Read sentences from text or tab-separated files: every field of three words or more is one."""
        fields = (field for path in files for _, line in read_lines(path) for field in line.split("\t"))
        return cls(fields)

    def __len__(self) -> int:
        return len(self._whole) + sum(len(group) for group in self._by_start.values())

    def matches(self, text: str) -> bool:
        """Whether a line contains one of the sentences."""
        words = tuple(_WORD.findall(text.lower()))
        if words in self._whole:
            return True
        for start in range(len(words) - CONTAINED_WORDS + 1):
            for sentence in self._by_start.get(words[start : start + CONTAINED_WORDS], ()):
                if words[start : start + len(sentence)] == sentence:
                    return True
        return False

"""The lines of text files, in two parts, and the sentences that must not be among them."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from sentemb.errors import InputError
from sentemb.pretraining.tokens import Corpus

WriteFile = Callable[[str, str | bytes], Path]
TEXT = "First line.\n\n  Second ✓ line.  \n"


def test_plain_and_compressed_files_read_the_same(write_file: WriteFile, tmp_path: Path) -> None:
    write_file("a.txt", TEXT)
    write_file("b.txt.gz", gzip.compress(TEXT.encode()))
    write_file("c.txt.xz", lzma.compress(TEXT.encode()))
    write_file("notes.md", "not part of it")
    corpus = Corpus([str(tmp_path)], validation_share=0.3)
    assert [path.name for path in corpus.files] == ["a.txt", "b.txt.gz", "c.txt.xz"]
    assert list(corpus.texts()) == ["First line.", "Second ✓ line."] * 3


def test_unusable_sources_are_named(write_file: WriteFile, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for source, message in (
        (tmp_path / "absent.txt", r"no such file: .*absent\.txt"),
        (tmp_path / "empty", "does not contain a text file"),
        (write_file("table.csv", "a,b\n"), r"table\.csv is not a text file"),
        (write_file("blank.txt", "\n \n"), r"blank\.txt does not contain text"),
        (write_file("latin.txt", b"fine\ncaf\xe9\n"), r"latin\.txt"),
        (write_file("cut.txt.xz", lzma.compress(TEXT.encode() * 99)[:-9]), r"cut\.txt\.xz"),
        ("s3://bucket/a.txt", "is remote"),
    ):
        with pytest.raises(InputError, match=message):
            Corpus([str(source)], validation_share=0.1)


def test_the_parts_do_not_overlap(write_file: WriteFile) -> None:
    texts = [f"line number {number} of a small corpus" for number in range(400)]
    source = write_file("corpus.txt", "\n".join(texts * 2))
    corpus = Corpus([str(source)], validation_share=0.1)
    training, validation = list(corpus.texts("train")), list(corpus.texts("validation"))
    assert sorted(training + validation) == sorted(texts * 2) == sorted(corpus.texts())
    assert not {*training} & {*validation}
    assert 30 < len(validation) < 140
    assert (corpus.documents["train"], corpus.documents["validation"]) == (len(training), len(validation))


SENTENCE = "A man is playing a large flute"


@pytest.mark.parametrize(
    ("line", "skipped"),
    [
        (SENTENCE, True),
        ("He said: a MAN is playing, a large flute!", True),
        ("One. A man is playing a large flute. Two.", True),
        ("A man is playing a large flutes", False),
        ("man is playing a large flute", False),
        ("Birds fly high", True),
        ("Birds fly high today", False),
        ("main captions", False),
    ],
)
def test_long_sentences_are_excluded_anywhere_and_short_ones_whole(
    line: str, skipped: bool, write_file: WriteFile
) -> None:
    texts = [f"line number {number}" for number in range(99)]
    source = write_file("corpus.txt", "\n".join([*texts, line]))
    exclude = write_file("test.tsv", f"genre\t4.2\t{SENTENCE}.\tbirds fly high.\tmain captions\n")
    corpus = Corpus([str(source)], [str(exclude)], validation_share=0.1)
    assert list(corpus.texts()) == texts + [line] * (not skipped)
    assert (corpus.excluded, corpus.skipped) == (2, int(skipped))
    assert corpus.documents.total() == 100 - corpus.skipped


def test_a_corpus_of_excluded_lines_is_refused(write_file: WriteFile) -> None:
    source = write_file("only.txt", SENTENCE)
    with pytest.raises(InputError, match="too few documents"):
        Corpus([str(source)], [str(source)], validation_share=0.1)

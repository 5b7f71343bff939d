"""Lines of text files, and the sentences that must not be among them."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentemb.errors import InputError
from sentemb.pretraining.corpus import Corpus, SentenceFilter, corpus_files, read_documents

WriteFile = Callable[[str, str | bytes], Path]
TEXT = "First line.\n\n  Second ✓ line.  \n"


def test_plain_and_compressed_files_read_the_same(write_file: WriteFile, tmp_path: Path) -> None:
    write_file("a.txt", TEXT)
    write_file("b.txt.gz", gzip.compress(TEXT.encode()))
    write_file("c.txt.xz", lzma.compress(TEXT.encode()))
    write_file("notes.md", "not part of it")
    found = [(path.name, line, text) for path, line, text in read_documents(corpus_files([tmp_path]))]
    assert found == [
        (name, line, text)
        for name in ("a.txt", "b.txt.gz", "c.txt.xz")
        for line, text in ((1, "First line."), (3, "Second ✓ line."))
    ]


def test_unusable_sources_are_named(write_file: WriteFile, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no such file: .*absent\.txt"):
        corpus_files([tmp_path / "absent.txt"])
    with pytest.raises(InputError, match="does not contain a text file"):
        corpus_files([tmp_path / "empty"])
    with pytest.raises(InputError, match=r"table\.csv is not a plain text file"):
        corpus_files([write_file("table.csv", "a,b\n")])
    with pytest.raises(InputError, match=r"blank\.txt does not contain text"):
        list(read_documents([write_file("blank.txt", "\n \n")]))
    with pytest.raises(InputError, match=r"latin\.txt"):
        list(read_documents([write_file("latin.txt", b"fine\ncaf\xe9\n")]))
    with pytest.raises(InputError, match=r"cut\.txt\.xz"):
        list(read_documents([write_file("cut.txt.xz", lzma.compress(TEXT.encode() * 99)[:-9])]))


SENTENCE = "A man is playing a large flute"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (SENTENCE, True),
        ("He said: a MAN is playing, a large flute!", True),
        ("One. A man is playing a large flute. Two.", True),
        ("A man is playing a large flutes", False),
        ("man is playing a large flute", False),
        ("Birds fly high", True),
        ("Birds fly high today", False),
        ("main captions", False),
        ("", False),
    ],
)
def test_filter_finds_long_sentences_anywhere_and_short_ones_whole(line: str, expected: bool) -> None:
    assert SentenceFilter([SENTENCE, "birds fly high.", "main captions"]).matches(line) is expected


@given(
    st.lists(st.sampled_from("red blue green".split()), min_size=6, max_size=9), st.text("abc ", max_size=20)
)
def test_filter_finds_every_sentence(words: list[str], before: str) -> None:
    excluded = SentenceFilter([" ".join(words), "red red red red red red"])
    assert excluded.matches(f"{before}. {' '.join(words)} end")


def test_corpus_leaves_out_leaks_and_splits_without_overlap(write_file: WriteFile) -> None:
    texts = [f"line number {number} of a small corpus" for number in range(400)]
    source = write_file("corpus.txt", "\n".join([*texts, SENTENCE]))
    exclude = write_file("test.tsv", f"genre\t4.2\t{SENTENCE}.\tSomething else entirely here\n")
    corpus = Corpus.scan([source], [exclude], validation_share=0.1)
    assert {line for _, line in corpus.leaks} == {401}
    training, validation = list(corpus.texts("train")), list(corpus.texts("validation"))
    assert sorted(training + validation) == sorted(texts) == sorted(corpus.texts())
    assert 15 < len(validation) < 70
    with pytest.raises(InputError, match="all lines of the corpus are excluded"):
        Corpus.scan([write_file("only.txt", SENTENCE)], [exclude], validation_share=0.1)


@pytest.mark.slow
def test_the_reference_corpus_holds_no_test_sentence(shared_data: Path) -> None:
    sts = shared_data / "senteval" / "downstream" / "STS"
    exclude = [
        *sorted(sts.glob("STS1?-en-test/STS.input.*.txt")),
        *(sts / "STSBenchmark" / f"sts-{split}.csv" for split in ("dev", "test")),
        *(
            shared_data / "senteval" / "downstream" / "SICK" / f"SICK_{s}.txt"
            for s in ("trial", "test_annotated")
        ),
    ]
    corpus = Corpus.scan([shared_data / "corpus"], exclude, validation_share=0.01)
    assert corpus.excluded_sentences > 25_000
    assert not corpus.leaks

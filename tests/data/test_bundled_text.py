from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from sentemb.data import read_rows, read_scored_pairs
from sentemb.data.bundled_text import (
    bundled_pairs,
    bundled_pairs_file,
    bundled_questions,
    bundled_sentences,
    bundled_sentences_file,
    bundled_uses,
)
from sentemb.data.docstrings import stdlib_documents


def folded(text: str) -> str:
    """Without case and punctuation, which would hide a duplicate."""
    return " ".join(re.findall(r"\w+", text.casefold()))


def sentences_of_pairs() -> list[str]:
    pairs = bundled_pairs()
    return pairs.first + pairs.second


def test_pairs_cover_every_unit_of_the_scale() -> None:
    gold = bundled_pairs().gold
    assert len(gold) >= 300
    assert gold.min() == 0
    assert gold.max() == 5
    counts, _ = np.histogram(gold, bins=[0, 1, 2, 3, 4, 5.01])
    assert counts.min() >= 50
    assert np.allclose(gold * 10, np.round(gold * 10))


def test_pairs_have_their_domains_as_subsets() -> None:
    pairs = bundled_pairs()
    assert len(pairs.subsets) == len({subset.name for subset in pairs.subsets}) >= 8
    for subset in pairs.subsets:
        gold = pairs.gold[subset.start : subset.stop]
        assert len(gold) >= 20, subset.name
        assert gold.min() < 1, subset.name
        assert gold.max() > 4, subset.name


def test_counting_common_words_does_not_solve_the_pairs() -> None:
    pairs = bundled_pairs()
    overlaps = []
    for first, second in zip(pairs.first, pairs.second, strict=True):
        one, other = set(folded(first).split()), set(folded(second).split())
        overlaps.append(len(one & other) / len(one | other))
    assert spearmanr(overlaps, pairs.gold).statistic < 0.3
    high, low = pairs.gold >= 4, pairs.gold < 3
    assert (np.array(overlaps)[high] < 0.2).sum() >= 50
    assert (np.array(overlaps)[low] > 0.5).sum() >= 30


def test_sentences_are_many_and_varied() -> None:
    sentences = bundled_sentences()
    assert len(sentences) >= 2000
    lengths = np.array([len(sentence.split()) for sentence in sentences])
    assert lengths.min() >= 3
    assert lengths.max() <= 30
    assert (lengths >= 15).mean() > 0.1
    assert len({word for sentence in sentences for word in folded(sentence).split()}) > 4500


def test_nothing_is_there_twice() -> None:
    counts = Counter(map(folded, bundled_sentences() + sentences_of_pairs()))
    assert [text for text, count in counts.items() if count > 1] == []


def test_readme_states_the_sizes() -> None:
    readme = files("sentemb.data").joinpath("bundled", "README.md").read_text(encoding="utf-8")
    assert f"{len(bundled_pairs()):,} pairs" in readme
    assert f"{len(bundled_sentences()):,} English sentences" in readme


def test_text_is_clean() -> None:
    for sentence in bundled_sentences() + sentences_of_pairs():
        assert sentence == " ".join(sentence.split())
        assert sentence[-1] in ".?!", sentence
        assert sentence[0].isupper() or sentence[0].isdigit(), sentence


def test_nothing_comes_from_the_real_sets(shared_data: Path) -> None:
    ours = set(map(folded, bundled_sentences() + sentences_of_pairs()))
    theirs = set(map(folded, real_cells(shared_data / "senteval" / "downstream")))
    assert len(theirs) > 40_000
    assert ours & theirs == set()


def real_cells(folder: Path) -> Iterator[str]:
    for name in ("STS", "SICK"):
        for path in sorted((folder / name).rglob("*")):
            if path.suffix in (".txt", ".csv"):
                for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
                    yield from line.split("\t")


def test_the_files_read_as_what_the_functions_give() -> None:
    pairs, read = bundled_pairs(), read_scored_pairs(bundled_pairs_file())
    assert (read.first, read.second) == (pairs.first, pairs.second)
    np.testing.assert_array_equal(read.gold, pairs.gold)
    records = read_rows(str(bundled_sentences_file()))
    assert [record.values["text"] for record in records] == bundled_sentences()


def test_nearly_all_questions_can_be_answered() -> None:
    questions = bundled_questions()
    assert Counter(one.split for one in questions) == {"dev": 60, "test": 158}
    assert len({folded(one.text) for one in questions}) == 218
    known = {document.id for document in stdlib_documents()}
    answered = [one for one in questions if known & {*one.answers}]
    assert len(answered) >= 215, "documents have changed, or this Python is another one"
    assert len({name.partition(".")[0] for one in answered for name in one.answers}) > 60


def test_uses_are_sentences_that_no_question_repeats() -> None:
    questions = [set(folded(one.text).split()) for one in bundled_questions()]
    first, last = questions[:120], questions[120:]  # the last are by a writer who saw none of this
    uses = bundled_uses()
    assert len(uses) > 1800
    for text in uses.values():
        assert text == " ".join(text.split())
        for sentence in sentences_in(text):
            assert sentence[-1] in ".?!", sentence
            words = set(folded(sentence).split())
            assert max(len(words & asked) / len(words | asked) for asked in first) <= 0.5, sentence
            assert words not in last, sentence


def sentences_in(text: str) -> list[str]:
    return re.split(r"(?<=[.?!]) (?=[A-Z0-9$])", text)

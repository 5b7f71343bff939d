"""Labelled pairs: what is dropped and counted, components against a search by hand, splits without leaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sentemb.data import LabelledTexts, clean_pairs, load_labelled, load_pairs, split_pairs
from sentemb.data.paraphrases import NAMES, paraphrase_components
from sentemb.errors import InputError

ROWS = [
    ("a", "b", 1),
    ("B ", "A", 1),  # the first again, the other way round
    ("b", "c", 1),
    ("a", "c", 0),  # a and c are paraphrases by way of b
    ("d", "e", 0),
    ("e", "d", 1),  # both labels
    ("f", "F", 1),  # one text twice
    ("g", " ", 0),
    ("g", "a", 0),
    ("h", "i", 1),
]


def pairs(rows: list[tuple[str, str, int]]) -> LabelledTexts:
    first, second, labels = map(list, zip(*rows, strict=True))
    return LabelledTexts("pairs", "train", first, second, np.array(labels), NAMES)


def reachable(edges: list[tuple[str, str]], start: str) -> set[str]:
    found = {start}
    while True:
        more = {x for edge in edges for x in edge if found & set(edge)} - found
        if not more:
            return found
        found |= more


def test_cleaning_counts_what_it_drops() -> None:
    kept, counts = clean_pairs(pairs(ROWS))
    assert list(zip(kept.texts, kept.pairs, kept.labels.tolist(), strict=True)) == [
        ROWS[0], ROWS[2], ROWS[3], ROWS[8], ROWS[9]
    ]  # fmt: skip
    assert (counts.rows, counts.kept, counts.blank, counts.identical) == (10, 5, 1, 1)
    assert (counts.contradictory, counts.repeated, counts.implied) == (2, 1, 1)
    assert "kept 5 of 10 pairs; skipped 1 with a blank text" in str(counts)


def test_components_are_the_texts_that_paraphrases_join() -> None:
    data, _ = clean_pairs(pairs(ROWS))
    components = paraphrase_components(data)
    edges = [(a, b) for a, b, label in zip(data.texts, data.pairs, data.labels, strict=True) if label]
    texts = [text for row in zip(data.texts, data.pairs, strict=True) for text in row]
    for one, component in zip(texts, components.flat, strict=True):
        for other, others in zip(texts, components.flat, strict=True):
            assert (component == others) == (other in reachable(edges, one))


@pytest.mark.parametrize("seed", [0, 1])
def test_no_text_is_in_two_parts(seed: int) -> None:
    rng = np.random.default_rng(7)
    rows = [
        (f"q{a}", f"Q{b}", int(label))
        for a, b, label in zip(*rng.integers(0, 900, (2, 300)), rng.integers(0, 2, 300), strict=True)
    ]
    parts = split_pairs(pairs(rows), seed=seed, dev=0.2, test=0.1)
    assert [len(part) for part in parts] == [210, 60, 30]
    assert sorted(np.concatenate(parts).tolist()) == list(range(300))
    texts = [{text.lower() for row in part for text in rows[row][:2]} for part in parts]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    again = split_pairs(pairs(rows), seed=seed, dev=0.2, test=0.1)
    assert all(np.array_equal(one, other) for one, other in zip(parts, again, strict=True))
    assert not np.array_equal(parts.test, split_pairs(pairs(rows), seed=seed + 9, dev=0.2, test=0.1).test)


def test_quora(shared_data: Path) -> None:
    data, counts = clean_pairs(load_pairs("cs224n-quora", split="dev", data_dir=shared_data))
    assert (counts.rows, counts.kept, counts.implied) == (20212, 20212, 0)
    assert data.texts[1].startswith('"Which is correct grammar: I graduated')  # its quotation marks undone
    components = paraphrase_components(data)
    assert np.bincount(components.ravel()).max() > 20
    parts = split_pairs(data, seed=0)
    assert [len(part) for part in parts] == [16170, 2021, 2021]
    texts = [{t.casefold() for row in part for t in (data.texts[row], data.pairs[row])} for part in parts]
    assert not texts[0] & (texts[1] | texts[2]) and not texts[1] & texts[2]


def test_files_as_published_and_own(write_file) -> None:
    table = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\t"Say ""hi""?"\tHello?\t1\n'
    folder = write_file("data/quora/quora_duplicate_questions.tsv", table).parents[1]
    data = load_pairs("quora", data_dir=folder)
    assert (data.texts, data.pairs, data.labels.tolist()) == (['Say "hi"?'], ["Hello?"], [1])
    own = write_file("own.csv", "sentence1,sentence2,same\na,b,1\nc,d,0\n")
    assert load_pairs(own, label="same").labels.tolist() == [1, 0]
    assert load_pairs(own, columns=["sentence2", "sentence1"], label="same").texts == ["b", "d"]


def test_user_errors_are_named(write_file, shared_data: Path) -> None:
    own = write_file("own.csv", "sentence1,sentence2,label\na,b,1\nc,d,0.5\n")
    with pytest.raises(InputError, match=r"own.csv: row 2 has the label 0.5; label paraphrases 1"):
        load_pairs(own)
    with pytest.raises(InputError, match="name the two text columns"):
        load_pairs(own, columns=["sentence1"])
    with pytest.raises(InputError, match="does not have pairs of both classes"):
        clean_pairs(load_labelled("trec", split="test", data_dir=shared_data))
    with pytest.raises(InputError, match="all 1 pairs were skipped"):
        clean_pairs(pairs([("a", "a", 1)]))
    with pytest.raises(InputError, match=r"dev=0.1 and test=0.1 of 3 pairs leave the dev split empty"):
        split_pairs(pairs([("a", "b", 1), ("b", "c", 1), ("c", "d", 0)]), seed=0)

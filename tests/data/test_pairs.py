"""Labelled pairs, triples and positive pairs: what is dropped and counted, splits without leaks, batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from sentemb.data import LabelledTexts, load_labelled
from sentemb.data.pairs import (
    NAMES,
    PairBatches,
    clean_pairs,
    draw_pairs,
    find_pair_columns,
    load_pairs,
    load_positive_pairs,
    negative_column,
    pair_batches,
    paraphrase_components,
    read_triples,
    split_pairs,
)
from sentemb.errors import InputError

WriteFile = Callable[[str, str | bytes], Path]
LABELLED = [
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
    while more := {x for edge in edges for x in edge if found & set(edge)} - found:
        found |= more
    return found


def test_cleaning_counts_what_it_drops_and_components_are_what_paraphrases_join() -> None:
    kept, counts = clean_pairs(pairs(LABELLED))
    rows = list(zip(kept.texts, kept.pairs, kept.labels.tolist(), strict=True))
    assert rows == [LABELLED[number] for number in (0, 2, 3, 8, 9)]
    assert str(counts) == (
        "5 pairs from 10 rows; skipped: 1 duplicates, 2 with both labels, 1 with the same text twice, 1 blank"
        ". 1 of the pairs are labelled 0 although other pairs imply that they are paraphrases"
    )
    edges = [(a, b) for a, b, label in rows if label]
    located = list(zip(chain(*(row[:2] for row in rows)), paraphrase_components(kept).flat, strict=True))
    for one, component in located:
        for other, others in located:
            assert (component == others) == (other in reachable(edges, one))


def test_no_text_is_in_two_parts() -> None:
    rng = np.random.default_rng(7)
    drawn = zip(*rng.integers(0, 900, (2, 300)), rng.integers(0, 2, 300), strict=True)
    rows = [(f"q{a}", f"Q{b}", int(label)) for a, b, label in drawn]
    parts, again, other = (split_pairs(pairs(rows), seed=s, dev=0.2, test=0.1) for s in (0, 0, 9))
    assert [len(part) for part in parts] == [210, 60, 30]
    assert sorted(np.concatenate(parts).tolist()) == list(range(300))
    texts = [{text.lower() for row in part for text in rows[row][:2]} for part in parts]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    assert all(np.array_equal(one, two) for one, two in zip(parts, again, strict=True))
    assert not np.array_equal(parts.test, other.test)


def test_labelled_pairs_as_published_and_own(write_file: WriteFile) -> None:
    table = 'id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\t"Say ""hi""?"\tHello?\t1\n'
    folder = write_file("data/quora/quora_duplicate_questions.tsv", table).parents[1]
    data = load_pairs("quora", data_dir=folder)
    assert (data.texts, data.pairs, data.labels.tolist()) == (['Say "hi"?'], ["Hello?"], [1])
    own = write_file("own.csv", "sentence1,sentence2,same\na,b,1\nc,d,0\n")
    assert load_pairs(own, label="same").labels.tolist() == [1, 0]
    assert load_pairs(own, columns=["sentence2", "sentence1"], label="same").texts == ["b", "d"]


def test_errors_of_labelled_pairs(write_file: WriteFile, shared_data: Path) -> None:
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


NLI = """split,premise,hypothesis,label
train,A man eats.,A person eats.,entailment
train,A man eats.,Nobody eats.,contradiction
train,A man eats.,A cat eats.,contradiction
train,a  man eats.,Someone eats.,0
train,A man eats.,He eats bread.,neutral
train,A man eats.,A person eats.,entailment
train,A dog runs.,It moves.,entailment
train,A bird flies.,It sleeps.,2
train,A child plays.,It is loud.,entailment
train,A child plays.,It is loud.,contradiction
train,A child plays., ,entailment
test,A fish swims.,It moves.,entailment
test,A fish swims.,It flies.,contradiction
train,A fish swims.,It is red.,-
"""


def test_triples_account_for_every_row(write_file: WriteFile) -> None:
    triples, counts = read_triples(write_file("nli.csv", NLI), only={"split": "train"}, seed=1)
    assert [(one.anchor, one.positive) for one in triples] == [
        ("A man eats.", "A person eats."),
        ("A man eats.", "Someone eats."),
    ]
    assert {one.negative for one in triples} == {"Nobody eats.", "A cat eats."}
    assert str(counts) == (
        "2 triples from 12 rows; skipped: 1 duplicates, 1 labelled 'neutral', 1 blank, 1 labelled '-', "
        "2 with both labels, 1 entailments without a contradiction, 1 contradictions without an entailment"
    )


def test_the_seed_draws_the_contradiction(write_file: WriteFile) -> None:
    rows = "".join(f"A man eats.,He is {i}.,contradiction\n" for i in range(9))
    source = write_file("nli.csv", f"premise,hypothesis,label\nA man eats.,He lives.,entailment\n{rows}")
    assert len({read_triples(source, seed=seed)[0][0].negative for seed in range(20)}) > 3
    triples, counts = read_triples(source, seed=3)
    assert triples == read_triples(source, seed=3)[0]
    assert "8 contradictions that were not drawn" in str(counts)


def test_errors_of_triples(write_file: WriteFile) -> None:
    source = write_file("few.csv", "premise,hypothesis,label\na,b,neutral\nc,d,entailment\n")
    with pytest.raises(InputError, match="name the columns of premise, hypothesis and label"):
        read_triples(source, columns=("premise", "hypothesis"))
    with pytest.raises(InputError, match="does not yield a triple: 0 triples from 2 rows"):
        read_triples(source)


ROW = ("how to x", "do y", "do z")


FORMATS: dict[str, Callable[[tuple[str, ...]], str | bytes]] = {
    "excel.csv": lambda names: f"\ufeff{';'.join(names)}\r\n{';'.join(ROW[: len(names)])}\r\n",
    "pairs.jsonl": lambda names: json.dumps(dict(zip(names, ROW, strict=False))) + "\n",
}


@pytest.mark.parametrize("file", FORMATS)
def test_usual_names_in_every_format(write_file: WriteFile, file: str) -> None:
    usual = "anchor positive negative/query passage/question answer/Question Context/sentence1 sentence2"
    for names in (usual + "/sent0 sent1 hard_neg/query document Hard_Negative_1").split("/"):
        columns = tuple(names.split())
        found = load_positive_pairs(write_file(file, FORMATS[file](columns)))
        roles = ["anchor", "positive", "negative"][: len(columns)]
        assert (found.names, found.rows.column_names) == (columns, roles)
        assert found.rows[0] == dict(zip(roles, ROW, strict=False))


def test_columns_of_positive_pairs(write_file: WriteFile) -> None:
    present = ["id", "negative_2", "Answer", "negative_1", "source", "question"]
    assert find_pair_columns(present, "a") == ("question", "Answer", "negative_2", "negative_1")
    path = write_file("a.csv", "positive,anchor,score,n\np,a,s,n\n")
    found = load_positive_pairs(path, ["positive", "score", "anchor", "n"])
    assert found.rows[0] == {"anchor": "p", "positive": "s", "negative": "a", "negative_2": "n"}
    found = load_positive_pairs(write_file("a.csv", "query,passage\na,p\n A ,P\na,q\n"))
    assert (found.rows["positive"][:], found.repeated) == (["p", "q"], 1)
    for names, column in ((("question", "answer"), "negative"), (("sent0", "sent1"), "hard_neg")):
        assert negative_column(names) == column
    assert negative_column(("question", "negative")) == "hard_negative"


def test_drawn_pairs_stay_together_and_in_order(write_file: WriteFile) -> None:
    rows = "".join(f"p{number}\th{number}\tneutral\n" for number in [*range(20), *range(5)])
    table, columns = write_file("nli.tsv", f"premise\thypothesis\tlabel\n{rows}"), ("premise", "hypothesis")
    first, second = draw_pairs(table, columns, count=12, seed=3)
    numbers = [int(text[1:]) for text in first]
    assert second == [f"h{number}" for number in numbers]
    assert numbers == sorted(set(numbers)) and len(numbers) == 12
    assert draw_pairs(table, columns, count=12, seed=3) == (first, second)
    assert draw_pairs(table, columns, count=12, seed=4)[0] != first
    with pytest.raises(InputError, match=r"21 pairs from the 20 unique pairs of .*nli\.tsv"):
        draw_pairs(table, columns, count=21)
    with pytest.raises(InputError, match="only one text column, premise"):
        draw_pairs(table, ("premise",), count=1)


FAQ = [
    *((f"q{number}", f"a{number % 12}", f"a{(number + 1) % 12}") for number in range(60)),
    *((f"q{number}", f"a{(number + 5) % 12}", "n") for number in range(0, 60, 4)),
]


def conflicting(rows: list[tuple[str, ...]]) -> bool:
    """Tell whether a row has a text that is another row's question, answer, or other answer."""
    positives: dict[str, set[str]] = {}
    for anchor, positive, *_ in FAQ:
        positives.setdefault(anchor, set()).add(positive)
    return any({one[0], *positives[one[0]]} & {*other} for one in rows for other in rows if one is not other)


@pytest.mark.parametrize("columns", [2, 3])
def test_no_known_positive_is_a_negative_in_its_batch(columns: int) -> None:
    rows = [row[:columns] for row in FAQ]
    batches = PairBatches(*zip(*(row[:2] for row in rows), strict=True), [row[2:] for row in rows], 8)
    seen: list[int] = []
    for epoch in range(8):
        batches.set_epoch(epoch)
        drawn = list(batches)
        assert len(drawn) == len(batches)
        assert all(0 < len(batch) <= 8 and not conflicting([rows[row] for row in batch]) for batch in drawn)
        places = list(chain(*drawn))
        assert len(places) == len(set(places))
        seen += places
    assert {*seen} == {*range(len(rows))}


def test_unique_pairs_fill_their_batches_in_another_order_every_epoch() -> None:
    from datasets import Dataset

    data = {"anchor": [f"q{n}" for n in range(21)], "positive": [f"a{n}" for n in range(21)]}
    batches = pair_batches(Dataset.from_dict(data), 8, drop_last=False, seed=3)
    first = list(batches)
    assert sorted(map(len, first)) == [5, 8, 8] and sorted(chain(*first)) == [*range(21)]
    assert list(batches) == first
    batches.set_epoch(1)
    assert list(batches) != first
    few = PairBatches([f"q{n}" for n in range(30)], [f"a{n % 3}" for n in range(30)], [()] * 30, 8)
    drawn = list(few)  # fewer passages than rows in a batch make more batches
    assert len(drawn) == len(few) == 10 and sorted(chain(*drawn)) == [*range(30)]

"""Test-set texts in training texts: the same words or inside longer texts, counts, places."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from sentemb.data.contamination import HeldOut, KnownTexts, find_contamination, load_held_out, words_key
from sentemb.data.files import Row
from sentemb.data.sources import read_rows

WORDS = "a the cat dog sat ran on mat in park man woman plays guitar red apple two birds".split()
PAIRS = HeldOut(
    "pairs",
    "test",
    (
        ("A man plays the red guitar.", "Two birds fly over the house"),
        ("A man plays the red guitar.", "Nobody has ever seen this one"),
        ("two birds FLY over the house", ""),
        ("", ""),
    ),
)


def train(*texts: str) -> list[Row]:
    return [Row(f"train.txt:{number}", {"text": text}) for number, text in enumerate(texts, start=1)]


@pytest.mark.parametrize(
    ("texts", "text", "how"),
    [
        (["a man plays."], "A  man\tplays.", "exact"),
        (["full width 1"], "ｆｕｌｌ width ①", "exact"),
        (["cafe\u0301"], "caf\u00e9", "exact"),
        (["STRASSE"], "Straße\u00a0", "exact"),
        (["...", "a"], "...", "exact"),
        (["Two dogs don't stop -- (we think)."], "two dogs don't stop ( we think ) .", "exact"),
        (["a man plays the red guitar", "the red"], "so a man plays the red guitar it is", "inside"),
        (["a man plays the red guitar"], "a man plays a man plays the red guitar", "inside"),
        (["一个戴着硬帽子的人在跳舞。"], "看,一个戴着硬帽子的人在跳舞。", "inside"),
        (["Two dogs run, they don't stop (we think)."], "Two cats sleep, they don't move (I hope).", None),
        (["a man plays the red guitar"], "so a man plays the red, red guitar and sings", None),
        (["...", "a"], "", None),
        (["...", "a"], "!?", None),
    ],
)  # fmt: skip
def test_known_texts_by_hand(texts: list[str], text: str, how: str | None) -> None:
    keys = [words_key(one) for one in texts]
    assert list(KnownTexts(keys).find(text)) == ([(keys[0], how)] if how else [])


def test_each_text_counts_once_for_its_best_place() -> None:
    rows = train(
        "Today a man plays the red guitar in town",
        "a  MAN plays the red guitar.",
        "A man plays the red guitar.",
        "Now two birds fly over the house",
    )
    seen, (found,) = find_contamination(rows, [PAIRS])
    assert seen == len(rows)
    assert (found.texts, found.rows, found.whole_rows) == (3, 4, 2)
    assert [found.count(how) for how in ("exact", "inside")] == [1, 1]
    exact, inside = found.findings
    assert (exact.text, exact.how, exact.location) == ("A man plays the red guitar.", "exact", "train.txt:2")
    assert exact.found == "a  MAN plays the red guitar."
    assert (inside.location, inside.how) == ("train.txt:4", "inside")
    _, (found,) = find_contamination(rows[:1], [PAIRS])
    (inside,) = found.findings
    assert (inside.how, inside.location) == ("inside", "train.txt:1")


def test_every_cell_of_a_row_counts_but_numbers(write_file: Callable[[str, str], Path]) -> None:
    path = write_file("train.csv", "sent0,score,sent1\nnot here,4.5,a man sat on the mat\n")
    held_out = load_held_out([str(write_file("mine.tsv", "q\tn\na man sat on the mat\t4.5\n"))])
    _, (found,) = find_contamination(read_rows(path), held_out)
    assert [finding.location for finding in found.findings] == [f"{path}:2"]
    assert found.texts == 1  # 4.5 is not a text


def test_splits_that_systems_are_evaluated_on(shared_data: Path) -> None:
    names = ["transfer", "sts17-es-es", "stsb", "trec", "qnli"]
    sets = {one.name: one for one in load_held_out(names, data_dir=shared_data)}
    assert list(sets) == "mr cr subj mpqa sst2-senteval trec mrpc-msr sts17-es-es stsb qnli".split()
    counts = {name: (one.split, len(one.rows), len(one.rows[0])) for name, one in sets.items()}
    assert counts["mr"] == ("train", 10662, 1)  # scored by cross-validation
    assert counts["mrpc-msr"] == ("test", 1725, 2) and counts["stsb"] == ("test", 1379, 2)
    assert counts["qnli"] == ("test", 5463, 2)  # without labels


def test_real_triples_hold_no_sentence_of_the_sets(shared_data: Path) -> None:
    """They were made so; what is left are captions that contain a test sentence."""
    records = islice(read_rows("nli-triples", columns=["sent1"], data_dir=shared_data), 7000)
    sets = load_held_out(["stsb", "sickr"], data_dir=shared_data)
    for one in find_contamination(records, sets)[1]:
        assert one.count("exact") == 0 < one.count("inside") < 100
    tests = (Row(f"{row}", {"a": text}) for row, pair in enumerate(sets[0].rows) for text in pair)
    _, (whole, _) = find_contamination(tests, sets)
    assert whole.count("exact") == whole.texts == 2550 and whole.whole_rows == 1379

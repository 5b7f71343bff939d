"""What of test sets is in a training text: counts, places, and which texts of a set count."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from sentemb.data.contamination import HeldOut, find_contamination, load_held_out
from sentemb.data.files import Row
from sentemb.data.sources import read_rows
from sentemb.errors import InputError

WriteFile = Callable[[str, str], Path]


def train(*texts: str) -> list[Row]:
    return [Row(f"train.txt:{number}", {"text": text}) for number, text in enumerate(texts, start=1)]


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


def test_each_text_counts_once_for_its_best_place() -> None:
    rows = train(
        "Today a man plays the red guitar in town",
        "a man plays a red guitar",
        "a  MAN plays the red guitar.",
        "A man plays the red guitar.",
        "Two birds fly over the big house",
    )
    (found,) = find_contamination(rows, [PAIRS]).sets
    assert (found.texts, found.rows, found.whole_rows) == (3, 4, 2)
    assert [found.count(how) for how in ("exact", "inside", "near")] == [1, 0, 1]
    exact, near = found.findings
    assert (exact.text, exact.how, exact.location) == (
        "A man plays the red guitar.", "exact", "train.txt:3",
    )  # fmt: skip
    assert exact.found == "a  MAN plays the red guitar."
    assert (near.location, near.how, near.nearness) == ("train.txt:5", "near", pytest.approx(12 / 13))
    (inside,) = find_contamination(rows[:1], [PAIRS]).sets[0].findings
    assert (inside.how, inside.location) == ("inside", "train.txt:1")


def test_the_nearest_place_wins_and_sets_do_not_mix() -> None:
    words = [f"w{number}" for number in range(20)]
    whole = " ".join(words)
    sets = [HeldOut("one", "", ((whole,),)), HeldOut("two", "", ((whole,), ("something else",)))]
    rows = train(" ".join(words[2:]), " ".join(words[1:]), " ".join(words[3:]))
    result = find_contamination(rows, sets, nearness=0.8)
    assert result.texts == 3
    for one in result.sets:
        (finding,) = one.findings
        assert (finding.location, finding.nearness) == ("train.txt:2", pytest.approx(2 * 19 / 39))
    assert [one.texts for one in result.sets] == [1, 2]


def test_every_cell_of_a_row_counts_but_numbers(write_file: WriteFile) -> None:
    path = write_file("train.csv", "sent0,score,sent1\nnot here,4.5,a man sat on the mat\n")
    held_out = load_held_out([str(write_file("mine.tsv", "q\tn\na man sat on the mat\t4.5\n"))])
    (found,) = find_contamination(read_rows(path), held_out).sets
    (finding,) = found.findings
    assert finding.location == f"{path}:2"
    assert found.texts == 1  # 4.5 is no text


def test_result_as_json() -> None:
    values = find_contamination(train("a man plays the red guitar."), [PAIRS]).to_json()
    assert json.loads(json.dumps(values)) == {
        "texts": 1,
        "nearness": 0.9,
        "sets": [
            {
                "name": "pairs",
                "split": "test",
                "texts": 3,
                "exact": 1,
                "inside": 0,
                "near": 0,
                "rows": 4,
                "whole_rows": 0,
                "findings": [
                    {
                        "text": "A man plays the red guitar.",
                        "how": "exact",
                        "nearness": 1.0,
                        "location": "train.txt:1",
                        "found": "a man plays the red guitar.",
                    }
                ],
            }
        ],
    }


def test_splits_that_systems_are_evaluated_on(shared_data: Path) -> None:
    names = ["transfer", "sts17-es-es", "stsb", "trec", "qnli"]
    sets = {one.name: one for one in load_held_out(names, data_dir=shared_data)}
    assert list(sets) == [
        "mr", "cr", "subj", "mpqa", "sst2-senteval", "trec", "mrpc-msr", "sts17-es-es", "stsb", "qnli",
    ]  # fmt: skip
    counts = {name: (one.split, len(one.rows), len(one.rows[0])) for name, one in sets.items()}
    assert counts["mr"] == ("train", 10662, 1)  # scored by cross-validation
    assert counts["mrpc-msr"] == ("test", 1725, 2)
    assert counts["stsb"] == ("test", 1379, 2)
    assert counts["qnli"] == ("test", 5463, 2)  # without labels


def test_real_triples_hold_no_sentence_of_the_sets(shared_data: Path) -> None:
    """They were made so; what is left are captions that contain a test sentence, or resemble one."""
    records = islice(read_rows("nli-triples", columns=["sent1"], data_dir=shared_data), 7000)
    sets = load_held_out(["stsb", "sickr"], data_dir=shared_data)
    for one in find_contamination(records, sets).sets:
        assert one.count("exact") == 0 < one.count("inside") + one.count("near") < 100
    tests = (Row(f"{row}", {"a": text}) for row, pair in enumerate(sets[0].rows) for text in pair)
    whole, _ = find_contamination(tests, sets).sets
    assert whole.count("exact") == whole.texts == 2551 and whole.whole_rows == 1379


def test_memory_is_that_of_the_test_set() -> None:
    """The training text is a stream of which nothing but findings is kept."""
    seen = []

    def stream() -> object:
        for number in range(100_001):
            yield Row(f"big:{number}", {"text": "x" if number else "a man plays the red guitar."})

    result = find_contamination(stream(), [PAIRS], progress=seen.append)
    assert seen == [100_000] and result.texts == 100_001
    assert result.sets[0].count("exact") == 1


@pytest.mark.parametrize("nearness", [0.5, 1.01, float("nan")])
def test_nearness_out_of_range(nearness: float) -> None:
    with pytest.raises(InputError, match=r"nearness is .*; choose a value above 0\.5 and up to 1"):
        find_contamination([], [PAIRS], nearness=nearness)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("wiki-sentences", "is not a test set"),
        ("sts99", "unknown data set 'sts99'"),
        ("no.csv", "no such file"),
    ],
)
def test_what_is_no_test_set(name: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        load_held_out([name], data_dir=tmp_path)

"""Test-set texts in training texts: near duplicates compared with a loop over all pairs, counts, places."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from sentemb.data.contamination import HeldOut, NearTexts, find_contamination, fold, load_held_out
from sentemb.data.files import Row
from sentemb.data.sources import read_rows
from sentemb.errors import InputError

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


def common(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by the textbook's table."""
    above = [0] * (len(second) + 1)
    for one in first:
        row = [0]
        for j, other in enumerate(second):
            row.append(above[j] + 1 if one == other else max(above[j + 1], row[j]))
        above = row
    return above[-1]


def draw(generator: np.random.Generator, count: int) -> list[str]:
    """Draw sentences with repeated words; half of them are others with a word changed, left out or added."""
    texts = [" ".join(generator.choice(WORDS, generator.integers(1, 14))) for _ in range(count // 2)]
    for text in list(texts):
        words = text.split()
        place = int(generator.integers(len(words)))
        changed = [[], [words[place], "unheard"], [str(generator.choice(WORDS))]][generator.integers(3)]
        texts.append(" ".join([*words[:place], *changed, *words[place + 1 :]]) or "a")
    return texts


@pytest.mark.parametrize("nearness", [0.6, 0.8, 0.9, 1.0])
def test_no_near_text_is_missed_and_none_is_made_up(nearness: float) -> None:
    generator = np.random.default_rng(0)
    wanted = list(dict.fromkeys(draw(generator, 80)))
    index = NearTexts(wanted, nearness=nearness)
    for text in [*draw(generator, 20), *(f"{one} dog" for one in wanted[::4])]:
        words, expected = text.split(), {}
        for number, other in enumerate(wanted):
            near = 2 * common(words, other.split()) / (len(words) + len(other.split()))
            if near >= nearness - 1e-9:
                expected[number] = near
        found = {match.number: match for match in index.find(text)}
        assert {n for n, one in found.items() if one.how != "inside" or n in expected} == set(expected)
        assert all(math.isclose(m.nearness, expected[n]) for n, m in found.items() if m.how == "near")


@pytest.mark.parametrize(
    ("texts", "text", "how", "nearness"),
    [
        (["a man plays."], "A  man\tplays.", "exact", 1.0),
        (["full width 1"], "ｆｕｌｌ width ①", "exact", 1.0),
        (["cafe\u0301"], "caf\u00e9", "exact", 1.0),
        (["STRASSE"], "Straße\u00a0", "exact", 1.0),
        (["...", "a"], "...", "exact", 1.0),
        (["Two dogs don't stop -- (we think)."], "two dogs don't stop ( we think ) .", "near", 1.0),
        (["一个戴着硬帽子的人在跳舞。"], "一个戴着硬帽的人在跳舞。", "near", 22 / 23),  # words
        (["a man plays the red guitar", "the red"], "so a man plays the red guitar it is", "inside", 1.0),
        (["a man plays the red guitar"], "a man plays a man plays the red guitar", "inside", 1.0),
        (["Two dogs run, they don't stop (we think)."], "Two cats sleep, they don't move (I hope).", None, 0),
        (["a man plays the red guitar"], "so a man plays the red, red guitar and sings", None, 0),
        (["...", "a"], "", None, 0),
        (["...", "a"], "!?", None, 0),
    ],
)  # fmt: skip
def test_near_texts_by_hand(texts: list[str], text: str, how: str | None, nearness: float) -> None:
    found = list(NearTexts([fold(one) for one in texts], nearness=0.9).find(text))
    assert [(match.number, match.how) for match in found] == ([(0, how)] if how else [])
    assert not found or found[0].nearness == pytest.approx(nearness)


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
    assert (exact.text, exact.how, exact.location) == ("A man plays the red guitar.", "exact", "train.txt:3")
    assert exact.found == "a  MAN plays the red guitar."
    assert (near.location, near.how, near.nearness) == ("train.txt:5", "near", pytest.approx(12 / 13))
    (inside,) = find_contamination(rows[:1], [PAIRS]).sets[0].findings
    assert (inside.how, inside.location) == ("inside", "train.txt:1")


def test_the_nearest_place_wins_and_sets_do_not_mix() -> None:
    words = [f"w{number}" for number in range(20)]
    whole = " ".join(words)
    sets = [HeldOut("one", "", ((whole,),)), HeldOut("two", "", ((whole,), ("something else",)))]
    result = find_contamination(train(*(" ".join(words[n:]) for n in (2, 1, 3))), sets, nearness=0.8)
    assert result.texts == 3 and [one.texts for one in result.sets] == [1, 2]
    for one in result.sets:
        (finding,) = one.findings
        assert (finding.location, finding.nearness) == ("train.txt:2", pytest.approx(2 * 19 / 39))


def test_every_cell_of_a_row_counts_but_numbers(write_file: Callable[[str, str], Path]) -> None:
    path = write_file("train.csv", "sent0,score,sent1\nnot here,4.5,a man sat on the mat\n")
    held_out = load_held_out([str(write_file("mine.tsv", "q\tn\na man sat on the mat\t4.5\n"))])
    (found,) = find_contamination(read_rows(path), held_out).sets
    assert [finding.location for finding in found.findings] == [f"{path}:2"]
    assert found.texts == 1  # 4.5 is not a text


def test_result_as_json() -> None:
    values = find_contamination(train("a man plays the red guitar."), [PAIRS]).to_json()
    text, found = "A man plays the red guitar.", "a man plays the red guitar."
    finding = {"text": text, "how": "exact", "nearness": 1.0, "location": "train.txt:1", "found": found}
    counts = {"texts": 3, "exact": 1, "inside": 0, "near": 0, "rows": 4, "whole_rows": 0}
    one = {"name": "pairs", "split": "test", **counts, "findings": [finding]}
    assert json.loads(json.dumps(values)) == {"texts": 1, "nearness": 0.9, "sets": [one]}


def test_splits_that_systems_are_evaluated_on(shared_data: Path) -> None:
    names = ["transfer", "sts17-es-es", "stsb", "trec", "qnli"]
    sets = {one.name: one for one in load_held_out(names, data_dir=shared_data)}
    assert list(sets) == "mr cr subj mpqa sst2-senteval trec mrpc-msr sts17-es-es stsb qnli".split()
    counts = {name: (one.split, len(one.rows), len(one.rows[0])) for name, one in sets.items()}
    assert counts["mr"] == ("train", 10662, 1)  # scored by cross-validation
    assert counts["mrpc-msr"] == ("test", 1725, 2) and counts["stsb"] == ("test", 1379, 2)
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


def test_training_text_is_a_stream_with_progress() -> None:
    seen: list[int] = []
    stream = (Row(f"{n}", {"text": "x" if n else "a man plays the red guitar."}) for n in range(100_001))
    result = find_contamination(stream, [PAIRS], progress=seen.append)
    assert seen == [100_000] and result.texts == 100_001 and result.sets[0].count("exact") == 1


def test_errors(tmp_path: Path) -> None:
    for nearness in (0.5, 1.01, float("nan")):
        with pytest.raises(InputError, match=r"nearness is .*; choose a value above 0\.5 and up to 1"):
            find_contamination([], [PAIRS], nearness=nearness)
    problems = {
        "wiki-sentences": "is not a test set",
        "sts99": "unknown data set 'sts99'",
        "no.csv": "no such file",
    }
    for name, problem in problems.items():
        with pytest.raises(InputError, match=problem):
            load_held_out([name], data_dir=tmp_path)

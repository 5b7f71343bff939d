"""`sentemb data split-pairs`, `nli-triples` and `mine-negatives`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sentemb.data import load_columns
from sentemb.data.pairs import load_positive_pairs

PAIRS = "".join(
    f"{first},{second},{label}\n"
    for first, second, label in [
        ("a cat sat", "the cat sat", 1),
        ("the cat sat", "a cat sat", 1),
        *((f"man {word}", f"a man {word}", number % 2) for number, word in enumerate("abcdefgh")),
    ]
)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_split_pairs(write_file, tmp_path, sentemb) -> None:
    source = write_file("pairs.csv", f"one,two,same\n{PAIRS}")
    columns = ["--columns", "one,two", "--label", "same"]
    code, out, _ = sentemb("data", "split-pairs", str(source), *columns, "--output", str(tmp_path / "parts"))
    assert code == 0
    assert out.startswith("9 pairs from 10 rows; skipped: 1 duplicates") and "train.jsonl: 7 pairs" in out
    parts = {name: rows_of(tmp_path / "parts" / f"{name}.jsonl") for name in ("train", "dev", "test")}
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 7, "dev": 1, "test": 1}
    assert parts["train"][0].keys() == {"sentence1", "sentence2", "label"}


def test_nli_triples(write_file, tmp_path, sentemb) -> None:
    table = "part,p,h,l\ntrain,A,B,entailment\ntrain,A,C,contradiction\ndev,A,D,contradiction\n"
    columns = ["--columns", "p,h,l"]
    source, output = str(write_file("nli.csv", table)), tmp_path / "triples.jsonl"
    code, out, _ = sentemb("data", "nli-triples", source, *columns, "--only", "part=train", "-o", str(output))
    assert code == 0 and "1 triples from 2 rows" in out
    assert rows_of(output) == [{"sent0": "A", "sent1": "B", "hard_neg": "C"}]


def test_mine_negatives_makes_triples_that_train(write_file, tiny_bert, tmp_path, sentemb) -> None:
    source = write_file("pairs.csv", f"one,two,same\n{PAIRS}")
    corpus = write_file("corpus.txt", "two birds fly over the house\na red apple\n")
    output = tmp_path / "triples.jsonl"
    mining = ["data", "mine-negatives", source, "--model", tiny_bert, "--pooling", "mean"]
    named = ["--columns", "one,two", "--corpus", corpus.as_uri(), "--margin", "0.01"]
    code, out, error = sentemb(*mining, *named, "-o", output)
    assert code == 0 and "triples from 10 pairs" in out
    assert load_columns(output, ["one", "two", "negative"]).num_rows == len(rows_of(output)) > 0
    command = (
        f"sentemb train pairs --data {output} --columns one,two,negative --base {tiny_bert} --output mine"
    )
    assert error.splitlines()[-1] == f"next: {command}"


@pytest.mark.parametrize(
    ("names", "third"),
    [
        (("anchor", "positive"), "negative"),
        (("Question", "Answer"), "negative"),
        (("sent0", "sent1"), "hard_neg"),
    ],
)
def test_mined_triples_keep_the_names_and_need_none_to_train(
    write_file, tiny_bert, tmp_path, sentemb, names: tuple[str, str], third: str
) -> None:
    texts = [f"{noun} {verb}" for noun in ("cat", "dog", "man", "woman") for verb in ("sat", "ran", "eat")]
    rows = "".join(f"{text},a {text} in the house\n" for text in texts)
    source, output = write_file("pairs.csv", f"{','.join(names)}\n{rows}"), tmp_path / "triples.csv"
    mining = ["data", "mine-negatives", source, "--model", tiny_bert, "--pooling", "mean", "-o", output]
    code, _, error = sentemb(*mining, "--margin", "0")
    assert code == 0
    assert error.splitlines()[-1] == (
        f"next: sentemb train pairs --data {output} --base {tiny_bert} --output mine"
    )
    found = load_positive_pairs(output)
    assert found.names == (*names, third)
    assert {*found.rows["positive"]} <= {f"a {text} in the house" for text in texts}
    options = ("--held-out", "0", "--max-steps", "1", "--batch-size", "4", "--output", tmp_path / "mine")
    code, _, error = sentemb("train", "pairs", "--data", output, "--base", tiny_bert, *options)
    index = f"{tmp_path / 'mine'}-index"
    assert code == 0 and error.splitlines()[-1] == (
        f"next: sentemb index build {output} --text-column {names[1]} --model {tmp_path / 'mine'} "
        f"--output {index}"
    )

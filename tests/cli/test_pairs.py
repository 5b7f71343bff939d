"""`sentemb data split-pairs`, `nli-triples` and `mine-negatives`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sentemb.data import load_columns

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
    columns = ["--column", "one", "--column", "two", "--label", "same"]
    code, out, _ = sentemb("data", "split-pairs", str(source), *columns, "--output", str(tmp_path / "parts"))
    assert code == 0
    assert out.startswith("9 of 10 pairs are left") and "train.jsonl: 7 pairs" in out
    parts = {name: rows_of(tmp_path / "parts" / f"{name}.jsonl") for name in ("train", "dev", "test")}
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 7, "dev": 1, "test": 1}
    assert parts["train"][0].keys() == {"sentence1", "sentence2", "label"}


def test_nli_triples(write_file, tmp_path, sentemb) -> None:
    table = "part,p,h,l\ntrain,A,B,entailment\ntrain,A,C,contradiction\ndev,A,D,contradiction\n"
    columns = [part for name in "phl" for part in ("--column", name)]
    source, output = str(write_file("nli.csv", table)), tmp_path / "triples.jsonl"
    code, out, _ = sentemb("data", "nli-triples", source, *columns, "--only", "part=train", "-o", str(output))
    assert code == 0 and "1 triples of 2 rows" in out
    assert rows_of(output) == [{"sent0": "A", "sent1": "B", "hard_neg": "C"}]
    other = ("-o", str(tmp_path / "other.jsonl"))
    code, _, error = sentemb("data", "nli-triples", source, *columns, "--only", "train", *other)
    assert (code, "--only train sets nothing; write --only COLUMN=VALUE" in error) == (2, True)
    code, _, error = sentemb("data", "nli-triples", source, *columns, "-o", str(tmp_path / "triples.txt"))
    assert (code, "name it .csv, .jsonl" in error) == (2, True)


def test_mine_negatives_makes_triples_that_train(write_file, tiny_bert, tmp_path, sentemb) -> None:
    source = write_file("pairs.csv", f"one,two,same\n{PAIRS}")
    corpus = write_file("corpus.txt", "two birds fly over the house\na red apple\n")
    output = tmp_path / "triples.jsonl"
    arguments = ["mine-negatives", str(source), "--column", "one", "--column", "two", "-o", str(output)]
    arguments += [
        "--model",
        str(tiny_bert),
        "--pooling",
        "mean",
        "--corpus",
        corpus.as_uri(),
        "--margin",
        "0.01",
    ]
    code, out, _ = sentemb("data", *arguments)
    assert code == 0 and "triples of 10 pairs" in out
    assert load_columns(output, ["sent0", "sent1", "hard_neg"]).num_rows == len(rows_of(output)) > 0
    other = ("-o", str(tmp_path / "other.jsonl"))
    code, _, error = sentemb("data", *arguments[:2], "--model", str(tiny_bert), *other)
    assert code == 2 and "has no column 'sent0'" in error
